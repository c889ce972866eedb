use cf_core::Ending;
use proptest::prelude::*;
use test_case::test_case;

use crate::engine::{SuccessRule, Tokens};

const ZERO: Ending = Ending::Code(0);
const CLAUDE_INIT: &str =
    r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s-1","tools":["Bash"]}"#;
const CLAUDE_TEXT: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"all fine\n"}]},"parent_tool_use_id":null,"session_id":"s-1"}"#;
const CLAUDE_GOOD: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"all fine","session_id":"s-1","total_cost_usd":0.25,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":7},"permission_denials":[]}"#;
const CLAUDE_API_ERROR: &str = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error: 529 overloaded","session_id":"s-1","permission_denials":[]}"#;
const CLAUDE_TURNS: &str = r#"{"type":"result","subtype":"error_max_turns","is_error":false,"session_id":"s-1","errors":["Reached maximum number of turns (3)"]}"#;
const CLAUDE_REFUSED: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"I could not","permission_denials":[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"make install"}}]}"#;

const CODEX_START: &str =
    "{\"type\":\"thread.started\",\"thread_id\":\"01a2-b\"}\n{\"type\":\"turn.started\"}";
const CODEX_TEXT: &str = r#"{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"all fine\n"}}"#;
const CODEX_GOOD: &str = r#"{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":4,"output_tokens":3}}"#;
const CODEX_RECONNECT: &str = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
const CODEX_BAD: &str = r#"{"type":"turn.failed","error":{"message":"unexpected status 400: {\"error\":{\"message\":\"no such model\",\"code\":null}}"}}"#;
const CODEX_DECLINED: &str = r#"{"type":"item.completed","item":{"type":"command_execution","command":"rm -rf x","status":"declined"}}"#;

const OPENCODE_STEP: &str =
    r#"{"type":"step_start","sessionID":"ses_1","part":{"type":"step-start"}}"#;
const OPENCODE_TEXT: &str =
    r#"{"type":"text","sessionID":"ses_1","part":{"type":"text","text":"all fine\n"}}"#;
const OPENCODE_TOOLS: &str = r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","tokens":{"input":10,"output":2,"cache":{"write":1,"read":5}},"cost":0.5}}"#;
const OPENCODE_STOP: &str = r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":20,"output":3,"cache":{"write":0,"read":0}},"cost":0.25}}"#;
const OPENCODE_ERROR: &str = r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"bad request","statusCode":400}}}"#;
const OPENCODE_REJECTED: &str = r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","state":{"status":"error","input":{"command":"curl x"},"error":"The user rejected permission to use this specific tool call."}}}"#;
const OPENCODE_DENIED: &str = r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","state":{"status":"error","input":{"command":"touch x"},"error":"The user has specified a rule which prevents you from using this specific tool call."}}}"#;
const OPENCODE_TOOL_FAILED: &str = r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"read","state":{"status":"error","input":{"filePath":"x"},"error":"File not found"}}}"#;

const GEMINI_INIT: &str = r#"{"type":"init","session_id":"g-1","model":"m"}"#;
const GEMINI_TEXT: &str = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"all \",\"delta\":true}\n{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"fine\",\"delta\":true}";
const GEMINI_GOOD: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":30,"input_tokens":20,"output_tokens":10,"cached":5}}"#;
const GEMINI_EMPTY: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0}}"#;
const GEMINI_BAD: &str = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: {\"error\":{\"code\":400,\"message\":\"bad request\"}}]"},"stats":{"total_tokens":0}}"#;
const GEMINI_REFUSED: &str = r#"{"type":"tool_result","status":"error","output":"x","error":{"type":"policy_violation","message":"Tool execution denied by policy."}}"#;
const GEMINI_TOOL_FAILED: &str = r#"{"type":"tool_result","status":"error","output":"x","error":{"type":"file_not_found","message":"no such file"}}"#;

fn log(lines: &[&str]) -> Vec<u8> {
    let mut log = lines.join("\n").into_bytes();
    log.push(b'\n');
    log
}

use SuccessRule::{Claude, Codex, ExitZero, Gemini, Opencode};

