//! As much of GraphQL as is needed to serve documents about this world: aliases, arguments, variables, fragments.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Comment, Item, Kind, Place, Repo, World, iso};

mod parse;

use parse::{Field, Selection};

/// Runs a request's document. Beyond `most` items it is too much, with data for the rest if `partial`.
pub(super) fn execute(world: &World, request: &Value, most: usize, partial: bool) -> Value {
    let query = request["query"].as_str().unwrap_or_default();
    let no_variables = Map::new();
    let variables = request["variables"].as_object().unwrap_or(&no_variables);
    let (set, fragments) = match parse::document(query, variables) {
        Ok(document) => document,
        Err(why) => return json!({"errors": [{"message": format!("Parse error: {why}")}]}),
    };
    let mut run = Run {
        world,
        fragments,
        errors: Vec::new(),
        items: 0,
        most,
        partial,
        unknown: None,
    };
    let data = run.select(&Node::Query, &set, &mut Vec::new());
    if let Some(field) = run.unknown {
        return json!({"errors": [{"message": field, "extensions": {"code": "undefinedField"}}]});
    }
    let too_much = json!({"type": "RESOURCE_LIMITS_EXCEEDED", "message": "Resource limits for this query exceeded."});
    if run.items > most && !partial {
        return json!({"data": null, "errors": [too_much]});
    }
    if run.items > most {
        run.errors.push(too_much);
    }
    let mut reply = json!({ "data": data });
    if !run.errors.is_empty() {
        reply["errors"] = Value::Array(run.errors);
    }
    reply
}

struct Run<'a> {
    world: &'a World,
    fragments: HashMap<String, Vec<Selection>>,
    errors: Vec<Value>,
    items: usize,
    most: usize,
    partial: bool,
    unknown: Option<String>,
}

