//! GitHub as a typed, cached and paced client that answers what is known about many links at once.
//!
//! The way of a question: [`GitHub::look`] takes [`LinkAsk`]s and gives [`Answer`]s. What is fresh in the cache costs
//! nothing; the rest is planned into as few requests as will do ([`Query`] and [`RestLook`] are values that are written
//! down before anything is sent), paced by the budget, pauses and a circuit ([`pace`]), and read without trusting a
//! word of it. An answer is known, unknown or gone, and nothing that went wrong is ever taken for a change.
//!
//! ```no_run
//! # use cf_github::{Answer, Environment, GitHub, HostAccess, LinkAsk, NamedHosts, Settings};
//! # async fn example(link: cf_core::Link) {
//! let environment: Environment = std::env::vars_os()
//!     .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
//!     .collect();
//! let github = GitHub::new(Settings::default(), move |host| {
//!     HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
//! });
//! let interval = std::time::Duration::from_secs(30);
//! for answer in github.look(&[LinkAsk::state(link, interval)]).await {
//!     match answer {
//!         Answer::Known(known) => println!("{:?}", known.item.state),
//!         Answer::Unknown { why, .. } => println!("not known: {why}"),
//!         Answer::Gone(gone) => println!("{}", gone.how),
//!         Answer::Moved { to, .. } => println!("now at {to}"),
//!     }
//! }
//! # }
//! ```
//!
//! What outlives the process is handed out as plain values ([`Saved`]) and taken in again; where it is kept is the
//! caller's business. Nothing here prints, touches a file or a database, or decides what an answer means for a task. A
//! token goes to the host that it was given for and nowhere else, prints as nothing, and is taken out of every text.

mod answer;
mod chunk;
mod client;
mod entry;
mod gh_command;
mod host;
mod import;
mod item;
pub mod pace;
mod plan;
mod redact;
mod reply;
mod request;
mod rest;
mod saved;
mod scopes;
mod time;
mod token;
mod webhook;
mod wire;

pub use answer::{
    Answer, CommentAsk, Comments, FoundAsk, Gone, GoneHow, Known, LinkAsk, Notice, NoticeKind,
    Proof, Read, Why,
};
pub use chunk::Chunk;
pub use client::{GitHub, HostStatus, Resolve, Sent, Settings};
pub use gh_command::token_from_gh;
pub use host::{ApiBase, Environment, HostAccess, HostError, HostKind, NamedHosts};
pub use import::{
    Blocking, ImportError, ImportedIssue, IssueFilter, IssueStates, Listing, Page,
    blockers_named_in,
};
pub use item::{Association, COMMENT_CAP_BYTES, CloseReason, Comment, FoundPr, Item, ItemState};
pub use pace::{Headers, Patience, Trouble};
pub use redact::redact;
pub use request::{
    DETAILED, Details, Document, FIRST_COMMENTS, FOUND_PRS, IssuePage, LISTED_ISSUES, LISTED_PRS,
    Query, RepoPart, samples,
};
pub use rest::RestLook;
pub use saved::{HostState, ItemTrouble, Mark, Saved, Seen, Snapshot, Span, What};
pub use scopes::{Scopes, scopes};
pub use token::{Token, TokenChoice, TokenError, TokenSource, choose_token};
pub use webhook::{TRY_LIMIT, Undelivered, Webhook};
pub use wire::Limits;