#[test_case(ExitZero, ZERO, &["anything"] => "succeeded"; "exit code 0 is enough for a script")]
#[test_case(ExitZero, ZERO, &[] => "succeeded"; "a script may be silent")]
#[test_case(ExitZero, Ending::Code(3), &["one", "two", ""] => "exit code 3: two"; "a script's last line is its reason")]
#[test_case(ExitZero, Ending::Signal(9), &[] => "killed by signal 9 (SIGKILL)"; "a signal is named")]
#[test_case(Claude, ZERO, &[CLAUDE_INIT, CLAUDE_TEXT, CLAUDE_GOOD] => "succeeded"; "claude done")]
#[test_case(Claude, ZERO, &[CLAUDE_INIT, CLAUDE_TEXT] => "ended with 0 before it had finished"; "claude interrupted during a model call")]
#[test_case(Claude, ZERO, &[] => "ended with 0 before it had finished"; "claude silent")]
#[test_case(Claude, Ending::Code(1), &[CLAUDE_INIT, CLAUDE_API_ERROR] => "exit code 1: API Error: 529 overloaded"; "claude api error")]
#[test_case(Claude, ZERO, &[CLAUDE_API_ERROR] => "ended with 0 after an error: API Error: 529 overloaded"; "claude api error with 0")]
#[test_case(Claude, Ending::Code(1), &[CLAUDE_TURNS] => "exit code 1: Reached maximum number of turns (3)"; "claude limit")]
#[test_case(Claude, ZERO, &[CLAUDE_TURNS] => "ended with 0 after an error: Reached maximum number of turns (3)"; "claude limit with 0")]
#[test_case(Claude, ZERO, &[CLAUDE_REFUSED] => "ended with 0, but was refused: $ make install"; "claude refused a tool")]
#[test_case(Claude, Ending::Code(1), &["Not logged in"] => "exit code 1: Not logged in"; "claude without a login")]
#[test_case(Claude, Ending::Code(143), &[CLAUDE_TEXT, CLAUDE_GOOD] => "exit code 143: all fine"; "a code other than 0 is never a success")]
#[test_case(Codex, ZERO, &[CODEX_START, CODEX_TEXT, CODEX_GOOD] => "succeeded"; "codex done")]
#[test_case(Codex, ZERO, &[CODEX_START, CODEX_RECONNECT, CODEX_TEXT, CODEX_GOOD] => "succeeded"; "codex reconnected")]
#[test_case(Codex, ZERO, &[CODEX_START, CODEX_GOOD, CODEX_BAD] => "ended with 0 after an error: no such model"; "codex failed after a good turn")]
#[test_case(Codex, ZERO, &[CODEX_START, CODEX_GOOD, r#"{"type":"turn.started"}"#] => "ended with 0 before it had finished"; "codex in a second turn")]
#[test_case(Codex, Ending::Code(1), &[CODEX_START, CODEX_BAD] => "exit code 1: no such model"; "codex failed")]
#[test_case(Codex, ZERO, &[CODEX_START, CODEX_DECLINED, CODEX_GOOD] => "ended with 0, but was refused: rm -rf x"; "codex declined")]
#[test_case(Opencode, ZERO, &[OPENCODE_STEP, OPENCODE_TOOLS, OPENCODE_STEP, OPENCODE_TEXT, OPENCODE_STOP] => "succeeded"; "opencode done")]
#[test_case(Opencode, ZERO, &[OPENCODE_STEP, OPENCODE_TOOLS] => "ended with 0 before it had finished"; "opencode between steps")]
#[test_case(Opencode, ZERO, &[OPENCODE_STOP, OPENCODE_STEP] => "ended with 0 before it had finished"; "opencode in a later step")]
#[test_case(Opencode, ZERO, &[OPENCODE_ERROR, OPENCODE_STOP] => "ended with 0 after an error: bad request"; "opencode error")]
#[test_case(Opencode, ZERO, &[OPENCODE_REJECTED, OPENCODE_TOOLS] => "ended with 0, but was refused: $ curl x"; "opencode rejected")]
#[test_case(Opencode, ZERO, &[OPENCODE_DENIED, OPENCODE_STOP] => "ended with 0, but was refused: $ touch x"; "opencode denied by rule")]
#[test_case(Opencode, ZERO, &["\u{1b}[33m! permission requested: bash (curl x); auto-rejecting", OPENCODE_STOP] => "ended with 0, but was refused: ! permission requested: bash (curl x); auto-rejecting"; "opencode rejected on stderr")]
#[test_case(Opencode, ZERO, &[OPENCODE_TOOL_FAILED, OPENCODE_STOP] => "succeeded"; "a tool may fail")]
#[test_case(Gemini, ZERO, &[GEMINI_INIT, GEMINI_TEXT, GEMINI_GOOD] => "succeeded"; "gemini done")]
#[test_case(Gemini, ZERO, &[GEMINI_INIT, GEMINI_EMPTY] => "ended with 0 after an error: it ended without calling the model"; "gemini without a model call")]
#[test_case(Gemini, ZERO, &[GEMINI_INIT, GEMINI_TEXT] => "ended with 0 before it had finished"; "gemini told to end")]
#[test_case(Gemini, Ending::Code(144), &[GEMINI_BAD] => "exit code 144: bad request"; "gemini failed")]
#[test_case(Gemini, ZERO, &[GEMINI_REFUSED, GEMINI_GOOD] => "ended with 0, but was refused: Tool execution denied by policy."; "gemini refused")]
#[test_case(Gemini, ZERO, &[GEMINI_TOOL_FAILED, GEMINI_GOOD] => "succeeded"; "a tool of gemini may fail")]
fn judges(rule: SuccessRule, ending: Ending, lines: &[&str]) -> String {
    let verdict = rule.judge(ending, &log(lines));
    assert_eq!(verdict.success, verdict.reason == "succeeded");
    verdict.reason
}

