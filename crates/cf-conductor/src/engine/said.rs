//! What an agent says, as people can read it: one event of its output as text, without control sequences.

use std::borrow::Cow;

use serde_json::Value;

use super::SuccessRule;

/// Longer lines are shown cut and are not read as events; no program writes an event of this length.
const LONGEST_EVENT_BYTES: usize = 16 << 20;

/// How much of one event is shown.
const SHOWN_CHARS: usize = 4000;

impl SuccessRule {
    /// What one line of the agent's output says, or none when it is of no interest to people.
    ///
    /// An event becomes its text, a tool call its command, an error its message. Any other line is itself. Control
    /// sequences are gone; line breaks inside a text stay.
    pub fn said(self, line: &[u8]) -> Option<String> {
        let text = match (self, event(line)) {
            (Self::ExitZero, _) | (_, None) => {
                let start = &line[..line.len().min(4 * SHOWN_CHARS)];
                String::from_utf8_lossy(start).into_owned()
            }
            (Self::Claude, Some(event)) => claude(&event)?,
            (Self::Codex, Some(event)) => codex(&event)?,
            (Self::Opencode, Some(event)) => opencode(&event)?,
            (Self::Gemini, Some(event)) => gemini(&event)?,
        };
        let text = printable(&text);
        let text = text.trim();
        (!text.is_empty()).then(|| text.chars().take(SHOWN_CHARS).collect())
    }
}

/// The event that a line holds, if it holds one: an object with a `type`.
///
/// Standard output and error share a log, so an event may stand behind the rest of an unfinished other line.
pub(super) fn event(line: &[u8]) -> Option<Value> {
    if line.len() > LONGEST_EVENT_BYTES {
        return None;
    }
    let is_event = |value: &Value| value.get("type").is_some_and(Value::is_string);
    let whole = line.trim_ascii();
    if whole.first() == Some(&b'{') {
        // Bytes that are no UTF-8, as in a command's output, must not cost the event.
        let text = String::from_utf8_lossy(whole);
        if let Some(value) = serde_json::from_str(&text).ok().filter(is_event) {
            return Some(value);
        }
    }
    let text = String::from_utf8_lossy(whole);
    let start = text.find("{\"type\":\"")?;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    values.next()?.ok().filter(is_event)
}

/// A text at a path of an event.
fn text<'a>(event: &'a Value, path: &str) -> Option<&'a str> {
    event.pointer(path).and_then(Value::as_str)
}

fn claude(event: &Value) -> Option<String> {
    match text(event, "/type")? {
        "assistant" => {
            let content = event.pointer("/message/content")?.as_array()?;
            let parts: Vec<String> = content
                .iter()
                .filter_map(|part| match text(part, "/type")? {
                    "text" => Some(text(part, "/text")?.to_owned()),
                    "tool_use" => Some(call(text(part, "/name")?, part.get("input"))),
                    _ => None,
                })
                .collect();
            Some(parts.join("\n"))
        }
        "result" => Some(claude_result(event)),
        "system" if text(event, "/subtype") == Some("api_retry") => {
            let status = event.get("error_status").and_then(Value::as_u64);
            Some(status.map_or_else(
                || "the model does not answer; trying again".to_owned(),
                |status| format!("the model answered {status}; trying again"),
            ))
        }
        _ => None,
    }
}

/// The text of Claude Code's closing event: what it said last, or what went wrong.
pub(super) fn claude_result(event: &Value) -> String {
    let errors = event.get("errors").and_then(Value::as_array);
    let first = errors.and_then(|errors| errors.first()?.as_str());
    text(event, "/result")
        .or(first)
        .or_else(|| text(event, "/subtype"))
        .unwrap_or_default()
        .to_owned()
}

fn codex(event: &Value) -> Option<String> {
    match text(event, "/type")? {
        "item.started" if text(event, "/item/type") == Some("command_execution") => {
            Some(format!("$ {}", text(event, "/item/command")?))
        }
        "item.completed" => match text(event, "/item/type")? {
            "agent_message" | "reasoning" => Some(text(event, "/item/text")?.to_owned()),
            "error" => Some(text(event, "/item/message")?.to_owned()),
            "mcp_tool_call" => Some(call(
                text(event, "/item/tool")?,
                event.pointer("/item/arguments"),
            )),
            "file_change" => {
                let changes = event.pointer("/item/changes")?.as_array()?;
                let paths: Vec<&str> = changes.iter().filter_map(|c| text(c, "/path")).collect();
                Some(format!("changed {}", paths.join(", ")))
            }
            "web_search" => Some(format!("searched for {}", text(event, "/item/query")?)),
            _ => None,
        },
        "error" => Some(plain_error(text(event, "/message")?)),
        "turn.failed" => Some(plain_error(text(event, "/error/message")?)),
        _ => None,
    }
}

