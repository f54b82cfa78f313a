//! How an entry logs in to its remote server.

mod read;

pub(crate) use read::schema;

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
