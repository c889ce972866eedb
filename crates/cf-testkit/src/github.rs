//! A scripted GitHub on loopback: a small world of issues and pull requests that a test changes as it goes, served over
//! GraphQL and REST, with faults on demand and a log of every request.
//!
//! It understands GraphQL well enough to serve any document about the part of the schema that it has, and answers the
//! way GitHub does where clients trip over it: partial data, errors with a path, limits in a 200. It proves nothing
//! about the schema itself; documents are validated against GitHub's own elsewhere. It listens on 127.0.0.1 alone.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

mod clock;
mod graphql;
mod http;
mod item;
mod serve;

pub use clock::http_date;
use clock::{iso, now};
pub(crate) use http::read as read_request;
pub use item::{Budget, Comment, Fault, Item, Kind, Place, Received};

/// A GitHub that does as it is told. It stops when it is dropped.
pub struct ScriptedGithub {
    address: SocketAddr,
    world: Arc<Mutex<World>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct World {
    repos: BTreeMap<String, Repo>,
    faults: Vec<(String, Fault, usize)>,
    received: Vec<Received>,
    in_flight: usize,
    most_in_flight: usize,
    last_stamp: u64,
    next_comment: u64,
    graphql: Budget,
    core: Budget,
    token: Option<String>,
    knows_blocked_by: bool,
    skew: i64,
    address: Option<SocketAddr>,
    forward: Option<SocketAddr>,
    forward_code: u16,
    forwarded: Vec<String>,
}

struct Repo {
    id: u64,
    /// The name that it has now.
    name: String,
    items: BTreeMap<u64, Item>,
}

impl ScriptedGithub {
    /// Starts one with an empty world, on a free port.
    ///
    /// # Panics
    ///
    /// There is no free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let full = Budget {
            limit: 5000,
            remaining: 5000,
            resets_in: 3600,
        };
        let world = Arc::new(Mutex::new(World {
            repos: BTreeMap::new(),
            faults: Vec::new(),
            received: Vec::new(),
            in_flight: 0,
            most_in_flight: 0,
            last_stamp: now() - 86_400,
            next_comment: 1,
            graphql: full,
            core: full,
            token: None,
            knows_blocked_by: true,
            skew: 0,
            address: Some(address),
            forward: None,
            forward_code: 200,
            forwarded: Vec::new(),
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (world, stop) = (Arc::clone(&world), Arc::clone(&stop));
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Ok(stream) = stream {
                        let world = Arc::clone(&world);
                        std::thread::spawn(move || serve::connection(stream, &world));
                    }
                }
            }
        });
        Self {
            address,
            world,
            stop,
            thread: Some(thread),
        }
    }

    /// The base of its REST API; GraphQL is below it, at `/graphql`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base of its REST API in the form that Enterprise servers have.
    pub fn enterprise_url(&self) -> String {
        format!("http://{}/api/v3", self.address)
    }

    /// Variables with which `cf` takes it for `github.com`.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("GITHUB_API_URL", self.url()),
            ("GH_TOKEN", "scripted-token".to_owned()),
        ]
    }

    /// Adds an open issue; the repository comes into being with its first item.
    pub fn issue(&self, repo: &str, number: u64) {
        self.add(repo, number, Kind::Issue);
    }

    /// Adds an open pull request.
    pub fn pull_request(&self, repo: &str, number: u64) {
        self.add(repo, number, Kind::PullRequest);
    }

    fn add(&self, repo: &str, number: u64, kind: Kind) {
        let mut world = self.world();
        let at = world.last_stamp;
        let id = 1000 + world.repos.len() as u64;
        let repo = world
            .repos
            .entry(repo.to_ascii_lowercase())
            .or_insert_with(|| Repo {
                id,
                name: repo.to_owned(),
                items: BTreeMap::new(),
            });
        let item = Item {
            kind,
            number,
            title: format!("item {number}"),
            body: String::new(),
            state: "OPEN".to_owned(),
            reason: None,
            draft: false,
            author: Some("mona".to_owned()),
            association: "OWNER".to_owned(),
            labels: Vec::new(),
            milestone: None,
            assignees: Vec::new(),
            blocked_by: Vec::new(),
            closing: Vec::new(),
            place: Place::Here,
            updated_at: at,
            created_at: at,
            closed_at: None,
            comments: Vec::new(),
        };
        repo.items.insert(number, item);
    }

    /// Changes an item, and its `updatedAt` with it.
    ///
    /// # Panics
    ///
    /// There is no such item.
    pub fn change(&self, repo: &str, number: u64, change: impl FnOnce(&mut Item)) {
        let mut world = self.world();
        let at = world.stamp();
        let item = world.item_mut(repo, number);
        change(item);
        item.updated_at = at;
        if item.state == "OPEN" {
            item.closed_at = None;
        } else {
            item.closed_at.get_or_insert(at);
        }
    }

    /// Closes an issue for this reason, or a pull request without merging it.
    pub fn close(&self, repo: &str, number: u64, reason: Option<&str>) {
        self.change(repo, number, |item| {
            "CLOSED".clone_into(&mut item.state);
            item.reason = reason.map(str::to_owned);
        });
    }

    /// Merges a pull request.
    pub fn merge(&self, repo: &str, number: u64) {
        self.change(repo, number, |item| "MERGED".clone_into(&mut item.state));
    }

    /// Opens an item again.
    pub fn reopen(&self, repo: &str, number: u64) {
        self.change(repo, number, |item| {
            "OPEN".clone_into(&mut item.state);
            item.reason = Some("REOPENED".to_owned());
        });
    }

    /// Adds a comment by a member, and returns its id.
    pub fn comment(&self, repo: &str, number: u64, body: &str) -> String {
        self.comment_by(repo, number, |comment| body.clone_into(&mut comment.body))
    }

    /// Adds a comment that is changed first, and returns its id.
    pub fn comment_by(&self, repo: &str, number: u64, change: impl FnOnce(&mut Comment)) -> String {
        let mut world = self.world();
        let at = world.stamp();
        let id = format!("IC_{}", world.next_comment);
        world.next_comment += 1;
        let mut comment = Comment {
            id: id.clone(),
            author: Some("mona".to_owned()),
            kind: "User".to_owned(),
            association: "MEMBER".to_owned(),
            own: false,
            body: String::new(),
            created_at: at,
            edited_at: None,
        };
        change(&mut comment);
        let item = world.item_mut(repo, number);
        item.comments.push(comment);
        item.updated_at = at;
        id
    }

    /// Changes a comment that was made, as an edit.
    pub fn edit_comment(&self, repo: &str, number: u64, id: &str, body: &str) {
        let mut world = self.world();
        let at = world.stamp();
        let item = world.item_mut(repo, number);
        item.updated_at = at;
        if let Some(comment) = item.comments.iter_mut().find(|comment| comment.id == id) {
            body.clone_into(&mut comment.body);
            comment.edited_at = Some(at);
        }
    }

    /// Sets an item's `updatedAt`, in seconds since 1970: two changes can fall into one second.
    pub fn back_to(&self, repo: &str, number: u64, seconds: u64) {
        self.world().item_mut(repo, number).updated_at = seconds;
    }

    /// Renames a repository; the old name goes on leading to it.
    pub fn rename(&self, repo: &str, name: &str) {
        if let Some(repo) = self.world().repos.get_mut(&repo.to_ascii_lowercase()) {
            name.clone_into(&mut repo.name);
        }
    }

    /// Lets the next `times` requests go wrong whose path ends in or holds `path`.
    pub fn fault(&self, path: &str, fault: Fault, times: usize) {
        self.world().faults.push((path.to_owned(), fault, times));
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.world().faults.clear();
    }

    /// Sets what is left of the GraphQL budget.
    pub fn budget(&self, budget: Budget) {
        self.world().graphql = budget;
    }

    /// Lets nothing but this token in.
    pub fn require_token(&self, token: &str) {
        self.world().token = Some(token.to_owned());
    }

    /// Forgets the relation between issues, as older servers do.
    pub fn forget_blocked_by(&self) {
        self.world().knows_blocked_by = false;
    }

    /// Lets its clock go wrong by so many seconds.
    pub fn skew(&self, seconds: i64) {
        self.world().skew = seconds;
    }

    /// Lets another server on this machine answer what is asked over REST, with this status as far as it understands
    /// the header `Prefer: code=…`.
    pub fn forward_rest(&self, to: SocketAddr, code: u16) {
        let mut world = self.world();
        world.forward = Some(to);
        world.forward_code = code;
    }

    /// The heads of the replies that the other server gave, since this was asked last.
    pub fn take_forwarded(&self) -> Vec<String> {
        std::mem::take(&mut self.world().forwarded)
    }

    /// Every request so far.
    pub fn received(&self) -> Vec<Received> {
        self.world().received.clone()
    }

    /// How many requests there were since this was asked last.
    pub fn take_received(&self) -> Vec<Received> {
        std::mem::take(&mut self.world().received)
    }

    /// The most requests that were under way at the same time.
    pub fn most_in_flight(&self) -> usize {
        self.world().most_in_flight
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

impl Drop for ScriptedGithub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener; a failure means that it is gone already.
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let _ = stream.write_all(b"\r\n");
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl World {
    /// A time for a change, a second after the last one at least: GitHub's times are whole seconds.
    fn stamp(&mut self) -> u64 {
        self.last_stamp = now().max(self.last_stamp + 1);
        self.last_stamp
    }

    fn item_mut(&mut self, repo: &str, number: u64) -> &mut Item {
        self.repos
            .get_mut(&repo.to_ascii_lowercase())
            .and_then(|repo| repo.items.get_mut(&number))
            .expect("the test made this item before")
    }

    fn item(&self, repo: &str, number: u64) -> Option<&Item> {
        self.repos
            .get(&repo.to_ascii_lowercase())?
            .items
            .get(&number)
    }

    /// The repository of this name, which may be an old or the new one, or of this number.
    fn repo(&self, name: &str) -> Option<&Repo> {
        self.repos.get(&name.to_ascii_lowercase()).or_else(|| {
            self.repos
                .values()
                .find(|repo| repo.name.eq_ignore_ascii_case(name))
        })
    }

    /// The node of this id: the repository's key and the number.
    fn node(&self, id: &str) -> Option<(&Repo, &Item)> {
        let (repo, number) = id.split_once('_')?.1.split_once('_')?;
        let repo: u64 = repo.parse().ok()?;
        let number: u64 = number.parse().ok()?;
        let repo = self.repos.values().find(|known| known.id == repo)?;
        Some((repo, repo.items.get(&number)?))
    }

    /// Takes the next fault for a request, if one is due.
    fn fault_for(&mut self, request: &Received) -> Option<Fault> {
        let concerns = |fault: &Fault| match fault {
            Fault::Holding(text, _) => request.body.contains(text.as_str()),
            _ => true,
        };
        let (_, fault, times) = self.faults.iter_mut().find(|(part, fault, times)| {
            *times > 0 && request.path.contains(part.as_str()) && concerns(fault)
        })?;
        *times -= 1;
        Some(match fault {
            Fault::Holding(_, fault) => (**fault).clone(),
            fault => fault.clone(),
        })
    }
}

impl Item {
    fn id(&self, repo: &Repo) -> String {
        let kind = match self.kind {
            Kind::Issue => "I",
            Kind::PullRequest => "PR",
        };
        format!("{kind}_{}_{}", repo.id, self.number)
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Headers by name.
type HeaderMap = HashMap<String, String>;
