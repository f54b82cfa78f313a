//! The command line; it only parses.

mod session;
mod skill;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

pub use self::session::{ExportFormat, RecordWay, Session, SessionCommand};
pub use self::skill::{RunSkill, Skill, SkillCommand};
use crate::clients::client_names;

mod image;

pub use image::{Build, Image};

/// One MCP tool, run_python: a warm Python interpreter in a locked container, with your other MCP servers as functions.
///
/// Without a command, belljar is the MCP server on stdin and stdout: this is what MCP clients start.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Arguments {
    /// What to do instead of serving a client.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What belljar can do beside serving a client.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run Python in a sandbox and print what it prints; the exit code is the code's.
    Run(Run),
    /// Check the engine, the image, the limits that hold, and the configured servers.
    Doctor(Doctor),
    /// Show every setting as it counts, and where its value comes from.
    Config(Config),
    /// Take over the servers that your MCP clients have, into ~/MCPs.
    Import(Import),
    /// Put belljar into the configuration of an MCP client.
    Install(Install),
    /// Take belljar out of the configuration of an MCP client again.
    Uninstall(Uninstall),
    /// Show what was called and run, and what was not let pass.
    Log(Log),
    /// Show what sessions have run, export one, remove some, or run one once more.
    Session(Session),
    /// Show the files that are kept, of a workspace or handed over by a session: take some out, put some in, remove some.
    Files(Files),
    /// The images that sandboxes are made of: build one with more packages or languages, list, choose, remove.
    #[command(subcommand)]
    Image(Image),
    /// The functions that code has kept: list, show, accept, undo, or run one.
    Skill(Skill),
    /// Accept what a server's tools are now, after it has changed them.
    Trust(Trust),
    /// Log in to a remote server: your browser does it, the bridge keeps the token and renews it.
    Login(Login),
    /// Forget the login at a remote server, and have its tokens revoked.
    Logout(Logout),
    /// Start a server and end everything below it when the bridge goes: the bridge does this itself.
    #[command(hide = true)]
    Keep(Keep),
    /// Remove what a bridge leaves when it is killed: the bridge starts this itself.
    #[command(hide = true)]
    Guardian(Guardian),
    /// Confine this process and start a sandbox in it: the bridge does this itself.
    #[command(hide = true)]
    Confine(Confine),
}

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Start or reach each configured server, and say whether it lists its tools; ask the model that is set one question.
    #[arg(long)]
    pub ask: bool,
    /// With the environment that this client starts belljar with: say which variables come through it.
    #[arg(long, value_name = "NAME", value_parser = client_name())]
    pub client: Option<String>,
}

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// What to do instead.
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
}

/// What `config` can do beside showing the settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON schema of a config.toml, for editors.
    Schema(Schema),
    /// Print the .belljar/config.toml of the working folder, and let it count in full until it changes.
    Trust,
    /// Let the .belljar/config.toml of the working folder only narrow again.
    Untrust,
}

/// Arguments of `files`.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Which workspace; without, the one that MCP_BRIDGE_WORKSPACE names.
    #[arg(long, value_name = "NAME", global = true)]
    pub workspace: Option<String>,
    /// What this session has handed over, instead: the beginning of its ID, or `last`.
    #[arg(long, value_name = "ID", global = true, conflicts_with = "workspace")]
    pub session: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: FilesCommand,
}

/// What `files` does.
#[derive(Debug, Subcommand)]
pub enum FilesCommand {
    /// List its files with their sizes; where none is named, the workspaces, and the sessions that have handed files over.
    Ls,
    /// Copy a file out of it; nothing that is there is overwritten.
    Get {
        /// Its path below /workspace.
        #[arg(value_name = "PATH")]
        path: String,
        /// The new file, or a folder for it; - for stdout, text only on a terminal; without, the working folder.
        #[arg(value_name = "TO")]
        to: Option<PathBuf>,
    },
    /// Copy a file into it, which no belljar may be using.
    Put {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Its path below /workspace; without, its own name.
        #[arg(value_name = "PATH")]
        path: Option<String>,
    },
    /// Remove a file from it, which no belljar may be using.
    Rm {
        /// Its path below /workspace.
        #[arg(value_name = "PATH", required_unless_present = "all")]
        path: Option<String>,
        /// All that a session has handed over.
        #[arg(long, conflicts_with = "path")]
        all: bool,
    },
}

/// Arguments of `config schema`.
#[derive(Debug, clap::Args)]
pub struct Schema {
    /// Of a policy.toml instead.
    #[arg(long)]
    pub policy: bool,
}

