//! The arguments of `belljar skill`.

use clap::Subcommand;

/// Arguments of `skill`.
#[derive(Debug, clap::Args)]
pub struct Skill {
    /// What to do.
    #[command(subcommand)]
    pub command: SkillCommand,
}

/// What `skill` does.
#[derive(Debug, Subcommand)]
pub enum SkillCommand {
    /// List what is kept, and what waits to be accepted.
    Ls {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the file of a skill.
    Show {
        /// The skill.
        #[arg(value_name = "NAME")]
        name: String,
        /// An earlier version instead.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// List the versions of a skill that are kept.
    History {
        /// The skill, which may have been removed.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a skill; its versions stay.
    Rm {
        /// The skill.
        #[arg(value_name = "NAME")]
        name: String,
        /// Forget its versions too.
        #[arg(long)]
        purge: bool,
    },
    /// Let an earlier version count again.
    Restore {
        /// The skill, which may have been removed.
        #[arg(value_name = "NAME")]
        name: String,
        /// Which; without, the one that was removed, or the one before the last.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Show what was changed in a file, and accept it.
    Trust {
        /// The skill.
        #[arg(value_name = "NAME", required_unless_present = "all")]
        name: Option<String>,
        /// All that wait.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Call a skill in a sandbox and print its result: text as it is, anything else as JSON.
    Run(RunSkill),
}

/// Arguments of `skill run`.
#[derive(Debug, clap::Args)]
pub struct RunSkill {
    /// The skill.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its arguments: an object by name, or an array by place; `-` reads them from stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    pub args: String,
    /// Reach only this server; may be given more than once. Without it, all configured servers.
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Seconds until the code is interrupted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Make only calls whose tool says that it only reads; list the others with their arguments.
    #[arg(long)]
    pub dry_run: bool,
}
