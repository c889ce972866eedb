//! What the end of an agent means.
//!
//! Agents end with 0 although the model failed or a tool was refused, so for them the closing event in their output
//! decides as well. A log may hold anything: lines that are no events, bytes that are no text, a first line that is
//! cut. What cannot be read is passed over; a closing event that is not there is never a success.

use cf_core::Ending;
use serde::Serialize;
use serde_json::Value;

use super::SuccessRule;
use super::said::{
    call, claude_result, cut, event, one_line, opencode_error, plain_error, printable,
};

/// How much of a log's end [`SuccessRule::judge`] should be given: more than any closing event is long.
pub const TAIL_BYTES: usize = 4 << 20;

/// How long a reason may be.
const REASON_CHARS: usize = 400;

/// How much of the last thing that an agent said is kept.
const SAID_CHARS: usize = 2000;

/// The most of one kind of token that a count says: what an agent reports may be any number, while the sum of two of
/// these is still one that every reader of JSON keeps exactly.
const MOST_TOKENS: u64 = 1 << 52;

/// What the end of an agent means.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it succeeded.
    pub success: bool,
    /// Why, in one line.
    pub reason: String,
    /// What it said last, without control sequences, cut to 2,000 characters; its lines are kept.
    pub last_said: Option<String>,
    /// The session in which it can be continued.
    pub session: Option<String>,
    /// Whether the program says that it does not know the session that it was to continue.
    pub session_is_unknown: bool,
    /// The tokens that it used.
    pub tokens: Option<Tokens>,
    /// What it says that it cost, in US dollars; never negative, and none when it says what is no amount.
    pub cost_usd: Option<f64>,
}

/// The tokens that an agent used, as far as the tail of its log tells.
///
/// Where [`SuccessRule::counts_sessions`], a continued session contains what earlier attempts used. A [`Verdict`]
/// says at most 2^52 of each, whatever the agent reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// What the model read, cached or not.
    pub input: u64,
    /// The part of it that came from a cache.
    pub cached: u64,
    /// What the model wrote.
    pub output: u64,
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, more| Self {
            input: sum.input.saturating_add(more.input),
            cached: sum.cached.saturating_add(more.cached),
            output: sum.output.saturating_add(more.output),
        })
    }
}

impl Tokens {
    /// What is left of them without `earlier` ones.
    #[must_use]
    pub const fn without(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            cached: self.cached.saturating_sub(earlier.cached),
            output: self.output.saturating_sub(earlier.output),
        }
    }

    /// The same, but no more of each than [`MOST_TOKENS`].
    fn clamped(self) -> Self {
        Self {
            input: self.input.min(MOST_TOKENS),
            cached: self.cached.min(MOST_TOKENS),
            output: self.output.min(MOST_TOKENS),
        }
    }

    /// What the model read and wrote.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// How the output closes.
#[derive(Debug, Default)]
enum Closing {
    /// It does not.
    #[default]
    Open,
    /// Well.
    Good,
    /// With an error, in words.
    Bad(String),
}

/// What has been read of a log.
#[derive(Debug, Default)]
struct Reading {
    closing: Closing,
    refused: Option<String>,
    last_said: Option<String>,
    session: Option<String>,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    last_line: Option<String>,
}

impl SuccessRule {
    /// What an end means, given the last part of the log (at best [`TAIL_BYTES`], in which the first line may be cut).
    pub fn judge(self, ending: Ending, log_tail: &[u8]) -> Verdict {
        let mut reading = Reading::default();
        for line in log_tail.split(|&b| b == b'\n') {
            reading.read(self, line);
        }
        let reason = reading.fault(self, ending);
        let session_is_unknown = reading.session_is_unknown(self, ending);
        Verdict {
            success: reason.is_none(),
            reason: one_line(
                &reason.unwrap_or_else(|| "succeeded".to_owned()),
                REASON_CHARS,
            ),
            last_said: reading.last_said.map(|said| cut(said.trim(), SAID_CHARS)),
            session: reading.session.filter(|_| !session_is_unknown),
            session_is_unknown,
            tokens: reading.tokens.map(Tokens::clamped),
            cost_usd: reading.cost_usd.filter(|cost| *cost >= 0.0),
        }
    }

    /// Whether the program counts the tokens of a whole session, whatever part of it an attempt did.
    pub const fn counts_sessions(self) -> bool {
        matches!(self, Self::Codex)
    }

    /// The session that the beginning of a log names; a log may be longer than what [`SuccessRule::judge`] is given,
    /// and some programs name it once.
    pub fn session_in(self, log_head: &[u8]) -> Option<String> {
        let mut reading = Reading::default();
        log_head.split(|&b| b == b'\n').find_map(|line| {
            reading.read(self, line);
            reading.session.take()
        })
    }
}

