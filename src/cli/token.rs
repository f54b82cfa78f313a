//! The command line of `belljar token`.

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};

/// Arguments of `token`.
#[derive(Debug, clap::Args)]
pub struct Token {
    /// The subcommand.
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// The subcommands of `token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, and print it. It is not shown again.
    Add {
        /// The name of the token. Its sessions have workspaces, skills, logins and journals of their own under this name.
        #[arg(value_name = "NAME")]
        name: String,
        /// The profile of the policy for its sessions; without it, the profile of your settings counts.
        #[arg(long, value_name = "PROFILE", value_parser = PossibleValuesParser::new(["open", "careful", "read-only"]))]
        policy: Option<String>,
        /// The servers that its sessions can call; without it, all that you have configured.
        #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
        servers: Option<Vec<String>>,
        /// The time until it ends, such as 12h or 90d; without it, it lasts until you remove it.
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Let the token read the numbers at /metrics, and nothing else.
        #[arg(long, conflicts_with_all = ["policy", "servers"])]
        metrics: bool,
        /// Print the token alone.
        #[arg(long)]
        quiet: bool,
    },
    /// List the tokens with what they allow. The tokens themselves are not stored.
    Ls {
        /// Print JSON, one line for each token.
        #[arg(long)]
        json: bool,
    },
    /// Remove a token. Its sessions end.
    Rm {
        /// The name of the token.
        #[arg(value_name = "NAME")]
        name: String,
    },
}