#[test]
fn a_verdict_carries_what_the_agent_said_and_used() {
    let told = |rule: SuccessRule, lines: &[&str]| {
        let verdict = rule.judge(ZERO, &log(lines));
        assert_eq!(verdict.last_said.as_deref(), Some("all fine"));
        (verdict.session, verdict.tokens, verdict.cost_usd)
    };
    let tokens = |input, cached, output| {
        Some(Tokens {
            input,
            cached,
            output,
        })
    };
    assert_eq!(
        told(Claude, &[CLAUDE_INIT, CLAUDE_TEXT, CLAUDE_GOOD]),
        (Some("s-1".to_owned()), tokens(115, 100, 7), Some(0.25))
    );
    assert_eq!(
        told(Codex, &[CODEX_START, CODEX_TEXT, CODEX_GOOD]),
        (Some("01a2-b".to_owned()), tokens(20, 4, 3), None)
    );
    assert_eq!(
        told(Opencode, &[OPENCODE_TOOLS, OPENCODE_TEXT, OPENCODE_STOP]),
        (Some("ses_1".to_owned()), tokens(36, 5, 5), Some(0.75))
    );
    assert_eq!(
        told(Gemini, &[GEMINI_INIT, GEMINI_TEXT, GEMINI_GOOD]),
        (Some("g-1".to_owned()), tokens(20, 5, 10), None)
    );
}

#[test]
fn a_log_may_hold_anything_around_its_events() {
    let cut = &CLAUDE_API_ERROR[20..];
    let mut log = log(&[
        cut,
        "Warning: no terminal",
        "{broken",
        "[1,2]",
        "{\"type\":7}",
        "",
    ]);
    log.extend(b"\xff\xfe not utf-8 \x00\n");
    log.extend(b"progress 10%\rprogress 20%");
    log.extend(CLAUDE_GOOD.as_bytes());
    log.extend(b"\r\n\n  after the end\n");
    let verdict = Claude.judge(ZERO, &log);
    assert!(verdict.success, "{verdict:?}");
    assert_eq!(verdict.cost_usd, Some(0.25));
}

#[test]
fn a_closing_event_that_a_tool_printed_does_not_count() {
    let quoted = serde_json::json!({
        "type": "user",
        "message": {"content": [{"type": "tool_result", "content": CLAUDE_GOOD}]},
    });
    let text = quoted.to_string();
    assert!(!Claude.judge(ZERO, &log(&[&text])).success);
    // The same when the tail begins in the middle of the line.
    for from in 0..text.len() {
        assert!(
            !Claude.judge(ZERO, &text.as_bytes()[from..]).success,
            "{from}"
        );
    }
}

#[test]
fn bytes_that_are_no_text_do_not_cost_the_closing_event() {
    let mut line = CLAUDE_GOOD.as_bytes().to_vec();
    let at = CLAUDE_GOOD.find("all fine").unwrap();
    line[at] = 0xff;
    assert!(Claude.judge(ZERO, &line).success);
}

