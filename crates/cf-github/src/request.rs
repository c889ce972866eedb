//! Requests as values. Whatever can be sent can be written down first, so every document is checked against GitHub's
//! own schema in the tests.
//!
//! Nothing foreign is spliced into a document: owners, names, cursors and times are variables, and what varies within
//! the text (numbers, aliases) is made from integers here. Items are asked for by scalars only: nested lists cost extra
//! and were seen cut short without an error.

use std::fmt::Write as _;

use cf_core::Repo;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::time::whole_seconds;

/// How many changed issues of one repository a list of changes names; one more, and the list is not complete.
pub const LISTED_ISSUES: u32 = 100;
/// The same for pull requests, which GitHub cannot list from a time on.
pub const LISTED_PRS: u32 = 50;
/// How many items one request for details asks about.
pub const DETAILED: usize = 40;
/// How many pull requests that close an issue are read.
pub const FOUND_PRS: u32 = 10;
/// How many comments of an item are read at first.
pub const FIRST_COMMENTS: u32 = 20;

/// A GraphQL request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Items by number, and lists of what changed, for several repositories.
    Items(Vec<RepoPart>),
    /// Comments of some items and pull requests that close some issues, by node id.
    Details(Details),
    /// Older comments of one item.
    OlderComments {
        /// The item's node id.
        id: String,
        /// The cursor before which they stand.
        before: String,
        /// How many, 1 to 100.
        last: u32,
    },
    /// A page of a repository's issues.
    Issues(IssuePage),
    /// The milestones of a repository whose titles hold a text.
    Milestones {
        /// The repository.
        repo: Repo,
        /// The text.
        text: String,
    },
    /// The account of the token.
    Viewer,
}

/// What is asked of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoPart {
    /// The repository.
    pub repo: Repo,
    /// When given, also what changed from this time on, by the server's clock.
    pub changed_since: Option<Timestamp>,
    /// The items by number.
    pub numbers: Vec<u64>,
}

/// A request for details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Node ids of the items whose comments are wanted, at most 100.
    pub comments: Vec<String>,
    /// How many comments of each, 1 to 100.
    pub last: u32,
    /// Node ids of the issues whose closing pull requests are wanted, at most 100.
    pub found: Vec<String>,
}

/// A page of a repository's issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuePage {
    /// The repository.
    pub repo: Repo,
    /// GitHub's `IssueFilters`.
    pub filter: Map<String, Value>,
    /// The cursor after which the page begins.
    pub after: Option<String>,
    /// How many, 1 to 100.
    pub first: u32,
    /// How many of each issue's newest comments, 0 to 100.
    pub comments: u32,
    /// Whether to ask what an issue is blocked by, which older servers do not know.
    pub blocked_by: bool,
}

/// A document and its variables, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The GraphQL text.
    pub query: String,
    /// The variables.
    pub variables: Map<String, Value>,
}

impl Document {
    /// The body of the request.
    pub fn body(&self) -> Vec<u8> {
        json!({ "query": self.query, "variables": self.variables })
            .to_string()
            .into_bytes()
    }
}

const RATE: &str = "rateLimit{cost limit remaining resetAt}";
const ISSUE: &str = "fragment I on Issue{id number title state stateReason(enableDuplicate:true) closedAt updatedAt}";
// `state` under both fragments would conflict, since the two enums differ.
const PR: &str =
    "fragment P on PullRequest{id number title prState:state mergedAt closedAt isDraft updatedAt}";
const COMMENT: &str = "fragment C on IssueComment{id createdAt lastEditedAt isMinimized viewerDidAuthor authorAssociation author{__typename login} body}";

impl Query {
    /// Writes the request down.
    pub fn document(&self) -> Document {
        match self {
            Self::Items(parts) => items(parts),
            Self::Details(wanted) => details(wanted),
            Self::OlderComments { id, before, last } => older_comments(id, before, *last),
            Self::Issues(page) => issues(page),
            Self::Milestones { repo, text } => milestones(repo, text),
            Self::Viewer => Document {
                query: format!("query{{{RATE} viewer{{login}}}}"),
                variables: Map::new(),
            },
        }
    }
}

