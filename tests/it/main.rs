//! Claims about the program that need no container engine: how it starts, speaks, refuses and explains.

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod configuration;
mod conversation;
mod requests;
mod search;
mod start;
mod tidy;
