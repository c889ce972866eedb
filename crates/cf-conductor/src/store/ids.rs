//! Sets and maps by the ids of tasks, for what goes through all tasks there are.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cf_core::TaskId;

/// Hashes what is random already, as ids are, and so cheaply.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl IdHasher {
    const fn add(&mut self, word: [u8; size_of::<u64>()]) {
        // The product with an odd number (here 2^64 divided by the golden ratio) keeps all that the word tells. The
        // last bytes of an id come to its low bits, so that ids which were counted up differ there too.
        self.0 =
            (self.0.rotate_left(32) ^ u64::from_be_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(*word);
        }
        if !rest.is_empty() {
            let mut word = [0; size_of::<u64>()];
            word[..rest.len()].copy_from_slice(rest);
            self.add(word);
        }
    }

    /// The length of an id, which says nothing.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A set of ids.
pub type IdSet = HashSet<TaskId, BuildHasherDefault<IdHasher>>;

/// A map by ids.
pub type ById<T> = HashMap<TaskId, T, BuildHasherDefault<IdHasher>>;