fn opencode(event: &Value) -> Option<String> {
    match text(event, "/type")? {
        "text" => Some(text(event, "/part/text")?.to_owned()),
        "tool_use" => {
            let what = call(
                text(event, "/part/tool")?,
                event.pointer("/part/state/input"),
            );
            Some(match text(event, "/part/state/error") {
                Some(error) => format!("{what}\n{error}"),
                None => what,
            })
        }
        "error" => Some(opencode_error(event)),
        _ => None,
    }
}

/// The message of an error event of opencode.
pub(super) fn opencode_error(event: &Value) -> String {
    text(event, "/error/data/message")
        .or_else(|| text(event, "/error/message"))
        .or_else(|| text(event, "/error/name"))
        .unwrap_or("an error without a message")
        .to_owned()
}

fn gemini(event: &Value) -> Option<String> {
    match text(event, "/type")? {
        "message" if text(event, "/role") == Some("assistant") => {
            Some(text(event, "/content")?.to_owned())
        }
        "tool_use" => Some(call(text(event, "/tool_name")?, event.get("parameters"))),
        "tool_result" if text(event, "/status") == Some("error") => Some(
            text(event, "/error/message")
                .or(text(event, "/output"))?
                .to_owned(),
        ),
        "error" => Some(plain_error(text(event, "/message")?)),
        "result" => Some(plain_error(text(event, "/error/message")?)),
        _ => None,
    }
}

/// The message inside an error that quotes the model's whole answer, else the error as it is.
pub(super) fn plain_error(error: &str) -> String {
    let quoted = error.find('{').and_then(|start| {
        let mut values = serde_json::Deserializer::from_str(&error[start..]).into_iter::<Value>();
        values.next()?.ok()
    });
    quoted
        .as_ref()
        .and_then(|answer| text(answer, "/error/message").or_else(|| text(answer, "/message")))
        .unwrap_or(error)
        .to_owned()
}

/// A tool call in one line: a command as a shell shows it, anything else by name and first telling argument.
pub(super) fn call(tool: &str, input: Option<&Value>) -> String {
    let field = |names: &[&str]| {
        let input = input?;
        names
            .iter()
            .find_map(|name| input.get(name).and_then(Value::as_str))
    };
    if let Some(command) = field(&["command", "cmd"]) {
        return format!("$ {command}");
    }
    let telling = field(&[
        "file_path",
        "filePath",
        "path",
        "pattern",
        "query",
        "url",
        "description",
    ]);
    match telling {
        Some(argument) => format!("{tool} {argument}"),
        None => tool.to_owned(),
    }
}

/// `text` as it may reach a terminal or a prompt: without escape sequences, control characters other than tab and
/// line break, and without characters that reorder or hide text. A carriage return ends a line.
pub fn printable(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| (!c.is_control() && !is_invisible(c)) || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            // The same introducers in one character.
            '\u{9b}' => skip_csi(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            '\r' if rest.peek() != Some(&'\n') => clean.push('\n'),
            c if harmless(c) => clean.push(c),
            _ => {}
        }
    }
    Cow::Owned(clean)
}

/// Characters that reorder what follows or carry text that nobody sees.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}')
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(rest: &mut Rest<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_csi(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        // Intermediate bytes and a final one, as in the choice of a character set.
        Some(' '..='/') => {
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
        Some('0'..='~') => {
            rest.next();
        }
        _ => {}
    }
}

/// Parameters up to the final character. Anything that cannot belong to the sequence ends it and is kept.
fn skip_csi(rest: &mut Rest<'_>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// A string up to its terminator; an unterminated one ends with its line, so that it cannot swallow the rest.
fn skip_string(rest: &mut Rest<'_>) {
    while let Some(c) = rest.next_if(|&c| c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// `text` on one line, without control sequences, cut to `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    let clean = printable(text);
    let words: Vec<&str> = clean.split_whitespace().collect();
    cut(&words.join(" "), most)
}

/// `text` cut to `most` characters, the last of them an ellipsis when something is cut.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most - 1).collect();
    cut.push('…');
    cut
}

/// The last lines of a log as people can read them, oldest first: at most `lines` of them and `bytes` in all.
///
/// Events are shown as [`SuccessRule::said`] shows them. A line that does not fit is cut at its beginning.
pub fn last_lines(rule: SuccessRule, log_tail: &[u8], lines: usize, bytes: usize) -> Vec<String> {
    let mut kept = Vec::new();
    let mut left = bytes;
    for line in log_tail.rsplit(|&b| b == b'\n') {
        let Some(said) = rule.said(line) else {
            continue;
        };
        for part in said.lines().rev().filter(|part| !part.trim().is_empty()) {
            if kept.len() == lines || left == 0 {
                break;
            }
            let mut from = part.len().saturating_sub(left);
            while !part.is_char_boundary(from) {
                from += 1;
            }
            if from == part.len() {
                left = 0;
                break;
            }
            left = left.saturating_sub(part.len() + 1);
            kept.push(part[from..].to_owned());
        }
        if kept.len() == lines || left == 0 {
            break;
        }
    }
    kept.reverse();
    kept
}
