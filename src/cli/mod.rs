//! The command line; it only parses.

mod kubernetes;
mod oauth;
mod session;
mod skill;
mod token;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};

pub use self::kubernetes::{Kubernetes, Manifests};
pub use self::oauth::OAuth;
pub use self::session::{ExportFormat, RecordWay, Session, SessionCommand};
pub use self::skill::{RunSkill, Skill, SkillCommand};
pub use self::token::{Token, TokenCommand};
use crate::clients::client_names;

mod image;

pub use image::{Build, Image, Pull};

/// The version, with commit and date in what `packaging/package.py` builds. A variable sets it, so that a build needs no git
/// and a new commit builds nothing again.
pub const VERSION: &str = match option_env!("BELLJAR_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// One MCP tool, run_python: a warm Python interpreter in a locked container, with your other MCP servers as functions.
///
/// Without a command, belljar is the MCP server on stdin and stdout: this is what MCP clients start.
#[derive(Debug, Parser)]
#[command(version = VERSION, about)]
pub struct Arguments {
    /// The command; without one, belljar serves an MCP client.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands of belljar.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run Python code in a sandbox, print its output, and exit with its exit code.
    Run(Run),
    /// Check the engine, the image, the limits of the sandbox, and the configured servers.
    Doctor(Doctor),
    /// Show each setting with its value and the source of the value.
    Config(Config),
    /// Import the servers of your MCP clients into ~/MCPs.
    Import(Import),
    /// Add belljar to the configuration of an MCP client.
    Install(Install),
    /// Remove belljar from the configuration of an MCP client.
    Uninstall(Uninstall),
    /// Serve all clients of this user that share one bridge (`servers.shared`).
    Serve(Serve),
    /// Add, list or remove the tokens by which clients come in over HTTP (`serve --http`).
    Token(Token),
    /// Show the log of calls and runs, including refused ones.
    Log(Log),
    /// List, show, export, remove or replay recorded sessions.
    Session(Session),
    /// List, read, add or remove the files of a workspace, or those that a session has handed over.
    Files(Files),
    /// Build, list, choose or remove images for sandboxes.
    #[command(subcommand)]
    Image(Image),
    /// List, show, accept, restore, remove or run the functions that code has saved.
    Skill(Skill),
    /// Accept the tools of a server after it has changed them.
    Trust(Trust),
    /// Log in to a remote server in your browser. belljar stores the token and renews it.
    Login(Login),
    /// Delete the login at a remote server, and revoke its tokens.
    Logout(Logout),
    /// Print what a Kubernetes cluster needs for sandboxes of belljar.
    #[command(subcommand)]
    Kubernetes(Kubernetes),
    /// Print the script that completes commands, options and names in a shell.
    Completions(Completions),
    /// Write the man pages: packages are made with this.
    #[command(hide = true)]
    ManPages(ManPages),
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
    /// Connect to each configured server and list its tools, and ask the configured model one question.
    #[arg(long)]
    pub ask: bool,
    /// Check with the environment variables that this client passes to belljar, and name those that are missing.
    #[arg(long, value_name = "NAME", value_parser = client_name())]
    pub client: Option<String>,
    /// Print JSON, one line for each check.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Serve {
    /// End after ten minutes without a session.
    #[arg(long, conflicts_with = "http")]
    pub until_idle: bool,
    /// Serve HTTP, too, at this address, such as 127.0.0.1:8765: MCP is at /mcp. Each request needs a token (`belljar token`).
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// The chain of certificates for TLS, in PEM. A changed file is read again.
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "http")]
    pub tls_certificate: Option<PathBuf>,
    /// The key for TLS, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// A proxy in front of belljar does TLS, so that belljar may listen beyond this machine without it.
    #[arg(long, requires = "http", requires = "allowed_hosts")]
    pub behind_proxy: bool,
    /// A host name by which clients reach belljar, besides localhost: HOST or HOST:PORT. It can be repeated.
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    pub allowed_hosts: Vec<String>,
    /// An origin whose web pages may use belljar, such as `https://app.example.com:443`. It can be repeated; without it, no
    /// page may.
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    pub allowed_origins: Vec<String>,
    /// The options for OAuth.
    #[command(flatten)]
    pub oauth: OAuth,
    /// Print the file with which the service manager of your user starts it with these options, and start nothing.
    #[arg(long, value_name = "MANAGER", conflicts_with = "until_idle")]
    pub unit: Option<ServiceManager>,
    /// Start it in the background and return: a client's belljar does this itself.
    #[arg(long, hide = true)]
    pub detach: bool,
    /// The subcommand; without one, belljar serves until a signal comes.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
}

