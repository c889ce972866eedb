use test_case::test_case;

use crate::engine::SuccessRule::{self, Claude, Codex, ExitZero, Gemini, Opencode};
use crate::engine::{last_lines, printable};

#[test_case(ExitZero, "plain \u{1b}[1mbold\u{1b}[0m" => Some("plain bold".to_owned()); "plain text")]
#[test_case(ExitZero, r#"{"type":"result"}"# => Some(r#"{"type":"result"}"#.to_owned()); "a script's JSON is its own")]
#[test_case(ExitZero, "   " => None; "blank")]
#[test_case(Claude, r#"{"type":"system","subtype":"init"}"# => None; "claude init")]
#[test_case(Claude, r#"{"type":"system","subtype":"api_retry","error_status":529}"# => Some("the model answered 529; trying again".to_owned()); "claude retry")]
#[test_case(Claude, r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look"},{"type":"tool_use","name":"Bash","input":{"command":"ls -l"}}]}}"# => Some("I look\n$ ls -l".to_owned()); "claude text and command")]
#[test_case(Claude, r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":{"file_path":"/w/a.rs","old_string":"x"}}]}}"# => Some("Edit /w/a.rs".to_owned()); "claude edit")]
#[test_case(Claude, r#"{"type":"result","is_error":true,"result":"Prompt is too long"}"# => Some("Prompt is too long".to_owned()); "claude result")]
#[test_case(Claude, "Not logged in" => Some("Not logged in".to_owned()); "no event")]
#[test_case(Codex, r#"{"type":"item.started","item":{"type":"command_execution","command":"make"}}"# => Some("$ make".to_owned()); "codex command")]
#[test_case(Codex, r#"{"type":"item.completed","item":{"type":"command_execution","command":"make"}}"# => None; "codex command's end")]
#[test_case(Codex, r#"{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a","kind":"add"},{"path":"b","kind":"update"}]}}"# => Some("changed a, b".to_owned()); "codex change")]
#[test_case(Codex, r#"{"type":"turn.failed","error":{"message":"{\"error\":{\"message\":\"no\"}}"}}"# => Some("no".to_owned()); "codex failure")]
#[test_case(Opencode, r#"{"type":"tool_use","part":{"tool":"bash","state":{"status":"error","input":{"command":"x"},"error":"rejected"}}}"# => Some("$ x\nrejected".to_owned()); "opencode tool")]
#[test_case(Gemini, r#"{"type":"message","role":"user","content":"the prompt"}"# => None; "gemini prompt")]
#[test_case(Gemini, r#"{"type":"message","role":"assistant","content":"hi \u001b]0;title\u0007there"}"# => Some("hi there".to_owned()); "escapes inside an event")]
fn says(rule: SuccessRule, line: &str) -> Option<String> {
    rule.said(line.as_bytes())
}

#[test_case("a\tb\nc" => "a\tb\nc"; "tabs and lines stay")]
#[test_case("a\r\nb\rc" => "a\nb\nc"; "carriage returns end lines")]
#[test_case("\u{1b}[38;5;1mred\u{1b}[m" => "red"; "colour")]
#[test_case("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}" => "link"; "hyperlink")]
#[test_case("\u{1b}]0;never ended\nnext" => "\nnext"; "an unterminated string ends with its line")]
#[test_case("\u{1b}Pq#0\u{1b}\\x" => "x"; "device control")]
#[test_case("\u{1b}(B\u{1b}=x" => "x"; "character set and keypad")]
#[test_case("\u{9b}2Jx\u{9d}0;t\u{9c}y" => "xy"; "introducers in one character")]
#[test_case("\u{1b}[31\u{e9}" => "\u{e9}"; "a broken sequence")]
#[test_case("\u{1b}" => ""; "a lone escape")]
#[test_case("a\u{0}\u{8}\u{7f}b" => "ab"; "control characters")]
#[test_case("a\u{202e}b\u{2066}c\u{e0041}d\u{feff}" => "abcd"; "text that is reordered or hidden")]
#[test_case("naïve 👩\u{200d}🚀" => "naïve 👩\u{200d}🚀"; "joined characters stay")]
fn prints(text: &str) -> String {
    printable(text).into_owned()
}

#[test]
fn the_last_lines_are_bounded_in_number_and_length() {
    let log = b"one\ntwo\n\nthree\nfour\n";
    assert_eq!(last_lines(ExitZero, log, 2, 1000), ["three", "four"]);
    assert_eq!(last_lines(ExitZero, log, 10, 8), ["ree", "four"]);
    assert_eq!(last_lines(ExitZero, log, 0, 8), Vec::<String>::new());
    assert_eq!(
        last_lines(ExitZero, "xxé".as_bytes(), 9, 1),
        Vec::<String>::new()
    );
    assert_eq!(last_lines(ExitZero, b"", 9, 9), Vec::<String>::new());
}

#[test]
fn events_among_the_last_lines_are_shown_as_text() {
    let log = concat!(
        "{\"type\":\"turn.started\"}\n",
        "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"one\\ntwo\"}}\n",
        "{\"type\":\"turn.completed\",\"usage\":{}}\n",
    );
    assert_eq!(last_lines(Codex, log.as_bytes(), 10, 1000), ["one", "two"]);
}

#[test]
fn each_rule_has_one_word_in_configuration_and_store() {
    use SuccessRule::{Claude, Codex, ExitZero, Gemini, Opencode};
    for rule in [ExitZero, Claude, Codex, Opencode, Gemini] {
        assert_eq!(SuccessRule::from_word(rule.as_str()), Some(rule));
        assert_eq!(serde_json::json!(rule), rule.as_str());
    }
    assert_eq!(SuccessRule::from_word("aider"), None);
}