/// Something that fields are selected from.
enum Node<'a> {
    Query,
    Repo(&'a Repo),
    Item(&'a Repo, &'a Item),
    Comment(&'a Comment),
    /// Anything without arguments, whole.
    Plain(&'static str, Value),
    /// A list with its page.
    Connection(Vec<Node<'a>>, Value, usize),
}

impl Node<'_> {
    fn typename(&self) -> &str {
        match self {
            Self::Query => "Query",
            Self::Repo(_) => "Repository",
            Self::Item(_, item) => match item.kind {
                Kind::Issue => "Issue",
                Kind::PullRequest => "PullRequest",
            },
            Self::Comment(_) => "IssueComment",
            Self::Plain(name, _) => name,
            Self::Connection(..) => "Connection",
        }
    }
}

/// What a field holds.
enum Held<'a> {
    Value(Value),
    Node(Node<'a>),
    List(Vec<Option<Node<'a>>>),
    /// Null with an error of this type.
    Error(&'static str, String),
}

impl<'a> Run<'a> {
    fn select(&mut self, node: &Node<'a>, set: &[Selection], path: &mut Vec<Value>) -> Value {
        let mut out = Map::new();
        for selection in set {
            match selection {
                Selection::Field(field) => {
                    path.push(field.alias.clone().into());
                    let value = self.field(node, field, path);
                    path.pop();
                    out.insert(field.alias.clone(), value);
                }
                Selection::Spread(name) => {
                    let set = self.fragments.get(name).cloned().unwrap_or_default();
                    self.merge(node, &set, path, &mut out);
                }
                Selection::On(name, set) => {
                    if node.typename() == name {
                        self.merge(node, set, path, &mut out);
                    }
                }
            }
        }
        Value::Object(out)
    }

    fn merge(
        &mut self,
        node: &Node<'a>,
        set: &[Selection],
        path: &mut Vec<Value>,
        out: &mut Map<String, Value>,
    ) {
        if let Value::Object(fields) = self.select(node, set, path) {
            out.extend(fields);
        }
    }

    fn field(&mut self, node: &Node<'a>, field: &Field, path: &mut Vec<Value>) -> Value {
        if field.name == "__typename" {
            return node.typename().into();
        }
        let held = match node {
            Node::Query => self.query(field),
            Node::Repo(repo) => self.repo(repo, field),
            Node::Item(repo, item) => self.item(repo, item, field),
            Node::Comment(comment) => Some(Self::comment(comment, field)),
            Node::Plain(_, value) => value.get(&field.name).cloned().map(Held::Value),
            Node::Connection(nodes, page, total) => match field.name.as_str() {
                "totalCount" => Some(Held::Value((*total).into())),
                "pageInfo" => Some(Held::Node(Node::Plain("PageInfo", page.clone()))),
                "nodes" => {
                    let list = nodes
                        .iter()
                        .enumerate()
                        .map(|(at, node)| {
                            path.push(at.into());
                            let value = self.select(node, &field.set, path);
                            path.pop();
                            value
                        })
                        .collect();
                    return Value::Array(list);
                }
                _ => None,
            },
        };
        match held {
            None => {
                self.unknown.get_or_insert(format!(
                    "Field '{}' doesn't exist on type '{}'",
                    field.name,
                    node.typename()
                ));
                Value::Null
            }
            Some(Held::Value(value)) => value,
            Some(Held::Node(node)) => self.select(&node, &field.set, path),
            Some(Held::List(nodes)) => nodes
                .into_iter()
                .map(|node| node.map_or(Value::Null, |node| self.select(&node, &field.set, path)))
                .collect(),
            Some(Held::Error(kind, message)) => {
                self.errors
                    .push(json!({"type": kind, "path": path, "message": message}));
                Value::Null
            }
        }
    }

    fn query(&self, field: &Field) -> Option<Held<'a>> {
        let text = |name: &str| field.args.get(name).and_then(Value::as_str);
        Some(match field.name.as_str() {
            "rateLimit" => Held::Node(Node::Plain(
                "RateLimit",
                json!({"cost": 1, "limit": self.world.graphql.limit, "remaining": self.world.graphql.remaining, "resetAt": "2030-01-01T00:00:00Z"}),
            )),
            "viewer" => Held::Node(Node::Plain("User", json!({"login": "mona"}))),
            "repository" => {
                let name = format!("{}/{}", text("owner")?, text("name")?);
                match self.world.repo(&name) {
                    Some(repo) => Held::Node(Node::Repo(repo)),
                    None => Held::Error(
                        "NOT_FOUND",
                        format!("Could not resolve to a Repository with the name '{name}'."),
                    ),
                }
            }
            "node" => match self.world.node(text("id")?) {
                Some((repo, item)) => Held::Node(Node::Item(repo, item)),
                None => Held::Error("NOT_FOUND", "Could not resolve to a node".to_owned()),
            },
            "nodes" => Held::List(
                field
                    .args
                    .get("ids")?
                    .as_array()?
                    .iter()
                    .map(|id| {
                        let (repo, item) = self.world.node(id.as_str()?)?;
                        Some(Node::Item(repo, item))
                    })
                    .collect(),
            ),
            _ => return None,
        })
    }

    fn repo(&mut self, repo: &'a Repo, field: &Field) -> Option<Held<'a>> {
        let filter = field.args.get("filterBy").cloned().unwrap_or_default();
        let listed = |kind: Kind| {
            let mut items: Vec<&Item> = repo
                .items
                .values()
                .filter(|item| item.kind == kind && item.place == Place::Here)
                .filter(|item| is_in(item, &filter))
                .collect();
            let order = &field.args.get("orderBy").cloned().unwrap_or_default();
            if order["field"] == "UPDATED_AT" {
                items.sort_by_key(|item| item.updated_at);
            }
            if order["direction"] == "DESC" {
                items.reverse();
            }
            items
                .into_iter()
                .map(|item| Node::Item(repo, item))
                .collect::<Vec<_>>()
        };
        Some(match field.name.as_str() {
            "id" => Held::Value(format!("R_{}", repo.id).into()),
            "nameWithOwner" => Held::Value(repo.name.clone().into()),
            "issues" => page(listed(Kind::Issue), &field.args),
            "pullRequests" => page(listed(Kind::PullRequest), &field.args),
            "milestones" => {
                let text = field.args.get("query")?.as_str()?.to_ascii_lowercase();
                let mut found: Vec<(u64, String)> = repo
                    .items
                    .values()
                    .filter_map(|item| item.milestone.clone())
                    .filter(|(_, title)| title.to_ascii_lowercase().contains(&text))
                    .collect();
                found.sort();
                found.dedup();
                let nodes = found
                    .into_iter()
                    .map(|(number, title)| {
                        Node::Plain("Milestone", json!({"number": number, "title": title}))
                    })
                    .collect();
                page(nodes, &field.args)
            }
            "issueOrPullRequest" => {
                self.items += 1;
                let number = field.args.get("number")?.as_u64()?;
                if self.partial && self.items > self.most {
                    return Some(Held::Value(Value::Null));
                }
                match repo.items.get(&number) {
                    Some(item) if item.place == Place::Here => Held::Node(Node::Item(repo, item)),
                    Some(item) if item.place == Place::Protected => Held::Error(
                        "FORBIDDEN",
                        "Resource protected by organization SAML enforcement.".to_owned(),
                    ),
                    _ => Held::Error(
                        "NOT_FOUND",
                        format!(
                            "Could not resolve to an issue or pull request with the number of {number}."
                        ),
                    ),
                }
            }
            _ => return None,
        })
    }

    fn item(&self, repo: &'a Repo, item: &'a Item, field: &Field) -> Option<Held<'a>> {
        let issue = item.kind == Kind::Issue;
        let names = |list: &[String], key: &str| {
            let nodes = list
                .iter()
                .map(|text| Node::Plain("Named", json!({ key: text })))
                .collect();
            page(nodes, &field.args)
        };
        let others = |list: &[(String, u64)]| {
            let nodes = list
                .iter()
                .filter_map(|(repo, number)| {
                    Some(Node::Item(
                        self.world.repo(repo)?,
                        self.world.item(repo, *number)?,
                    ))
                })
                .collect();
            page(nodes, &field.args)
        };
        let merged = item.closed_at.filter(|_| item.state == "MERGED");
        Some(match field.name.as_str() {
            "id" => Held::Value(item.id(repo).into()),
            "number" => Held::Value(item.number.into()),
            "title" => Held::Value(item.title.clone().into()),
            "body" => Held::Value(item.body.clone().into()),
            "url" => Held::Value(
                format!("https://github.com/{}/issues/{}", repo.name, item.number).into(),
            ),
            "state" => Held::Value(item.state.clone().into()),
            "stateReason" if issue => {
                let known = field.args.get("enableDuplicate") == Some(&Value::Bool(true));
                let reason = item.reason.clone();
                Held::Value(match reason.as_deref() {
                    Some("DUPLICATE") if !known => "NOT_PLANNED".into(),
                    _ => reason.into(),
                })
            }
            "mergedAt" if !issue => Held::Value(merged.map(iso).into()),
            "isDraft" if !issue => Held::Value(item.draft.into()),
            "closedAt" => Held::Value(item.closed_at.map(iso).into()),
            "createdAt" => Held::Value(iso(item.created_at).into()),
            "updatedAt" => Held::Value(iso(item.updated_at).into()),
            "authorAssociation" => Held::Value(item.association.clone().into()),
            "author" => actor(item.author.as_deref(), "User"),
            "repository" => Held::Node(Node::Repo(repo)),
            "labels" => names(&item.labels, "name"),
            "assignees" => names(&item.assignees, "login"),
            "milestone" => match &item.milestone {
                None => Held::Value(Value::Null),
                Some((number, title)) => Held::Node(Node::Plain(
                    "Milestone",
                    json!({"number": number, "title": title}),
                )),
            },
            "comments" => page(
                item.comments.iter().map(Node::Comment).collect(),
                &field.args,
            ),
            "closedByPullRequestsReferences" if issue => others(&item.closing),
            "blockedBy" if issue && self.world.knows_blocked_by => others(&item.blocked_by),
            _ => return None,
        })
    }

    fn comment(comment: &Comment, field: &Field) -> Held<'a> {
        match field.name.as_str() {
            "author" => actor(
                comment.author.as_deref(),
                if comment.kind == "Bot" { "Bot" } else { "User" },
            ),
            name => Held::Value(match name {
                "id" => comment.id.clone().into(),
                "createdAt" => iso(comment.created_at).into(),
                "lastEditedAt" => comment.edited_at.map(iso).into(),
                "isMinimized" => false.into(),
                "viewerDidAuthor" => comment.own.into(),
                "authorAssociation" => comment.association.clone().into(),
                "body" => comment.body.clone().into(),
                _ => Value::Null,
            }),
        }
    }
}

fn actor<'a>(login: Option<&str>, kind: &'static str) -> Held<'a> {
    match login {
        None => Held::Value(Value::Null),
        Some(login) => Held::Node(Node::Plain(kind, json!({ "login": login }))),
    }
}

