//! Why belljar cannot be put into a client's file, or taken out of it.

use std::io;
use std::path::PathBuf;

use crate::problem::Problem;

/// The reason for which nothing was written. No text repeats the content of the file.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The client has no file in projects.
    #[error("{title} has no file of servers in projects; leave --project out")]
    NoSuchPlace {
        /// The client.
        title: &'static str,
    },
    /// The client's file in the project is no file of it.
    #[error("{path} leads out of the project by a symbolic link; nothing is written there")]
    Outside {
        /// The file, as the client calls it.
        path: PathBuf,
    },
    /// The file cannot be read, so it is not written.
    #[error("{problem}; it is not written")]
    Broken {
        /// What is wrong with it, and where.
        problem: Box<Problem>,
    },
    /// The executable's path is no text.
    #[error("the path of this executable is not UTF-8, and no client's file can hold it")]
    Program,
    /// Another entry has the name.
    #[error("{path} has another server called {name:?}; --force replaces it, --name takes another name")]
    Other {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// Belljar is not in the file.
    #[error("belljar is not in {path}; `belljar install --client {client}` puts it there")]
    NotThere {
        /// The client, as the command line calls it.
        client: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The entry does not start belljar.
    #[error("the server {name:?} in {path} does not start belljar, and stays; --name names another one")]
    Foreign {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The file is written in a way that no safe edit is known for.
    #[error("{path} is written in a way that cannot be edited safely; put this into it by hand:\n{block}")]
    Uneditable {
        /// The file.
        path: PathBuf,
        /// What belongs in it.
        block: String,
    },
    /// The same, where an entry is to go.
    #[error("{path} is written in a way that cannot be edited safely; take {key} out of it by hand")]
    Stuck {
        /// The file.
        path: PathBuf,
        /// Where the entry stands.
        key: String,
    },
    /// Somebody has written the file since it was read.
    #[error("{path} has been changed meanwhile; run the command again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The backup cannot be written or read.
    #[error("cannot keep what {path} is for: {source}")]
    Backup {
        /// A file of the backup.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