#[test]
fn a_huge_line_is_passed_over() {
    let mut log = vec![b'x'; 20 << 20];
    log.push(b'\n');
    log.extend(CODEX_GOOD.as_bytes());
    assert!(Codex.judge(ZERO, &log).success);
}

#[test]
fn a_session_that_could_be_an_option_is_not_kept() {
    let verdict = Gemini.judge(ZERO, br#"{"type":"init","session_id":"--yolo"}"#);
    assert_eq!(verdict.session, None);
}

#[test]
fn a_reason_is_one_short_line_without_control_sequences() {
    let line = format!("\u{1b}[31mbad\u{1b}[0m\ttab {}", "x".repeat(5000));
    let reason = ExitZero.judge(Ending::Code(1), line.as_bytes()).reason;
    assert!(reason.starts_with("exit code 1: bad tab xxx"), "{reason}");
    assert!(reason.chars().count() <= 400 && reason.ends_with('…'));
}

fn rules() -> impl Strategy<Value = SuccessRule> {
    prop_oneof![Just(Claude), Just(Codex), Just(Opencode), Just(Gemini)]
}

proptest! {
    #[test]
    fn no_log_makes_it_panic(rule in rules(), log in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = rule.judge(ZERO, &log);
    }

    #[test]
    fn a_code_other_than_0_is_never_a_success(rule in rules(), code in 1..256i32) {
        let log = log(&[CLAUDE_GOOD, CODEX_GOOD, OPENCODE_STOP, GEMINI_GOOD]);
        prop_assert!(!rule.judge(Ending::Code(code), &log).success);
    }

    #[test]
    fn a_cut_log_without_its_end_is_never_a_success(rule in rules(), keep in 0.0..1.0f64) {
        let log = match rule {
            Claude => log(&[CLAUDE_INIT, CLAUDE_TEXT, CLAUDE_GOOD]),
            Codex => log(&[CODEX_START, CODEX_TEXT, CODEX_GOOD]),
            Opencode => log(&[OPENCODE_TOOLS, OPENCODE_TEXT, OPENCODE_STOP]),
            _ => log(&[GEMINI_INIT, GEMINI_TEXT, GEMINI_GOOD]),
        };
        let kept = (keep * (log.len() - 1) as f64) as usize;
        prop_assert!(!rule.judge(ZERO, &log[..kept]).success);
    }
}

#[test_case(Claude, 1, &[r#"{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"s-1","errors":["No conversation found with session ID: s-1"]}"#] => true; "claude")]
#[test_case(Claude, 1, &[CLAUDE_INIT, CLAUDE_API_ERROR] => false; "claude with another error")]
#[test_case(Codex, 1, &["Error: thread/resume: thread/resume failed: no rollout found for thread id 01a2-b (code -32600)"] => true; "codex")]
#[test_case(Codex, 1, &[CODEX_START, "Error: no rollout found"] => false; "codex that is in a session")]
#[test_case(Opencode, 1, &["\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found"] => true; "opencode")]
#[test_case(Opencode, 1, &[OPENCODE_ERROR] => false; "opencode with another error")]
#[test_case(Gemini, 42, &["Error resuming session"] => true; "gemini")]
#[test_case(Gemini, 42, &[GEMINI_INIT, GEMINI_BAD] => false; "gemini that is in a session")]
#[test_case(Codex, 0, &["no rollout found"] => false; "it did not fail")]
#[test_case(ExitZero, 1, &["Session not found"] => false; "a script has no session")]
fn a_program_says_that_it_does_not_know_its_session(
    rule: SuccessRule,
    code: i32,
    lines: &[&str],
) -> bool {
    let verdict = rule.judge(Ending::Code(code), &log(lines));
    assert!(!verdict.session_is_unknown || verdict.session.is_none());
    verdict.session_is_unknown
}

#[test]
fn tokens_of_a_session_are_those_of_its_attempts() {
    let tokens = |input, cached, output| Tokens {
        input,
        cached,
        output,
    };
    let used: Tokens = [tokens(10, 4, 1), tokens(5, 0, 2)].into_iter().sum();
    assert_eq!(used, tokens(15, 4, 3));
    assert_eq!(tokens(40, 6, 9).without(used), tokens(25, 2, 6));
    assert_eq!(tokens(1, 1, 1).without(used), tokens(0, 0, 0));
    assert_eq!(used.total(), 18);
}