fn items(parts: &[RepoPart]) -> Document {
    let mut head = String::new();
    let mut body = String::new();
    let mut variables = Map::new();
    for (r, part) in parts.iter().enumerate() {
        let _ = write!(head, "$o{r}:String!,$n{r}:String!,");
        variables.insert(format!("o{r}"), part.repo.owner().into());
        variables.insert(format!("n{r}"), part.repo.name().into());
        let _ = write!(
            body,
            " r{r}:repository(owner:$o{r},name:$n{r}){{id nameWithOwner"
        );
        if let Some(since) = part.changed_since {
            let _ = write!(head, "$s{r}:DateTime!,");
            variables.insert(format!("s{r}"), whole_seconds(since).into());
            let _ = write!(
                body,
                " issues(first:{LISTED_ISSUES},filterBy:{{since:$s{r}}},orderBy:{{field:UPDATED_AT,direction:ASC}}){{pageInfo{{hasNextPage}} nodes{{...I}}}} \
                 pullRequests(first:{LISTED_PRS},orderBy:{{field:UPDATED_AT,direction:DESC}}){{pageInfo{{hasNextPage}} nodes{{...P}}}}"
            );
        }
        for number in &part.numbers {
            let _ = write!(
                body,
                " i{number}:issueOrPullRequest(number:{number}){{__typename ...I ...P}}"
            );
        }
        body.push('}');
    }
    // Fragments that are not used are an error, and so is a list of variables with nothing in it.
    let used = parts
        .iter()
        .any(|part| part.changed_since.is_some() || !part.numbers.is_empty());
    let fragments = if used {
        format!(" {ISSUE} {PR}")
    } else {
        String::new()
    };
    let head = if head.is_empty() {
        head
    } else {
        format!("({})", head.trim_end_matches(','))
    };
    Document {
        query: format!("query{head}{{{RATE}{body}}}{fragments}"),
        variables,
    }
}

fn details(wanted: &Details) -> Document {
    let mut head = Vec::new();
    let mut body = String::new();
    let mut fragments = String::new();
    let mut variables = Map::new();
    if !wanted.comments.is_empty() {
        head.push("$c:[ID!]!,$l:Int!");
        variables.insert("c".to_owned(), json!(wanted.comments));
        variables.insert("l".to_owned(), wanted.last.into());
        let comments = "comments(last:$l){pageInfo{hasPreviousPage startCursor} nodes{...C}}";
        let _ = write!(
            body,
            " c:nodes(ids:$c){{__typename ...on Issue{{id updatedAt {comments}}} ...on PullRequest{{id updatedAt {comments}}}}}"
        );
        let _ = write!(fragments, " {COMMENT}");
    }
    if !wanted.found.is_empty() {
        head.push("$f:[ID!]!");
        variables.insert("f".to_owned(), json!(wanted.found));
        let _ = write!(
            body,
            " f:nodes(ids:$f){{__typename ...on Issue{{id updatedAt closedByPullRequestsReferences(first:{FOUND_PRS},includeClosedPrs:true){{nodes{{number prState:state mergedAt closedAt repository{{nameWithOwner}}}}}}}}}}"
        );
    }
    let head = if head.is_empty() {
        String::new()
    } else {
        format!("({})", head.join(","))
    };
    Document {
        query: format!("query{head}{{{RATE}{body}}}{fragments}"),
        variables,
    }
}

fn older_comments(id: &str, before: &str, last: u32) -> Document {
    let comments = "comments(last:$l,before:$b){pageInfo{hasPreviousPage startCursor} nodes{...C}}";
    let mut variables = Map::new();
    variables.insert("i".to_owned(), id.into());
    variables.insert("b".to_owned(), before.into());
    variables.insert("l".to_owned(), last.into());
    Document {
        query: format!(
            "query($i:ID!,$b:String!,$l:Int!){{{RATE} node(id:$i){{__typename ...on Issue{{id updatedAt {comments}}} ...on PullRequest{{id updatedAt {comments}}}}}}} {COMMENT}"
        ),
        variables,
    }
}

fn issues(page: &IssuePage) -> Document {
    let mut variables = Map::new();
    variables.insert("o".to_owned(), page.repo.owner().into());
    variables.insert("n".to_owned(), page.repo.name().into());
    variables.insert("filter".to_owned(), Value::Object(page.filter.clone()));
    variables.insert("first".to_owned(), page.first.into());
    let mut head = "$o:String!,$n:String!,$filter:IssueFilters!,$first:Int!".to_owned();
    let mut after = "";
    if let Some(cursor) = &page.after {
        head.push_str(",$after:String!");
        variables.insert("after".to_owned(), cursor.as_str().into());
        after = "after:$after,";
    }
    let mut more = String::new();
    let mut fragments = format!(" {ISSUE}");
    if page.comments > 0 {
        head.push_str(",$l:Int!");
        variables.insert("l".to_owned(), page.comments.into());
        more.push_str(" comments(last:$l){pageInfo{hasPreviousPage startCursor} nodes{...C}}");
        let _ = write!(fragments, " {COMMENT}");
    }
    if page.blocked_by {
        more.push_str(" blockedBy(first:50){pageInfo{hasNextPage} nodes{number state repository{nameWithOwner}}}");
    }
    Document {
        query: format!(
            "query({head}){{{RATE} repository(owner:$o,name:$n){{nameWithOwner issues(first:$first,{after}filterBy:$filter,orderBy:{{field:CREATED_AT,direction:ASC}}){{totalCount pageInfo{{hasNextPage endCursor}} nodes{{...I url body createdAt authorAssociation author{{__typename login}} milestone{{title number}} labels(first:50){{nodes{{name}}}} assignees(first:20){{nodes{{login}}}}{more}}}}}}}}}{fragments}"
        ),
        variables,
    }
}