/// A program that starts services for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServiceManager {
    /// systemd, on Linux.
    Systemd,
    /// launchd, on macOS.
    Launchd,
}

/// The subcommands of `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Show the sessions of the running `belljar serve`.
    Status {
        /// Print JSON: an object, or `null` if none is running.
        #[arg(long)]
        json: bool,
    },
    /// End the running `belljar serve` with all its sessions.
    Stop,
}

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The subcommand; without one, the settings are shown.
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
}

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON schema of a config.toml, for editors.
    Schema(Schema),
    /// Show the .belljar/config.toml of the working folder, and trust it until it changes.
    Trust,
    /// Stop trusting the .belljar/config.toml of the working folder. It can then only tighten settings.
    Untrust,
}

/// Arguments of `files`.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// The workspace; without it, the one that MCP_BRIDGE_WORKSPACE names.
    #[arg(long, value_name = "NAME", global = true)]
    pub workspace: Option<String>,
    /// The session whose handed-over files are meant instead: the beginning of its ID, or `last`.
    #[arg(long, value_name = "ID", global = true, conflicts_with = "workspace")]
    pub session: Option<String>,
    /// The subcommand.
    #[command(subcommand)]
    pub command: FilesCommand,
}

/// The subcommands of `files`.
#[derive(Debug, Subcommand)]
pub enum FilesCommand {
    /// List the files with their sizes. Without a workspace and a session, list the workspaces, and the sessions with files.
    Ls {
        /// Print JSON, one line for each.
        #[arg(long)]
        json: bool,
    },
    /// Copy a file out. An existing file is not overwritten.
    Get {
        /// The path below /workspace.
        #[arg(value_name = "PATH")]
        path: String,
        /// The new file or its folder; without it, the working folder. `-` is stdout, on a terminal for text only.
        #[arg(value_name = "TO")]
        to: Option<PathBuf>,
    },
    /// Copy a file into a workspace that no running belljar uses.
    Put {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The path below /workspace; without it, the name of the file.
        #[arg(value_name = "PATH")]
        path: Option<String>,
    },
    /// Remove a file from a workspace that no running belljar uses.
    Rm {
        /// The path below /workspace.
        #[arg(value_name = "PATH", required_unless_present = "all")]
        path: Option<String>,
        /// Remove all files that the session has handed over.
        #[arg(long, conflicts_with = "path")]
        all: bool,
    },
}

/// Arguments of `config schema`.
#[derive(Debug, clap::Args)]
pub struct Schema {
    /// Print the schema of a policy.toml instead.
    #[arg(long)]
    pub policy: bool,
}

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(["bash", "fish", "zsh"]))]
    pub shell: String,
}