impl Reading {
    fn read(&mut self, rule: SuccessRule, line: &[u8]) {
        if rule == SuccessRule::ExitZero {
            if let Some(said) = rule.said(line) {
                self.last_said = Some(said);
            }
            return;
        }
        let Some(event) = event(line) else {
            if let Some(said) = rule.said(line) {
                if rule == SuccessRule::Opencode
                    && said.contains("permission requested:")
                    && said.contains("auto-rejecting")
                {
                    self.refuse(&said);
                }
                self.last_line = Some(said);
            }
            return;
        };
        match rule {
            SuccessRule::ExitZero => {}
            SuccessRule::Claude => self.claude(&event),
            SuccessRule::Codex => self.codex(&event),
            SuccessRule::Opencode => self.opencode(&event),
            SuccessRule::Gemini => self.gemini(&event),
        }
    }

    fn claude(&mut self, event: &Value) {
        self.session(event, "session_id");
        match kind(event) {
            "assistant" if event["parent_tool_use_id"].is_null() => {
                let content = event["message"]["content"].as_array();
                for part in content.into_iter().flatten() {
                    if part["type"] == "text" {
                        self.say(part["text"].as_str());
                    }
                }
            }
            "result" => {
                for denial in event["permission_denials"].as_array().into_iter().flatten() {
                    let tool = denial["tool_name"].as_str().unwrap_or("a tool");
                    self.refuse(&call(tool, denial.get("tool_input")));
                }
                let good = event["is_error"] == false && event["subtype"] == "success";
                self.closing = if good {
                    Closing::Good
                } else {
                    Closing::Bad(claude_result(event))
                };
                self.say(event["result"].as_str());
                self.cost_usd = event["total_cost_usd"].as_f64();
                let usage = &event["usage"];
                let cached = count(&usage["cache_read_input_tokens"]);
                let written = count(&usage["cache_creation_input_tokens"]);
                self.tokens = usage.is_object().then(|| Tokens {
                    input: count(&usage["input_tokens"])
                        .saturating_add(cached)
                        .saturating_add(written),
                    cached,
                    output: count(&usage["output_tokens"]),
                });
            }
            _ => {}
        }
    }

    fn codex(&mut self, event: &Value) {
        match kind(event) {
            "thread.started" => self.session(event, "thread_id"),
            "turn.started" => self.closing = Closing::Open,
            "item.completed" => {
                let item = &event["item"];
                match item["type"].as_str() {
                    Some("agent_message") => self.say(item["text"].as_str()),
                    _ if item["status"] == "declined" => {
                        let what = item["command"].as_str().or(item["type"].as_str());
                        self.refuse(what.unwrap_or("a tool"));
                    }
                    _ => {}
                }
            }
            "turn.completed" => {
                self.closing = Closing::Good;
                let usage = &event["usage"];
                self.tokens = usage.is_object().then(|| Tokens {
                    input: count(&usage["input_tokens"]),
                    cached: count(&usage["cached_input_tokens"]),
                    output: count(&usage["output_tokens"]),
                });
            }
            "turn.failed" => self.closing = Closing::Bad(message(&event["error"]["message"])),
            // Also written for each lost connection that is then found again: only `turn.failed` is final.
            "error" => self.last_line = event["message"].as_str().map(plain_error),
            _ => {}
        }
    }

    fn opencode(&mut self, event: &Value) {
        self.session(event, "sessionID");
        let part = &event["part"];
        match kind(event) {
            "text" => self.say(part["text"].as_str()),
            "step_start" if !matches!(self.closing, Closing::Bad(_)) => {
                self.closing = Closing::Open;
            }
            "step_finish" => {
                if !matches!(self.closing, Closing::Bad(_)) {
                    self.closing = if part["reason"] == "stop" {
                        Closing::Good
                    } else {
                        Closing::Open
                    };
                }
                if let Some(cost) = part["cost"].as_f64() {
                    self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
                }
                let step = &part["tokens"];
                if step.is_object() {
                    let cached = count(&step["cache"]["read"]);
                    let sum = self.tokens.get_or_insert_default();
                    sum.input = sum
                        .input
                        .saturating_add(count(&step["input"]))
                        .saturating_add(count(&step["cache"]["write"]))
                        .saturating_add(cached);
                    sum.cached = sum.cached.saturating_add(cached);
                    sum.output = sum.output.saturating_add(count(&step["output"]));
                }
            }
            "tool_use" if part["state"]["status"] == "error" => {
                let error = part["state"]["error"].as_str().unwrap_or_default();
                if error.contains("rejected permission")
                    || error.contains("prevents you from using")
                {
                    let tool = part["tool"].as_str().unwrap_or("a tool");
                    self.refuse(&call(tool, part["state"].get("input")));
                }
            }
            "error" => self.closing = Closing::Bad(opencode_error(event)),
            _ => {}
        }
    }

