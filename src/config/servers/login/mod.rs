//! How an entry logs in to its remote server.

mod read;
mod schema;

pub(in crate::config) use schema::schema;

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
