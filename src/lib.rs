//! belljar: one MCP tool, `run_python`, in a warm interpreter inside a locked container.
//!
//! The modules by layer; a module may use modules of lower layers only:
//!
//! | layer | modules |
//! |---|---|
//! | L8 | `main` |
//! | L7 | [`app`], [`cli`] |
//! | L6 | [`server`] |
//! | L5 | [`rerun`] |
//! | L4 | [`session`] |
//! | L3 | [`broker`] |
//! | L2 | [`engine`], [`upstream`], [`catalog`], [`config`], [`clients`], [`audit`], [`journal`], [`models`], [`jobs`], [`workspace`], [`skills`], [`render`] |
//! | L1 | [`cache_dir`], [`protocol`], [`jsonrpc`], [`policy`], [`problem`], [`recipe`], [`run`], [`guard`], [`jose`], [`service_login`], [`web`] |
//! | L0 | [`confine`], [`digest`], [`names`], [`limits`], [`own_file`], [`programs`], [`secret`], [`text`] |

pub mod app;
pub mod audit;
pub mod broker;
pub mod cache_dir;
pub mod catalog;
pub mod cli;
pub mod clients;
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
