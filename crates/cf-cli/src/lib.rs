//! The cf command.
