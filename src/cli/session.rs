//! The command line of `belljar session`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Arguments of `session`.
#[derive(Debug, clap::Args)]
pub struct Session {
    /// What to do.
    #[command(subcommand)]
    pub command: SessionCommand,
}

/// What `session` does. An ID may be the beginning of one; `last` is the session that began last.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List the sessions that are kept, the last one last.
    Ls {
        /// As JSON, one line for each.
        #[arg(long)]
        json: bool,
    },
    /// Show the runs of a session: their code, calls, output and outcome.
    Show {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// Only this run.
        #[arg(long, value_name = "N")]
        run: Option<u64>,
    },
    /// Write a session as a Python script of cells, or as a notebook with its outputs.
    Export {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// As what.
        #[arg(long, value_enum, default_value_t = ExportFormat::Py)]
        format: ExportFormat,
        /// The new file; without, stdout. Nothing that is there is overwritten.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove sessions that are not in use.
    #[command(group(clap::ArgGroup::new("which").required(true)))]
    Rm {
        /// These.
        #[arg(value_name = "ID", group = "which")]
        ids: Vec<String>,
        /// Those whose last run is so long ago.
        #[arg(long, value_name = "DAYS", group = "which")]
        older_than: Option<u32>,
        /// All.
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Run the code of a session once more in a new sandbox, and say what comes otherwise.
    Replay {
        /// The session.
        #[arg(value_name = "ID")]
        id: String,
        /// Only up to this run.
        #[arg(long, value_name = "N")]
        until: Option<u64>,
        /// Who answers calls: what is kept, so that no server is asked, or the servers.
        #[arg(long, value_enum, default_value_t = RecordWay::Recorded)]
        record: RecordWay,
        /// As JSON, one line for each run.
        #[arg(long)]
        json: bool,
    },
}

/// What a session is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A Python script.
    Py,
    /// A notebook of Jupyter.
    Ipynb,
}

/// Who answers the calls of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordWay {
    /// What is kept.
    Recorded,
    /// The servers.
    Live,
}
