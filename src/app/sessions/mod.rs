//! `belljar session`: lists, shows, replays and removes recorded sessions.
//!
//! What is recorded is the journal's.

pub(super) mod command;
mod replay;
mod session_words;
