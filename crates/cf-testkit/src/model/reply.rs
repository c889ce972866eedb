//! A reply as a stream of server-sent events, in the words of each API.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::request::Api;

/// What every reply is said to have cost, in tokens.
const INPUT_TOKENS: u64 = 1_000;
const OUTPUT_TOKENS: u64 = 20;

/// The reply to one request.
pub(super) struct Reply {
    api: Api,
    model: Value,
    id: String,
    /// What was written of it: the parts of a message, or the items of a response.
    parts: u64,
    has_called: bool,
}

impl Reply {
    pub(super) fn new(api: Api, request: &Value) -> Self {
        Self {
            api,
            model: request["model"].clone(),
            id: fresh("reply"),
            parts: 0,
            has_called: false,
        }
    }

    pub(super) fn start(&self) -> String {
        match self.api {
            Api::Messages => named(&json!({ "type": "message_start", "message": {
                "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
                "stop_reason": null, "stop_sequence": null,
                "usage": { "input_tokens": INPUT_TOKENS, "output_tokens": 1 },
            } })),
            Api::Responses => named(&json!({
                "type": "response.created",
                "response": { "id": self.id, "status": "in_progress", "output": [] },
            })),
            Api::Chat => self.chunk(&json!({ "role": "assistant", "content": "" }), None),
        }
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        match self.api {
            Api::Messages => self.part(
                &json!({ "type": "text", "text": "" }),
                &json!({ "type": "text_delta", "text": text }),
            ),
            Api::Responses => {
                let id = fresh("msg");
                let item = |content| json!({ "id": id, "type": "message", "role": "assistant", "content": content });
                let place = self.parts;
                let added = json!({ "type": "response.output_item.added", "output_index": place, "item": item(json!([])) });
                let delta = json!({
                    "type": "response.output_text.delta", "item_id": id, "output_index": place, "content_index": 0,
                    "delta": text,
                });
                let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
                let mut events = named(&added) + &named(&delta);
                events += &self.item(&item(content));
                events
            }
            Api::Chat => self.chunk(&json!({ "content": text }), None),
        }
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        self.has_called = true;
        let arguments = arguments.to_string();
        match self.api {
            Api::Messages => self.part(
                &json!({ "type": "tool_use", "id": fresh("toolu"), "name": tool, "input": {} }),
                &json!({ "type": "input_json_delta", "partial_json": arguments }),
            ),
            Api::Responses => {
                let item = json!({
                    "id": fresh("fc"), "type": "function_call", "status": "completed", "call_id": fresh("call"),
                    "name": tool, "arguments": arguments,
                });
                self.item(&item)
            }
            Api::Chat => {
                let function = json!({ "name": tool, "arguments": arguments });
                let call = json!({ "index": 0, "id": fresh("call"), "type": "function", "function": function });
                self.chunk(&json!({ "tool_calls": [call] }), None)
            }
        }
    }

    pub(super) fn end(&self) -> String {
        match self.api {
            Api::Messages => {
                let reason = if self.has_called {
                    "tool_use"
                } else {
                    "end_turn"
                };
                named(&json!({
                    "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
                    "usage": { "output_tokens": OUTPUT_TOKENS },
                })) + &named(&json!({ "type": "message_stop" }))
            }
            Api::Responses => named(&json!({ "type": "response.completed", "response": {
                "id": self.id, "status": "completed", "output": [],
                "usage": {
                    "input_tokens": INPUT_TOKENS, "input_tokens_details": { "cached_tokens": 0 },
                    "output_tokens": OUTPUT_TOKENS, "output_tokens_details": { "reasoning_tokens": 0 },
                    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
                },
            } })),
            Api::Chat => {
                let reason = if self.has_called {
                    "tool_calls"
                } else {
                    "stop"
                };
                let usage = json!({
                    "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": [],
                    "usage": {
                        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
                        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
                    },
                });
                self.chunk(&json!({}), Some(reason)) + &plain(&usage) + "data: [DONE]\n\n"
            }
        }
    }

    /// A part of a message, whole.
    fn part(&mut self, begin: &Value, delta: &Value) -> String {
        let index = self.parts;
        self.parts += 1;
        [
            json!({ "type": "content_block_start", "index": index, "content_block": begin }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]
        .iter()
        .map(named)
        .collect()
    }

    /// An item of a response, whole.
    fn item(&mut self, item: &Value) -> String {
        let index = self.parts;
        self.parts += 1;
        named(&json!({ "type": "response.output_item.done", "output_index": index, "item": item }))
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> String {
        plain(&json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    }
}

/// An event with its type as its name.
fn named(event: &Value) -> String {
    let name = event["type"].as_str().unwrap_or_default();
    let mut text = String::new();
    let _ = write!(text, "event: {name}\ndata: {event}\n\n");
    text
}

fn plain(event: &Value) -> String {
    format!("data: {event}\n\n")
}

/// An id that no other reply has.
fn fresh(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_{:024}", NEXT.fetch_add(1, Ordering::Relaxed))
}
