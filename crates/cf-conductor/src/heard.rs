//! What an agent has said of itself, read from its log: at its end for the verdict, while it runs for whoever looks.
//!
//! Nothing here is asked by the batch loop while an agent runs: output never passes through the conductor. Memory stays
//! bounded by the parts of a log that are read, whatever an agent writes.

use std::path::Path;

use cf_core::Ending;

use crate::engine::{SuccessRule, TAIL_BYTES, Verdict};
use crate::store::attempt::Attempt;
use crate::supervise::Stage;
use crate::supervise::logfile::LogReader;

/// How much of the beginning of a log is read for the session, which programs name first.
const HEAD_BYTES: usize = 64 << 10;

/// How much of the end of a log is read for the latest word. A longer event is passed over.
const LATEST_BYTES: usize = 64 << 10;

/// What a log says, and the part of it that says so.
#[derive(Debug)]
pub(crate) struct Heard {
    pub verdict: Verdict,
    /// At most [`TAIL_BYTES`].
    pub tail: Vec<u8>,
}

/// Judges a log as it is now, given how its process ended.
pub(crate) fn so_far(rule: SuccessRule, ending: Ending, log: &Path) -> Heard {
    let tail = tail(log);
    let mut verdict = rule.judge(ending, &tail);
    if verdict.session.is_none() && tail.len() >= TAIL_BYTES {
        let mut reader = LogReader::new(log);
        let head = reader.read_from(0, HEAD_BYTES).unwrap_or_default();
        verdict.session = rule.session_in(&head.bytes);
    }
    Heard { verdict, tail }
}

/// Adds to an attempt whose agent still runs what its log says until now, and its end will store: the last thing that
/// it said, its session, its tokens and cost. Reads at most 4 MiB; a log that cannot be read says nothing.
pub fn catch_up(attempt: &mut Attempt, log: &Path) {
    let rule = attempt.format.unwrap_or(SuccessRule::ExitZero);
    if !attempt.open || attempt.end.is_some() || attempt.stage != Stage::Agent {
        return;
    }
    let Verdict {
        last_said,
        session,
        tokens,
        cost_usd,
        ..
    } = so_far(rule, Ending::Code(0), log).verdict;
    attempt.last_said = last_said;
    attempt.session = session;
    attempt.set_used(tokens);
    attempt.cost_micro_usd = cost_usd.map(micro_usd);
}

/// The most millionths of a dollar that are kept, 2^53: a number that every reader of JSON keeps exactly.
const MOST_MICRO_USD: u64 = 1 << 53;

/// Dollars as whole millionths, as stored.
pub(crate) fn micro_usd(cost: f64) -> u64 {
    // From an agent's output, where anything may stand: what is no amount becomes 0.
    ((cost.max(0.0) * 1e6).round() as u64).min(MOST_MICRO_USD)
}

/// The latest thing in a log that is of interest to people, on one line of at most `most` characters: what the agent
/// said, or what it called. None when the last 64 KiB hold nothing of the kind.
pub fn latest(rule: SuccessRule, log: &mut LogReader, most: usize) -> Option<String> {
    // A log that cannot be read for a moment is no reason to disturb what is shown.
    let lines = log.last_lines(usize::MAX, LATEST_BYTES).ok()?;
    if lines.is_empty() {
        return None;
    }
    let end = log.extent().ok()?.end;
    let read: usize = lines.iter().map(|line| line.len() + 1).sum();
    // The first line may be the rest of a longer one, which is as good as any of a script, but no event.
    let cut = usize::from(rule != SuccessRule::ExitZero && (read as u64) < end);
    lines.iter().skip(cut).rev().find_map(|line| {
        let is_event = rule != SuccessRule::ExitZero && line.trim_ascii_start().starts_with(b"{");
        let said = rule.said(line)?;
        // What looks like an event and was not understood is a piece of one.
        if is_event && said.starts_with('{') {
            return None;
        }
        let last = said.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(crate::engine::one_line(last, most))
    })
}

