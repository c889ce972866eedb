//! Inputs made worse step by step, from a seed: for everything that reads what others write.
//!
//! A target takes bytes and answers with the kind of its answer (`"ok"`, an error's text); it panics when a promise is
//! broken. An input that leads to an answer of a new kind is kept and made worse in turn, which finds its way behind
//! the first error as coverage would. `cargo test` tries a few hundred inputs a target; `cargo xtask fuzz` sets:
//!
//! - `CF_FUZZ_SECONDS=600`: how long each target is tried;
//! - `CF_FUZZ_SEED=42`: where it begins. A failure prints its seed and its input, made as short as was possible.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How many inputs are tried where no time is given.
const FEW: u64 = 400;

/// How many inputs are kept to be made worse.
const KEPT: usize = 2_000;

/// The longest input, in bytes.
const LONGEST: usize = 1 << 20;

/// Pieces that have broken readers before: controls, what is no text, brackets, numbers at the edges.
const PIECES: [&[u8]; 36] = [
    b"\x1b[2J",
    b"\x1b]8;;http://x\x1b\\",
    b"\x1bP",
    b"\x9b31m",
    b"\xc2\x9b31m",
    b"\xc2\x85",
    b"\xe2\x80\xae",
    b"\xe2\x81\xa6",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\0",
    b"\r\n",
    b"\n",
    b"\t",
    b"\\u0000",
    b"\\ud800",
    b"\"",
    b"'''",
    b"\"\"\"",
    b"[[",
    b"]]",
    b"{",
    b"}",
    b"=",
    b".",
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9223372036854775807",
    b"1e999",
    b"-",
    b"%",
    b"/../",
];

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        let most = if self.below(4) == 0 { length } else { 24 };
        from..(from + self.below(most + 1)).min(length)
    }
}

/// Tries a target with the corpus, and with what becomes of it.
///
/// # Panics
///
/// The target does for some input; the message has the input and how to try it again.
pub fn fuzz(name: &str, corpus: &[&str], words: &[&str], target: impl Fn(&[u8]) -> String) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (seconds, seed) = (number("CF_FUZZ_SECONDS"), number("CF_FUZZ_SEED"));
    let seed = seed.unwrap_or(0);
    let mut rng = Rng(name
        .bytes()
        .fold(seed, |all, byte| all.rotate_left(7) ^ u64::from(byte)));
    let mut pool: Vec<Vec<u8>> = corpus.iter().map(|text| text.as_bytes().to_vec()).collect();
    pool.push(Vec::new());
    let mut kinds = HashSet::new();
    let begun = Instant::now();
    let mut tried = 0u64;
    loop {
        let first = usize::try_from(tried).ok().filter(|nth| *nth < pool.len());
        let input = match first {
            Some(nth) => pool[nth].clone(),
            None => worse(&mut rng, &pool, words),
        };
        let Ok(kind) = catch_unwind(AssertUnwindSafe(|| target(&input))) else {
            let input = shown(&shorter(input, &target));
            panic!("{name}, CF_FUZZ_SEED={seed}: this input breaks it: b\"{input}\"");
        };
        if kinds.insert(class(&kind)) && first.is_none() && pool.len() < KEPT {
            pool.push(input);
        }
        tried += 1;
        let enough = match seconds {
            Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
            None => tried >= FEW,
        };
        if enough {
            break;
        }
    }
    println!(
        "{name}: {tried} inputs, {} kinds of answers, in {:?}",
        kinds.len(),
        begun.elapsed()
    );
}

/// An answer without what makes each one another: numbers, and whatever comes late.
fn class(answer: &str) -> String {
    let plain = answer.chars().filter(|c| !c.is_numeric());
    plain.take(60).collect()
}

fn worse(rng: &mut Rng, pool: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = pool[rng.below(pool.len())].clone();
    for _ in 0..=rng.below(6) {
        let at = rng.below(input.len() + 1);
        match rng.below(9) {
            0 if !input.is_empty() => {
                let at = rng.below(input.len());
                input[at] ^= 1 << rng.below(8);
            }
            1 => {
                let range = rng.range(input.len());
                input.drain(range);
            }
            2 => {
                let range = rng.range(input.len());
                let copy = input[range].to_vec();
                input.splice(at..at, copy);
            }
            3 => {
                let other = &pool[rng.below(pool.len())];
                let range = rng.range(other.len());
                let copy = other[range].to_vec();
                input.splice(at..at, copy);
            }
            4 => {
                let piece = PIECES[rng.below(PIECES.len())];
                input.splice(at..at, piece.iter().copied());
            }
            5 | 6 if !words.is_empty() => {
                let word = words[rng.below(words.len())];
                input.splice(at..at, word.bytes());
            }
            7 => {
                // A long run of one thing: depth, or a huge line.
                let piece = PIECES[rng.below(PIECES.len())].to_vec();
                let most = if rng.below(50) == 0 { 15 } else { 7 };
                let times = 1 << rng.below(most);
                input.splice(at..at, piece.repeat(times));
            }
            _ => {
                let byte = u8::try_from(rng.below(256)).unwrap_or(0);
                input.insert(at, byte);
            }
        }
    }
    input.truncate(LONGEST);
    input
}

/// Takes pieces out of an input for as long as it still breaks the target.
fn shorter(mut input: Vec<u8>, target: &impl Fn(&[u8]) -> String) -> Vec<u8> {
    let breaks = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| target(input))).is_err();
    let mut size = input.len() / 2;
    let mut tries = 0;
    while size > 0 && tries < 300 {
        let mut at = 0;
        while at < input.len() && tries < 300 {
            tries += 1;
            let mut without = input.clone();
            without.drain(at..(at + size).min(input.len()));
            if breaks(&without) {
                input = without;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    input
}

fn shown(input: &[u8]) -> String {
    let mut text = String::new();
    for byte in input.iter().take(4_000) {
        let _ = write!(text, "{}", std::ascii::escape_default(*byte));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_breaks_is_found_and_its_input_made_short() {
        let broken = catch_unwind(|| {
            fuzz("broken", &["a = 'b'"], &["needle"], |bytes| {
                let text = String::from_utf8_lossy(bytes);
                assert!(!text.contains("needle"));
                "ok".to_owned()
            });
        });
        let message = *broken
            .expect_err("it breaks")
            .downcast::<String>()
            .expect("a text");
        assert!(message.contains("b\"needle\""), "{message}");
    }

    #[test]
    fn one_seed_makes_one_row_of_inputs() {
        let row = |seed| {
            let mut rng = Rng(seed);
            let pool = [b"abc".to_vec()];
            (0..50)
                .map(|_| worse(&mut rng, &pool, &["x"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(row(3), row(3));
        assert_ne!(row(3), row(4));
    }
}
