//! The checks that a machine makes, a subject a file.

pub(crate) mod browser;
pub(crate) mod comments;
pub(crate) mod dependencies;
pub(crate) mod golden;
pub(crate) mod layers;
pub(crate) mod links;
pub(crate) mod manifests;
pub(crate) mod migrations;
pub(crate) mod rust;
pub(crate) mod words;