/// The last part of a log, as far as verdicts and prompts look at it; empty when there is none.
pub(crate) fn tail(log: &Path) -> Vec<u8> {
    let mut reader = LogReader::new(log);
    let Ok(extent) = reader.extent() else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    let mut at = extent.end.saturating_sub(TAIL_BYTES as u64);
    while let Ok(chunk) = reader.read_from(at, TAIL_BYTES) {
        // A log that still grows is read as far as is promised.
        if chunk.bytes.is_empty() || bytes.len() >= TAIL_BYTES {
            break;
        }
        bytes.extend_from_slice(&chunk.bytes);
        at = chunk.next;
    }
    bytes.truncate(TAIL_BYTES);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const CODEX: &[&str] = &[
        r#"{"type":"thread.started","thread_id":"t-1"}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"reading\nthe tests"}}"#,
        r#"{"type":"item.started","item":{"type":"command_execution","command":"cargo test"}}"#,
    ];

    fn log(dir: &tempfile::TempDir, bytes: &[u8]) -> std::path::PathBuf {
        let path = dir.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn latest_of(rule: SuccessRule, bytes: &[u8]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        latest(rule, &mut LogReader::new(log(&dir, bytes)), 20)
    }

    fn lines(lines: &[&str]) -> Vec<u8> {
        lines.join("\n").into_bytes()
    }

    #[test_case(SuccessRule::Codex, &[] => None; "nothing yet")]
    #[test_case(SuccessRule::Codex, &CODEX[..1] => None; "nothing of interest yet")]
    #[test_case(SuccessRule::Codex, &CODEX[..2] => Some("the tests".to_owned()); "the last line of what it said")]
    #[test_case(SuccessRule::Codex, CODEX => Some("$ cargo test".to_owned()); "what it called")]
    #[test_case(SuccessRule::Codex, &[CODEX[1], r#"{"type":"item.new","x":1}"#, r#"{"type":"item.comp"#] => Some("the tests".to_owned()); "an unknown event and a piece of one")]
    #[test_case(SuccessRule::ExitZero, &["one", "{two", ""] => Some("{two".to_owned()); "a script's last line")]
    #[test_case(SuccessRule::ExitZero, &["\u{1b}[2Jaaaaaaaaaaaaaaaaaaaaaaaaa"] => Some("aaaaaaaaaaaaaaaaaaa…".to_owned()); "cleaned and cut")]
    fn the_latest_word(rule: SuccessRule, log: &[&str]) -> Option<String> {
        latest_of(rule, &lines(log))
    }

    #[test]
    fn the_rest_of_a_long_event_is_no_word() {
        let mut log = lines(&CODEX[..2]);
        log.extend(b"\n{\"type\":\"item.completed\",\"item\":{\"aggregated_output\":\"");
        log.resize(log.len() + LATEST_BYTES, b'x');
        assert_eq!(latest_of(SuccessRule::Codex, &log), None);
        log.extend(b"\"}}\n");
        log.extend(CODEX[2].as_bytes());
        assert_eq!(
            latest_of(SuccessRule::Codex, &log).as_deref(),
            Some("$ cargo test")
        );
    }

    #[test]
    fn a_session_that_only_the_beginning_of_a_long_log_names_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = lines(CODEX);
        bytes.push(b'\n');
        bytes.resize(2 * TAIL_BYTES, b'\n');
        bytes.extend(br#"{"type":"turn.completed","usage":{"input_tokens":7,"output_tokens":2}}"#);
        let heard = so_far(SuccessRule::Codex, Ending::Code(0), &log(&dir, &bytes));
        assert!(heard.verdict.success);
        assert_eq!(heard.verdict.session.as_deref(), Some("t-1"));
        assert!(heard.tail.len() <= TAIL_BYTES);
    }

    #[test_case(0.25 => 250_000)]
    #[test_case(0.086_754_000_000_000_01 => 86_754)]
    #[test_case(-1.0 => 0; "no amount")]
    #[test_case(f64::NAN => 0; "no number")]
    #[test_case(1e20 => 1 << 53; "more than a column holds")]
    #[test_case(f64::INFINITY => 1 << 53; "more than there is")]
    fn a_cost_is_kept_in_millionths(cost: f64) -> u64 {
        micro_usd(cost)
    }
}
