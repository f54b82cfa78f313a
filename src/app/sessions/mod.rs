//! `belljar session`: lists, shows, replays and removes recorded sessions.
//!
//! The journal decides what is recorded.

pub(super) mod command;
mod replay;
mod session_words;
