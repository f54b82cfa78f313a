//! The reasons why belljar cannot be added to a client's file, or removed from it.

use std::io;
use std::path::PathBuf;

use belljar_base::problem::Problem;

/// The reason for which nothing was written. No text repeats the content of the file.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The client has no file in projects.
    #[error("{title} has no file of servers in projects; leave --project out")]
    NoSuchPlace {
        /// The client.
        title: &'static str,
    },
    /// The client has no entries that reach belljar over HTTP without the token in the file.
    #[error(
        "--http: {title} {why}; leave --http out, or use `--shared` instead of it to have one belljar for several clients"
    )]
    NoHttp {
        /// The client.
        title: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The client does not start belljar.
    #[error(
        "{title} reaches belljar over HTTP, by {path}; belljar then has the variables that `belljar serve` was started with"
    )]
    OverHttp {
        /// The client.
        title: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The client's file is not in the project's folder.
    #[error("{path} leads out of the project by a symbolic link; nothing is written there")]
    Outside {
        /// The path of the file, as the client names it.
        path: PathBuf,
    },
    /// The file cannot be read, so it is not written.
    #[error("{problem}; it is not written")]
    Broken {
        /// What is wrong with it, and where.
        problem: Box<Problem>,
    },
    /// The executable's path is not UTF-8.
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
    /// Belljar's entry in a project's file has more than belljar writes.
    #[error(
        "{path} starts belljar as {name:?} with settings that belljar did not write: {keys}; whoever sent the project may have \
         chosen them. --force replaces the entry by belljar's own; or remove these from it"
    )]
    Additions {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// The keys of the settings, separated by commas.
        keys: String,
    },
    /// Belljar is not in the file.
    #[error("belljar is not in {path}; `belljar install --client {client}` puts it there")]
    NotThere {
        /// The name of the client on the command line.
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
    /// The file is written in a way that cannot be edited safely.
    #[error("{path} is written in a way that cannot be edited safely; put this into it by hand:\n{block}")]
    Uneditable {
        /// The file.
        path: PathBuf,
        /// The text to add to it.
        block: String,
    },
    /// The entry cannot be removed safely.
    #[error("{path} is written in a way that cannot be edited safely; take {key} out of it by hand")]
    Stuck {
        /// The file.
        path: PathBuf,
        /// The path of keys to the entry.
        key: String,
    },
    /// The file was changed after it was read.
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
        /// The system's error.
        source: io::Error,
    },
    /// The backup cannot be written or read.
    #[error("cannot keep what {path} is for: {source}")]
    Backup {
        /// A file of the backup.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