fn milestones(repo: &Repo, text: &str) -> Document {
    let mut variables = Map::new();
    variables.insert("o".to_owned(), repo.owner().into());
    variables.insert("n".to_owned(), repo.name().into());
    variables.insert("text".to_owned(), text.into());
    Document {
        query: format!(
            "query($o:String!,$n:String!,$text:String!){{{RATE} repository(owner:$o,name:$n){{milestones(first:100,query:$text){{nodes{{number title}}}}}}}}"
        ),
        variables,
    }
}

/// Every shape of document that this crate can send, with a name, for validation against a schema. The names of those
/// that only newer servers understand begin with `newer-`.
pub fn samples() -> Vec<(String, Document)> {
    let repo = |n: u32| -> Repo {
        format!("owner-{n}/repo.{n}")
            .parse()
            .expect("these are repository names")
    };
    let since = Timestamp::UNIX_EPOCH;
    let part = |n: u32, changed: bool, count: u64| RepoPart {
        repo: repo(n),
        changed_since: changed.then_some(since),
        numbers: (1..=count).collect(),
    };
    let ids = |count: usize| (0..count).map(|n| format!("I_{n}")).collect::<Vec<_>>();
    let mut samples = Vec::new();
    let mut add = |name: &str, query: Query| samples.push((name.to_owned(), query.document()));
    for count in [1, 10, 100, 250] {
        add(
            &format!("items-{count}"),
            Query::Items(vec![part(0, false, count)]),
        );
    }
    add(
        "items-50-repositories",
        Query::Items((0..50).map(|n| part(n, false, 5)).collect()),
    );
    add("changes", Query::Items(vec![part(0, true, 0)]));
    add(
        "changes-and-items",
        Query::Items((0..20).map(|n| part(n, n < 10, 10)).collect()),
    );
    add("repository-alone", Query::Items(vec![part(0, false, 0)]));
    add("nothing", Query::Items(Vec::new()));
    for (comments, found) in [(40, 0), (0, 40), (40, 40), (1, 1), (0, 0)] {
        add(
            &format!("details-{comments}-{found}"),
            Query::Details(Details {
                comments: ids(comments),
                last: FIRST_COMMENTS,
                found: ids(found),
            }),
        );
    }
    add(
        "older-comments",
        Query::OlderComments {
            id: "I_1".to_owned(),
            before: "Y3Vyc29y".to_owned(),
            last: 50,
        },
    );
    for (after, comments, blocked_by) in [
        (false, 0, false),
        (true, 0, false),
        (true, 20, false),
        (false, 0, true),
        (true, 20, true),
    ] {
        let filter = json!({"states": ["OPEN"], "labels": ["a \"quoted\" one"], "assignee": "me", "milestoneNumber": "3"});
        add(
            &format!(
                "{}issues-{}-{comments}",
                if blocked_by { "newer-" } else { "" },
                if after { "next" } else { "first" }
            ),
            Query::Issues(IssuePage {
                repo: repo(0),
                filter: filter.as_object().cloned().unwrap_or_default(),
                after: after.then(|| "Y3Vyc29y".to_owned()),
                first: 100,
                comments,
                blocked_by,
            }),
        );
    }
    add(
        "milestones",
        Query::Milestones {
            repo: repo(0),
            text: "v1 } evil".to_owned(),
        },
    );
    add("viewer", Query::Viewer);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_is_spliced_into_a_document() {
        for (name, document) in samples() {
            for foreign in [
                "owner-", "repo.", "evil", "quoted", "Y3Vyc29y", "I_", "1970",
            ] {
                assert!(!document.query.contains(foreign), "{name} holds {foreign}");
            }
        }
    }

    #[test]
    fn braces_are_balanced_and_no_list_of_variables_is_empty() {
        for (name, document) in samples() {
            let count = |c| document.query.matches(c).count();
            assert_eq!(count('{'), count('}'), "{name}");
            assert_eq!(count('('), count(')'), "{name}");
            assert!(!document.query.contains("()"), "{name}");
        }
    }

    #[test]
    fn a_time_is_sent_in_whole_seconds_with_a_z() {
        let part = RepoPart {
            repo: "a/b".parse().unwrap(),
            changed_since: Some("2026-01-02T03:04:05.678Z".parse().unwrap()),
            numbers: vec![],
        };
        let document = Query::Items(vec![part]).document();
        assert_eq!(document.variables["s0"], "2026-01-02T03:04:05Z");
    }
}