/// Arguments of `keep`.
#[derive(Debug, clap::Args)]
pub struct Keep {
    /// The bridge that has started this process.
    #[arg(long, required_unless_present = "inside", default_value_t = 0)]
    pub bridge: u32,
    /// What its messages to the bridge begin with.
    #[arg(long, required_unless_present = "inside", default_value_t)]
    pub token: String,
    /// What a confined server sees, as JSON.
    #[arg(long)]
    pub confine: Option<String>,
    /// The keeper whose namespaces this process is in.
    #[arg(long, requires = "confine")]
    pub inside: Option<u32>,
    /// The server's command.
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `guardian`.
#[derive(Debug, clap::Args)]
pub struct Guardian {
    /// What the bridge's processes carry in their environment.
    #[arg(long)]
    pub mark: String,
}

/// Arguments of `confine`.
#[derive(Debug, clap::Args)]
pub struct Confine {
    /// The process that has started this one.
    #[arg(long, required_unless_present = "inside")]
    pub parent: Option<u32>,
    /// Whether the namespaces are there already.
    #[arg(long)]
    pub inside: bool,
    /// What the sandbox consists of, as JSON.
    pub plan: String,
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true)))]
pub struct Run {
    /// The Python source.
    #[arg(short = 'c', value_name = "CODE", group = "source")]
    pub code: Option<String>,
    /// A file of Python source; `-` is stdin.
    #[arg(value_name = "FILE", group = "source")]
    pub file: Option<PathBuf>,
    /// Put this file into /workspace first, under its own name; may be given more than once.
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Reach only this server; may be given more than once. Without it, all configured servers.
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Seconds until the code is interrupted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Make only calls whose tool says that it only reads; list the others with their arguments.
    #[arg(long)]
    pub dry_run: bool,
    /// Say on stderr which system calls the sandbox's filter has refused, how often and to which process.
    #[arg(long)]
    pub trace_denied: bool,
    /// Go on from this session: its runs are made once more first, with calls answered from its journal. With :N behind it,
    /// up to its run N.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
}

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// Only this client's; may be given more than once. Without it, all clients'.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// This file instead of the clients' own; --client says whose it is where its name does not.
    #[arg(long, value_name = "PATH", conflicts_with = "project")]
    pub file: Option<PathBuf>,
    /// The files of the project in the working folder too: they may be a stranger's.
    #[arg(long)]
    pub project: bool,
    /// Confine each server that a command starts, with `sandbox = true`, unless its entry in ~/MCPs says how.
    #[arg(long)]
    pub sandbox: bool,
    /// Only show what would be written.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Write without asking.
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub struct Install {
    /// Into this client; may be given more than once. Without it, the clients are listed.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// Into the client's file of the project in the working folder.
    #[arg(long)]
    pub project: bool,
    /// What the client calls it.
    #[arg(long, value_name = "NAME", default_value = "belljar")]
    pub name: String,
    /// Only show what would be written.
    #[arg(long)]
    pub dry_run: bool,
    /// Replace another server of that name.
    #[arg(long)]
    pub force: bool,
    /// Have the client make belljar's calls without asking, where it refuses them otherwise: `codex exec` does.
    #[arg(long)]
    pub approve_calls: bool,
}

/// Arguments of `uninstall`.
#[derive(Debug, clap::Args)]
pub struct Uninstall {
    /// Out of this client; may be given more than once. Without it the clients are listed.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// Out of the client's file of the project in the working folder.
    #[arg(long)]
    pub project: bool,
    /// What the client calls it.
    #[arg(long, value_name = "NAME", default_value = "belljar")]
    pub name: String,
    /// Only show what would be written.
    #[arg(long)]
    pub dry_run: bool,
}

fn client_name() -> PossibleValuesParser {
    PossibleValuesParser::new(client_names())
}

/// Arguments of `trust`.
#[derive(Debug, clap::Args)]
pub struct Trust {
    /// The configured server.
    #[arg(value_name = "SERVER")]
    pub server: String,
}

/// Arguments of `login`.
#[derive(Debug, clap::Args)]
pub struct Login {
    /// The configured server.
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Only print the address to open, for example to open it on another machine with a tunnel to this one.
    #[arg(long)]
    pub no_browser: bool,
    /// What to ask for, instead of what the server says; may be given more than once.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// The id of a client that you have registered at the authorization server.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// The environment variable that holds that client's secret.
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub client_secret_env: Option<String>,
}

/// Arguments of `logout`.
#[derive(Debug, clap::Args)]
pub struct Logout {
    /// The configured server.
    #[arg(value_name = "SERVER")]
    pub server: String,
}

/// Arguments of `log`.
#[derive(Debug, clap::Args)]
pub struct Log {
    /// Only calls of this server.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only what ended so: answered, tool_error, denied, invalid_arguments, deadline, finished, raised, not_started, ...
    #[arg(long, value_name = "WORD")]
    pub outcome: Option<String>,
    /// Only this session, by the beginning of its name.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only what was not let pass.
    #[arg(long)]
    pub denied: bool,
    /// Only what ended since then: 30m, 12h, 7d, or a date and time in UTC such as 2026-11-22T05:00.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// How many, of the last ones.
    #[arg(
        short = 'n',
        long = "lines",
        value_name = "N",
        default_value_t = 50,
        allow_negative_numbers = true
    )]
    pub lines: usize,
    /// The lines as they were written, JSON.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn run_wants_either_code_or_a_file() {
        for refused in [&["belljar", "run"][..], &["belljar", "run", "-c", "1", "x.py"]] {
            let said = Arguments::try_parse_from(refused).unwrap_err().to_string();
            assert!(said.contains("\nUsage: belljar run <-c <CODE>|FILE>\n"), "{said}");
        }
        let parsed = Arguments::try_parse_from(["belljar", "run", "x.py", "--server", "a", "--server", "b"]);
        let Some(Command::Run(run)) = parsed.unwrap().command else { panic!("run") };
        assert_eq!(run.servers, ["a", "b"]);
    }
}
