//! What an agent's request says: the prompts, the results since, and the tools on offer.

use serde_json::{Map, Value, json};

/// The API that a request is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// Anthropic's messages.
    Messages,
    /// OpenAI's responses.
    Responses,
    /// OpenAI's chat completions, which many others speak too.
    Chat,
}

impl Api {
    pub(super) fn of(method: &str, path: &str) -> Option<Self> {
        match (method, path) {
            ("POST", "/v1/messages") => Some(Self::Messages),
            ("POST", "/v1/responses") => Some(Self::Responses),
            ("POST", "/v1/chat/completions") => Some(Self::Chat),
            _ => None,
        }
    }

    /// The body of an error.
    pub(super) fn error(self, message: &str) -> Value {
        match self {
            Self::Messages => {
                json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } })
            }
            Self::Responses | Self::Chat => {
                json!({ "error": { "type": "invalid_request_error", "message": message, "code": null } })
            }
        }
    }
}

/// A request, as far as a script looks at it.
#[derive(Debug)]
pub(super) struct Conversation {
    said: Vec<Said>,
    tools: Vec<(String, Map<String, Value>)>,
}

#[derive(Debug)]
enum Said {
    Prompt(String),
    Result,
}

impl Conversation {
    pub(super) fn read(api: Api, body: &Value) -> Self {
        let list = |name: &str| body[name].as_array().into_iter().flatten();
        let mut said = Vec::new();
        match api {
            Api::Messages => {
                for message in list("messages").filter(|m| m["role"] == "user") {
                    let parts = message["content"].as_array();
                    let results = parts.into_iter().flatten();
                    let results = results.filter(|part| part["type"] == "tool_result").count();
                    said.extend((0..results).map(|_| Said::Result));
                    said.push(Said::Prompt(text(&message["content"])));
                }
            }
            Api::Responses => said.extend(list("input").filter_map(|item| {
                if item["type"]
                    .as_str()
                    .is_some_and(|t| t.ends_with("_output"))
                {
                    return Some(Said::Result);
                }
                (item["role"] == "user").then(|| Said::Prompt(text(&item["content"])))
            })),
            Api::Chat => {
                said.extend(list("messages").filter_map(|m| match m["role"].as_str()? {
                    "user" => Some(Said::Prompt(text(&m["content"]))),
                    "tool" => Some(Said::Result),
                    _ => None,
                }));
            }
        }
        let tools = list("tools")
            .flat_map(|tool| match tool["tools"].as_array() {
                Some(inner) => inner.iter().collect(),
                None => vec![tool],
            })
            .filter_map(|tool| {
                let function = tool.get("function").unwrap_or(tool);
                let schema = function.get("input_schema").or(function.get("parameters"));
                let properties = schema.and_then(|schema| schema["properties"].as_object());
                let name = function["name"].as_str()?;
                Some((name.to_owned(), properties.cloned().unwrap_or_default()))
            })
            .collect();
        Self { said, tools }
    }

    pub(super) const fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// The newest prompt for which `find` knows something, how many results came after it, and what `find` knows.
    pub(super) fn newest_prompt<T>(
        &self,
        find: impl Fn(&str) -> Option<T>,
    ) -> Option<(&str, usize, T)> {
        let mut results = 0;
        self.said.iter().rev().find_map(|said| match said {
            Said::Result => {
                results += 1;
                None
            }
            Said::Prompt(prompt) => Some((prompt.as_str(), results, find(prompt)?)),
        })
    }

    /// The name and arguments of the call that runs a command in the agent's own shell, if it offers one.
    pub(super) fn shell_call(&self, command: &str) -> Option<(String, Value)> {
        const SHELLS: [&str; 5] = ["Bash", "bash", "exec_command", "shell_command", "shell"];
        let find = |name| self.tools.iter().find(|(tool, _)| tool == name);
        let (tool, properties) = SHELLS.into_iter().find_map(find)?;
        let mut arguments = Map::new();
        for (name, schema) in properties {
            match name.as_str() {
                "command" | "cmd" if schema["type"] == "array" => {
                    arguments.insert(name.clone(), json!(["/bin/sh", "-c", command]));
                }
                "command" | "cmd" => {
                    arguments.insert(name.clone(), json!(command));
                }
                "description" => {
                    arguments.insert(name.clone(), json!("a scripted command"));
                }
                _ => {}
            }
        }
        Some((tool.clone(), Value::Object(arguments)))
    }
}

/// The text of a message, whose content is a text or a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