/// Arguments of `man-pages`.
#[derive(Debug, clap::Args)]
pub struct ManPages {
    /// The folder to which they are written.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Arguments of `keep`.
#[derive(Debug, clap::Args)]
pub struct Keep {
    /// The bridge that has started this process.
    #[arg(long, required_unless_present = "inside", default_value_t = 0)]
    pub bridge: u32,
    /// The beginning of its messages to the bridge.
    #[arg(long, required_unless_present = "inside", default_value_t)]
    pub token: String,
    /// The files and rights of a confined server, as JSON.
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
    /// The mark of the bridge's processes in their environment.
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
    /// The plan of the sandbox, as JSON.
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
    /// Copy this file to /workspace first; can be repeated.
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Allow calls of this server only; can be repeated. Without it, all configured servers can be called.
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Seconds until the code is interrupted.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Make only calls of read-only tools, and list the others with their arguments.
    #[arg(long)]
    pub dry_run: bool,
    /// Report on stderr which system calls the sandbox refused, how often, and to which process.
    #[arg(long)]
    pub trace_denied: bool,
    /// Resume this session first: replay its runs, with calls answered from its journal. `ID:N` replays the runs up to N.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
}

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// Import from this client only; can be repeated. Without it, belljar imports from all clients.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// Import from this file. If its name does not tell the client, add --client.
    #[arg(long, value_name = "PATH", conflicts_with = "project")]
    pub file: Option<PathBuf>,
    /// Import from the project in the working folder too, whose files may come from a stranger.
    #[arg(long)]
    pub project: bool,
    /// Add `sandbox = true` to each server that is started by a command, unless its entry in ~/MCPs has a `sandbox`.
    #[arg(long)]
    pub sandbox: bool,
    /// Show the changes, and write nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Write without asking.
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub struct Install {
    /// Add belljar to this client; can be repeated. Without it, the clients are listed.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// Use the client's file of the project in the working folder.
    #[arg(long)]
    pub project: bool,
    /// The name of belljar's entry in the client.
    #[arg(long, value_name = "NAME", default_value = "belljar")]
    pub name: String,
    /// List the clients as JSON, one line for each.
    #[arg(long, conflicts_with = "clients")]
    pub json: bool,
    /// Show the changes, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Replace another server of that name.
    #[arg(long)]
    pub force: bool,
    /// Let the client call belljar without asking, if it would refuse the calls otherwise, as `codex exec` does.
    #[arg(long)]
    pub approve_calls: bool,
    /// Let the client use the bridge that all your clients share: `MCP_BRIDGE_SHARED=1` in its entry.
    #[arg(long, conflicts_with = "http")]
    pub shared: bool,
    /// Let the client reach `belljar serve --http` at this address, which ends with /mcp, instead of starting belljar.
    #[arg(long, value_name = "URL")]
    pub http: Option<String>,
    /// The variable from which the client takes the token (`belljar token`). Its value is written nowhere.
    #[arg(long, value_name = "NAME", default_value = "BELLJAR_TOKEN", requires = "http")]
    pub token_variable: String,
}

/// Arguments of `uninstall`.
#[derive(Debug, Clone, clap::Args)]
pub struct Uninstall {
    /// Remove belljar from this client; can be repeated. Without it, the clients are listed.
    #[arg(long = "client", value_name = "NAME", value_parser = client_name())]
    pub clients: Vec<String>,
    /// Remove belljar from all clients, and its images, environments and caches. Show what is removed and what stays, and ask.
    #[arg(long, conflicts_with_all = ["clients", "project"])]
    pub all: bool,
    /// Remove everything of `--all` without a question.
    #[arg(long, requires = "all")]
    pub yes: bool,
    /// Use the client's file of the project in the working folder.
    #[arg(long)]
    pub project: bool,
    /// The name of belljar's entry in the client.
    #[arg(long, value_name = "NAME", default_value = "belljar")]
    pub name: String,
    /// List the clients as JSON, one line for each.
    #[arg(long, conflicts_with_all = ["clients", "all"])]
    pub json: bool,
    /// Show the changes, and write nothing.
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
    /// Print the address instead of opening a browser, for example to open it on another machine with a tunnel to this one.
    #[arg(long)]
    pub no_browser: bool,
    /// Request this scope instead of the server's own ones; can be repeated.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// The ID of a client that you have registered at the authorization server.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// The environment variable with the secret of that client.
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub client_secret_env: Option<String>,
    /// The token endpoint, if belljar cannot see that it belongs to the service at which you log in.
    #[arg(long, value_name = "URL")]
    pub token_endpoint: Option<String>,
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
    /// Show calls of this server only.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Show calls of this tool only.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Show entries with this outcome only: answered, tool_error, denied, invalid_arguments, deadline, finished, raised, not_started, ...
    #[arg(long, value_name = "WORD")]
    pub outcome: Option<String>,
    /// Show this session only, by the beginning of its ID.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Show refused calls only.
    #[arg(long)]
    pub denied: bool,
    /// Show entries since this time: 30m, 12h or 7d ago, or a date and time in UTC such as 2026-11-22T05:00.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// The number of entries to show, the last ones.
    #[arg(
        short = 'n',
        long = "lines",
        value_name = "N",
        default_value_t = 50,
        allow_negative_numbers = true
    )]
    pub lines: usize,
    /// Print the lines of the log, which are JSON.
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
