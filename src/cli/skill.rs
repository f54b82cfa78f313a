//! The arguments of `belljar skill`.

use clap::Subcommand;

/// Arguments of `skill`.
#[derive(Debug, clap::Args)]
pub struct Skill {
    /// The subcommand.
    #[command(subcommand)]
    pub command: SkillCommand,
}

/// The subcommands of `skill`.
#[derive(Debug, Subcommand)]
pub enum SkillCommand {
    /// List the skills, and those that wait to be accepted.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the file of a skill.
    Show {
        /// The skill.
        #[arg(value_name = "NAME")]
        name: String,
        /// The version; without it, the current one.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// List the stored versions of a skill.
    History {
        /// The skill, which may have been removed.
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON, one line for each version.
        #[arg(long)]
        json: bool,
    },
    /// Remove a skill. Its earlier versions stay.
    Rm {
        /// The skill.
        #[arg(value_name = "NAME")]
        name: String,
        /// Remove its versions too.
        #[arg(long)]
        purge: bool,
    },
    /// Restore an earlier version of a skill.
    Restore {
        /// The skill, which may have been removed.
        #[arg(value_name = "NAME")]
        name: String,
        /// The version; without it, the one that was removed, or the one before the current one.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Show the change of a skill's file, and accept it.
    Trust {
        /// The skill.
        #[arg(value_name = "NAME", required_unless_present = "all")]
        name: Option<String>,
        /// Accept all changes.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Call a skill in a sandbox, and print its result: text unchanged, anything else as JSON.
    Run(RunSkill),
}

/// Arguments of `skill run`.
#[derive(Debug, clap::Args)]
pub struct RunSkill {
    /// The skill.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The arguments: an object of named ones, or an array of positional ones; `-` reads them from stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    pub args: String,
    /// Allow calls of this server only; can be repeated. Without it, all configured servers can be called.
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Seconds until the code is interrupted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Make only calls of read-only tools, and list the others with their arguments.
    #[arg(long)]
    pub dry_run: bool,
}
