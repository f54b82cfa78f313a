//! belljar: one MCP tool, `run_python`, in a warm interpreter inside a locked container.
//!
//! The modules by layer; a module may use modules of lower layers only:
//!
//! | layer | modules |
//! |---|---|
//! | L9 | `main` |
//! | L8 | [`app`], [`cli`] |
//! | L7 | [`server`] |
//! | L6 | [`rerun`] |
//! | L5 | [`session`] |
//! | L4 | [`broker`] |
//! | L3 | [`config`] |
//! | L2 | [`engine`], [`upstream`], [`catalog`], [`clients`], [`audit`], [`journal`], [`models`], [`jobs`], [`workspace`], [`skills`], [`render`] |
//! | L1 | [`cache_dir`], [`protocol`], [`jsonrpc`], [`policy`], [`problem`], [`recipe`], [`run`], [`guard`], [`jose`], [`service_login`], [`web`] |
//! | L0 | [`confine`], [`clock`], [`digest`], [`names`], [`limits`], [`own_file`], [`programs`], [`secret`], [`text`] |

// Product code returns errors, and prints through `out!` and `err!`, which do not panic when nobody reads.
#![warn(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::todo,
    clippy::unimplemented,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod app;
pub mod audit;
pub mod broker;
pub mod cache_dir;
pub mod catalog;
pub mod cli;
pub mod clients;
pub mod clock;
pub mod config;
pub mod confine;
pub mod digest;
pub mod engine;
pub mod guard;
pub mod jobs;
pub mod jose;
pub mod journal;
pub mod jsonrpc;
pub mod limits;
pub mod models;
pub mod names;
pub mod own_file;
pub mod policy;
pub mod problem;
pub mod programs;
pub mod protocol;
pub mod recipe;
pub mod render;
pub mod rerun;
pub mod run;
pub mod secret;
pub mod server;
pub mod service_login;
pub mod session;
pub mod skills;
pub mod text;
pub mod upstream;
pub mod web;
pub mod workspace;