    fn gemini(&mut self, event: &Value) {
        match kind(event) {
            "init" => self.session(event, "session_id"),
            "message" if event["role"] == "assistant" => {
                let content = event["content"].as_str().unwrap_or_default();
                // Pieces of one message follow each other without any other event between them.
                match &mut self.last_said {
                    Some(said) if event["delta"] == true => said.push_str(&printable(content)),
                    _ => self.last_said = Some(printable(content).into_owned()),
                }
            }
            "message" => self.last_said = None,
            "tool_result" if event["status"] == "error" => {
                let error = &event["error"];
                let message = error["message"].as_str().unwrap_or("a tool");
                // The second is how the read-only mode refuses to write.
                if error["type"] == "policy_violation"
                    || message.starts_with("Access denied: plan path")
                {
                    self.refuse(message);
                }
            }
            "tool_use" => self.last_said = None,
            "result" => {
                let stats = &event["stats"];
                let used = count(&stats["total_tokens"]);
                self.closing = if event["status"] != "success" {
                    Closing::Bad(message(&event["error"]["message"]))
                } else if used == 0 {
                    Closing::Bad("it ended without calling the model".to_owned())
                } else {
                    Closing::Good
                };
                self.tokens = stats.is_object().then(|| Tokens {
                    input: count(&stats["input_tokens"]),
                    cached: count(&stats["cached"]),
                    output: count(&stats["output_tokens"]),
                });
            }
            _ => {}
        }
    }

    /// Why it is not a success, or none when it is one.
    fn fault(&self, rule: SuccessRule, ending: Ending) -> Option<String> {
        if !ending.is_zero() {
            let why = match &self.closing {
                Closing::Bad(error) => Some(error),
                Closing::Open | Closing::Good if rule == SuccessRule::ExitZero => {
                    self.last_said.as_ref()
                }
                Closing::Open | Closing::Good => {
                    self.last_line.as_ref().or(self.last_said.as_ref())
                }
            };
            return Some(match why {
                Some(why) => format!("{ending}: {why}"),
                None => ending.to_string(),
            });
        }
        if rule == SuccessRule::ExitZero {
            return None;
        }
        match (&self.closing, &self.refused) {
            (Closing::Bad(error), _) => Some(format!("ended with 0 after an error: {error}")),
            (Closing::Good | Closing::Open, Some(tool)) => {
                Some(format!("ended with 0, but was refused: {tool}"))
            }
            // The last other line is only noise here: programs that have something to say end with another code.
            (Closing::Open, None) => Some("ended with 0 before it had finished".to_owned()),
            (Closing::Good, None) => None,
        }
    }

    /// Whether it ended because it does not know the session that it was to continue. Each program says so in its own
    /// words, before anything else happens.
    fn session_is_unknown(&self, rule: SuccessRule, ending: Ending) -> bool {
        let wrote = |words| {
            self.session.is_none() && self.last_line.as_ref().is_some_and(|l| l.contains(words))
        };
        !ending.is_zero()
            && match rule {
                SuccessRule::ExitZero => false,
                // Its closing event carries the id that it does not know.
                SuccessRule::Claude => {
                    matches!(&self.closing, Closing::Bad(error) if error.starts_with("No conversation found"))
                }
                SuccessRule::Codex => wrote("no rollout found"),
                SuccessRule::Opencode => wrote("Session not found"),
                // Its code for input that it cannot use.
                SuccessRule::Gemini => self.session.is_none() && ending == Ending::Code(42),
            }
    }

    fn say(&mut self, text: Option<&str>) {
        let text = text.map(printable);
        if let Some(text) = text.as_deref().map(str::trim).filter(|t| !t.is_empty()) {
            self.last_said = Some(text.to_owned());
        }
    }

    /// The first refusal is kept: what follows is often only its consequence.
    fn refuse(&mut self, what: &str) {
        self.refused.get_or_insert_with(|| what.to_owned());
    }

    fn session(&mut self, event: &Value, field: &str) {
        let id = event[field].as_str();
        // It comes back as an argument when the session is continued.
        let sane = |id: &&str| {
            id.len() <= 128
                && id.starts_with(|c: char| c.is_ascii_alphanumeric())
                && id
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if let Some(id) = id.filter(sane) {
            self.session = Some(id.to_owned());
        }
    }
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn message(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| "an error without a message".to_owned(), plain_error)
}
