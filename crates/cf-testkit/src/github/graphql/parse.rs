//! Reads a GraphQL document; variables are put in at once.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Part of a selection.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    Field(Field),
    /// `...Name`
    Spread(String),
    /// `...on Type{…}`
    On(String, Vec<Selection>),
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) alias: String,
    pub(super) name: String,
    pub(super) args: Map<String, Value>,
    pub(super) set: Vec<Selection>,
}

/// The operation's selection, and the fragments by name.
type Document = (Vec<Selection>, HashMap<String, Vec<Selection>>);

/// Reads a document with one operation.
pub(super) fn document(text: &str, variables: &Map<String, Value>) -> Result<Document, String> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
        variables,
    };
    let mut operation = None;
    let mut fragments = HashMap::new();
    while let Some(token) = reader.peek() {
        match token {
            "{" => operation = Some(reader.set()?),
            "query" => {
                reader.at += 1;
                if reader.peek() == Some("(") {
                    while reader.next()? != ")" {}
                }
                operation = Some(reader.set()?);
            }
            "fragment" => {
                reader.at += 1;
                let name = reader.next()?.to_owned();
                reader.expect("on")?;
                let on = reader.next()?.to_owned();
                let set = reader.set()?;
                fragments.insert(name, vec![Selection::On(on, set)]);
            }
            other => return Err(format!("unexpected {other}")),
        }
    }
    Ok((operation.ok_or("no operation")?, fragments))
}

fn tokens(text: &str) -> Result<Vec<&str>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let length = if rest.starts_with("...") {
            3
        } else if "{}()[]:!$=@".contains(first) {
            1
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or("a text without an end")?;
            end + 2
        } else if first.is_ascii_alphanumeric() || first == '_' || first == '-' {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
                .unwrap_or(rest.len())
        } else {
            return Err(format!("unexpected {first}"));
        };
        let (token, tail) = rest.split_at(length);
        tokens.push(token);
        rest = tail;
    }
}

struct Reader<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    variables: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Result<&'a str, String> {
        let token = self.peek().ok_or("the document ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.next()? {
            found if found == token => Ok(()),
            found => Err(format!("{found} where {token} should be")),
        }
    }

    fn set(&mut self) -> Result<Vec<Selection>, String> {
        self.expect("{")?;
        let mut set = Vec::new();
        loop {
            match self.next()? {
                "}" => return Ok(set),
                "..." => {
                    let name = self.next()?;
                    set.push(if name == "on" {
                        let on = self.next()?.to_owned();
                        Selection::On(on, self.set()?)
                    } else {
                        Selection::Spread(name.to_owned())
                    });
                }
                name => set.push(Selection::Field(self.field(name)?)),
            }
        }
    }

    fn field(&mut self, first: &str) -> Result<Field, String> {
        let mut name = first;
        if self.peek() == Some(":") {
            self.at += 1;
            name = self.next()?;
        }
        let mut args = Map::new();
        if self.peek() == Some("(") {
            self.at += 1;
            loop {
                let arg = self.next()?;
                if arg == ")" {
                    break;
                }
                self.expect(":")?;
                args.insert(arg.to_owned(), self.value()?);
            }
        }
        let set = if self.peek() == Some("{") {
            self.set()?
        } else {
            Vec::new()
        };
        Ok(Field {
            alias: first.to_owned(),
            name: name.to_owned(),
            args,
            set,
        })
    }

    fn value(&mut self) -> Result<Value, String> {
        Ok(match self.next()? {
            "$" => {
                let name = self.next()?;
                self.variables.get(name).cloned().unwrap_or_default()
            }
            "{" => {
                let mut object = Map::new();
                loop {
                    let name = self.next()?;
                    if name == "}" {
                        break;
                    }
                    self.expect(":")?;
                    object.insert(name.to_owned(), self.value()?);
                }
                Value::Object(object)
            }
            "[" => {
                let mut list = Vec::new();
                while self.peek() != Some("]") {
                    list.push(self.value()?);
                }
                self.at += 1;
                Value::Array(list)
            }
            "true" => true.into(),
            "false" => false.into(),
            "null" => Value::Null,
            text => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => text.trim_matches('"').into(),
            },
        })
    }
}