/// Cuts a list to what `first`, `after`, `last` and `before` ask for. Cursors are positions.
fn page<'a>(mut nodes: Vec<Node<'a>>, args: &Map<String, Value>) -> Held<'a> {
    let total = nodes.len();
    let number = |name: &str| args.get(name).and_then(Value::as_u64).map(|n| n as usize);
    let cursor = |name: &str| {
        args.get(name)
            .and_then(Value::as_str)
            .and_then(|text| text.strip_prefix("cursor-")?.parse::<usize>().ok())
    };
    let end = cursor("before").unwrap_or(total).min(total);
    let start = cursor("after").unwrap_or(0).min(end);
    let (start, end) = match (number("first"), number("last")) {
        (Some(first), _) => (start, end.min(start + first)),
        (None, Some(last)) => (start.max(end.saturating_sub(last)), end),
        (None, None) => (start, end),
    };
    nodes.truncate(end);
    nodes.drain(..start);
    let info = json!({
        "hasNextPage": end < total,
        "hasPreviousPage": start > 0,
        "startCursor": format!("cursor-{start}"),
        "endCursor": format!("cursor-{end}"),
    });
    Held::Node(Node::Connection(nodes, info, total))
}

/// GitHub's `IssueFilters`, as far as this world has them.
fn is_in(item: &Item, filter: &Value) -> bool {
    let text = |name: &str| filter[name].as_str();
    let list = |name: &str| {
        filter[name]
            .as_array()
            .map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>())
    };
    text("since").is_none_or(|since| iso(item.updated_at).as_str() >= since)
        && list("states").is_none_or(|states| states.contains(&item.state.as_str()))
        && list("labels").is_none_or(|labels| {
            labels
                .iter()
                .any(|label| item.labels.iter().any(|own| own == label))
        })
        && text("assignee").is_none_or(|login| {
            if login == "*" {
                !item.assignees.is_empty()
            } else {
                item.assignees.iter().any(|own| own == login)
            }
        })
        && text("milestoneNumber").is_none_or(|wanted| match &item.milestone {
            None => false,
            Some((number, _)) => wanted == "*" || number.to_string() == wanted,
        })
}
