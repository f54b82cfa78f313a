//! One bridge for all clients of a user: `belljar serve`, the relay that a client starts in its place, and HTTP.
//!
//! A relay passes its environment on, so that each session has the configuration that it would have alone. Sessions over HTTP
//! have the user's configuration in the user's home, and belong to the owner of the token, or to a subject of an OAuth issuer. Sessions whose configurations are
//! equal share their servers.

mod access_token;
mod bridges;
mod hello;
mod holding_body;
mod http;
mod issuer_keys;
mod listen;
mod oauth;
mod open_sessions;
mod owners;
mod place;
mod public_key;
mod relay;
mod status;
mod tls;
mod tokens;
mod units;

pub(super) use http::HttpOptions;
pub(super) use listen::{detach, serve_all, status, status_of_running, stop};
pub(super) use oauth::OAuthOptions;
pub(super) use place::Place;
pub(super) use relay::relay;
pub(super) use tls::Tls;
pub(super) use tokens::{Token, Tokens, expiry};
pub(super) use units::unit;
