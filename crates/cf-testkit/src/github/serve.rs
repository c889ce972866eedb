//! Answers requests: limits and faults first, then GraphQL or REST from the world.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{self, Reply};
use super::{
    Fault, HeaderMap, Item, Kind, Place, Received, Repo, World, graphql, http_date, iso, lock, now,
};

/// Serves one connection until it ends.
pub(super) fn connection(stream: TcpStream, world: &Mutex<World>) {
    // A client that goes quiet must not hold a thread for ever.
    let _ = stream.set_read_timeout(Some(Duration::from_mins(1)));
    let Ok(mut out) = stream.try_clone() else {
        return;
    };
    let mut stream = BufReader::new(stream);
    while let Some(request) = http::read(&mut stream) {
        let fault = {
            let mut world = lock(world);
            world.in_flight += 1;
            world.most_in_flight = world.most_in_flight.max(world.in_flight);
            world.received.push(request.clone());
            world.fault_for(&request)
        };
        let go_on = answer(&mut out, world, &request, fault);
        lock(world).in_flight -= 1;
        if !go_on {
            let _ = out.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// Writes the answer; says whether the connection goes on.
fn answer(
    out: &mut TcpStream,
    world: &Mutex<World>,
    request: &Received,
    fault: Option<Fault>,
) -> bool {
    let mut most = usize::MAX;
    let mut partial = false;
    let mut edit: Option<fn(&mut Value)> = None;
    match fault {
        // What it holds was taken out when it came due.
        None | Some(Fault::Holding(..)) => {}
        Some(Fault::Reset) => return false,
        Some(Fault::Silence(time)) => {
            std::thread::sleep(time);
            return false;
        }
        Some(Fault::Late(time)) => std::thread::sleep(time),
        Some(Fault::Truncated) => {
            let _ = out.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n{\"data\":{\"r0\"",
            );
            return false;
        }
        Some(Fault::Huge(bytes)) => {
            let _ = write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
            );
            let piece = vec![b' '; 65_536];
            let mut left = bytes;
            while left > 0 {
                let length = left.min(piece.len());
                if out.write_all(&piece[..length]).is_err() {
                    return false;
                }
                left -= length;
            }
            return true;
        }
        Some(Fault::Reply(status, headers, body)) => {
            let mut reply = Reply {
                status,
                headers: limits(&lock(world), is_graphql(request)),
                body: body.into_bytes(),
            };
            reply.headers.extend(headers);
            return out.write_all(&reply.bytes()).is_ok();
        }
        Some(Fault::Edited(how)) => edit = Some(how),
        Some(Fault::TooMuch(items, with_data)) => {
            most = items;
            partial = with_data;
        }
    }
    if !is_graphql(request) {
        let (forward, code) = {
            let world = lock(world);
            (world.forward, world.forward_code)
        };
        if let Some(to) = forward {
            let reply = http::forward(to, request, code);
            let head = reply.split(|byte| *byte == b'<' || *byte == b'{').next();
            let head = String::from_utf8_lossy(head.unwrap_or_default()).into_owned();
            lock(world).forwarded.push(head);
            // Its end is the end of the connection.
            let _ = out.write_all(&reply);
            return false;
        }
    }
    let mut reply = respond(&mut lock(world), request, most, partial);
    if let Some(edit) = edit {
        let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        edit(&mut body);
        reply.body = body.to_string().into_bytes();
    }
    let headers = limits(&lock(world), is_graphql(request));
    for (name, value) in headers {
        reply.headers.entry(name).or_insert(value);
    }
    out.write_all(&reply.bytes()).is_ok()
}

fn is_graphql(request: &Received) -> bool {
    request.path.ends_with("/graphql")
}

fn limits(world: &World, graphql: bool) -> HeaderMap {
    let budget = if graphql { world.graphql } else { world.core };
    let clock = now().saturating_add_signed(world.skew);
    HeaderMap::from(
        [
            ("date", http_date(clock)),
            ("x-ratelimit-limit", budget.limit.to_string()),
            ("x-ratelimit-remaining", budget.remaining.to_string()),
            (
                "x-ratelimit-reset",
                clock.saturating_add_signed(budget.resets_in).to_string(),
            ),
            (
                "x-ratelimit-resource",
                if graphql { "graphql" } else { "core" }.to_owned(),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}

fn respond(world: &mut World, request: &Received, most: usize, partial: bool) -> Reply {
    let message = |status, text: &str| Reply::json(status, &json!({ "message": text }));
    if !request.headers.contains_key("user-agent") {
        return message(403, "Request forbidden by administrative rules.");
    }
    let token = request
        .headers
        .get("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    if world.token.is_some() && token != world.token.as_deref() {
        return message(401, "Bad credentials");
    }
    if is_graphql(request) {
        if token.is_none() {
            return message(401, "This endpoint requires you to be authenticated.");
        }
        if world.graphql.remaining == 0 {
            return Reply::json(
                200,
                &json!({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit already exceeded for user ID 1."}]}),
            );
        }
        world.graphql.remaining -= 1;
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        return Reply::json(200, &graphql::execute(world, &body, most, partial));
    }
    if world.core.remaining == 0 {
        return message(403, "API rate limit exceeded for user ID 1.");
    }
    world.core.remaining -= 1;
    rest(world, request).unwrap_or_else(|| message(404, "Not Found"))
}

/// `/repos/OWNER/NAME/issues/N` and `/repositories/ID/issues/N`, below either base.
fn rest(world: &World, request: &Received) -> Option<Reply> {
    let path = request.path.trim_start_matches("/api/v3");
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (repo, number) = match parts.as_slice() {
        ["repos", owner, name, "issues", number] => {
            (world.repo(&format!("{owner}/{name}"))?, number)
        }
        ["repositories", id, "issues", number] => (
            world
                .repos
                .values()
                .find(|repo| repo.id.to_string() == *id)?,
            number,
        ),
        _ => return None,
    };
    let item = repo.items.get(&number.parse().ok()?)?;
    let base = format!("http://{}", world.address?);
    match &item.place {
        Place::Hidden => None,
        Place::Protected => Some(Reply::json(
            403,
            &json!({"message": "Resource protected by organization SAML enforcement."}),
        )),
        Place::Deleted => Some(Reply::json(
            410,
            &json!({"message": "This issue was deleted"}),
        )),
        Place::Moved(to, number) => {
            let mut reply = Reply::json(301, &json!({"message": "Moved Permanently"}));
            let id = world.repo(to).map_or(0, |repo| repo.id);
            let prefix = if request.path.starts_with("/api/v3") {
                "/api/v3"
            } else {
                ""
            };
            reply.headers.insert(
                "location".to_owned(),
                format!("{base}{prefix}/repositories/{id}/issues/{number}"),
            );
            Some(reply)
        }
        Place::Here | Place::RestOnly => {
            let body = issue(repo, item, &base);
            let etag = format!(
                "W/\"{:x}\"",
                body.to_string().len() as u64 ^ item.updated_at
            );
            if request.headers.get("if-none-match") == Some(&etag) {
                return Some(Reply::json(304, &Value::Null));
            }
            let mut reply = Reply::json(200, &body);
            reply.headers.insert("etag".to_owned(), etag);
            Some(reply)
        }
    }
}

fn issue(repo: &Repo, item: &Item, base: &str) -> Value {
    let mut body = json!({
        "node_id": item.id(repo),
        "number": item.number,
        "title": item.title,
        "state": if item.state == "OPEN" { "open" } else { "closed" },
        "state_reason": item.reason.as_ref().map(|reason| reason.to_ascii_lowercase()),
        "closed_at": item.closed_at.map(iso),
        "updated_at": iso(item.updated_at),
        "repository_url": format!("{base}/repos/{}", repo.name),
        "user": null,
        "body": null,
    });
    if item.kind == Kind::PullRequest {
        let merged = item.closed_at.filter(|_| item.state == "MERGED").map(iso);
        body["draft"] = item.draft.into();
        body["pull_request"] = json!({ "merged_at": merged });
    }
    body
}
