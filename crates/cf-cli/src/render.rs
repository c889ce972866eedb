//! How stored things are shown: as words for people, as JSON for programs.
//!
//! Nothing here opens the store; what is shown is passed in. Everything that comes from outside goes through
//! [`text::clean`] before it is printed as words; JSON keeps it as it is, because its strings are escaped.

pub(crate) mod batch;
pub(crate) mod event;
pub(crate) mod excerpt;
pub(crate) mod graph;
pub(crate) mod json;
pub(crate) mod link;
pub(crate) mod number;
pub(crate) mod reconciliation;
pub(crate) mod report;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod usage;
