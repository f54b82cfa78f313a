//! The command line of `belljar session`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Arguments of `session`.
#[derive(Debug, clap::Args)]
pub struct Session {
    /// The subcommand.
    #[command(subcommand)]
    pub command: SessionCommand,
}

/// The subcommands of `session`. An ID can be the beginning of one; `last` is the newest session.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List the recorded sessions, the newest one last.
    Ls {
        /// Print JSON, one line for each session.
        #[arg(long)]
        json: bool,
    },
    /// Show the code, calls, output and outcome of a session's runs.
    Show {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// Show this run only.
        #[arg(long, value_name = "N")]
        run: Option<u64>,
    },
    /// Export a session as a Python script, or as a Jupyter notebook with its outputs.
    Export {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// The format.
        #[arg(long, value_enum, default_value_t = ExportFormat::Py)]
        format: ExportFormat,
        /// The new file; without it, stdout. An existing file is not overwritten.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove sessions that are not in use.
    #[command(group(clap::ArgGroup::new("which").required(true)))]
    Rm {
        /// The sessions.
        #[arg(value_name = "ID", group = "which")]
        ids: Vec<String>,
        /// Remove sessions whose last run was more than this many days ago.
        #[arg(long, value_name = "DAYS", group = "which")]
        older_than: Option<u32>,
        /// Remove all sessions.
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Replay the code of a session in a new sandbox, and report the differences.
    Replay {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// Replay the runs up to this one.
        #[arg(long, value_name = "N")]
        until: Option<u64>,
        /// The source of answers to calls: the recorded answers, without asking a server, or the servers.
        #[arg(long, value_enum, default_value_t = RecordWay::Recorded)]
        record: RecordWay,
        /// Print JSON, one line for each run.
        #[arg(long)]
        json: bool,
    },
}

/// The format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A Python script.
    Py,
    /// A Jupyter notebook.
    Ipynb,
}

/// The source of answers to the calls of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordWay {
    /// The recorded answers.
    Recorded,
    /// The servers.
    Live,
}
