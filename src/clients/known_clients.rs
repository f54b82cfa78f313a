//! The MCP clients whose files belljar reads and writes, one row each. A new client is added here.
//!
//! The sources of these facts:
//! - Claude Desktop: modelcontextprotocol.io, "Connect to local MCP servers": the file's place, `mcpServers`, and that
//!   nothing in it is replaced.
//! - Claude Code: code.claude.com/docs/en/mcp: the three scopes and their files, `${VAR}` and `${VAR:-default}`,
//!   `alwaysLoad` (since 2.1.121). `CLAUDE_CONFIG_DIR` moves `.claude.json`.
//! - Cursor: cursor.com/docs/mcp: both files, `envFile`, `${env:NAME}`, `${userHome}`, `${workspaceFolder}` and others.
//! - VS Code: code.visualstudio.com/docs/copilot/reference/mcp-configuration: `servers`, `inputs`, `envFile`, `dev`, the
//!   variables, and that `http` falls back to SSE. `mcpRegistry.ts` of its repository: variables in headers. The older `mcp.servers` in settings.json is read only.
//! - Windsurf: docs.windsurf.com/windsurf/cascade/mcp: the file, `serverUrl`, `disabledTools`, `${env:NAME}`, `${file:PATH}`.
//! - Gemini CLI: geminicli.com/docs/tools/mcp-server and its configuration page: `httpUrl`, `url`, `timeout` in
//!   milliseconds, `includeTools`, `excludeTools`, `mcp.excluded`, `mcp.allowed`, `$VAR` and `${VAR}` in any string.
//!   `environmentSanitization.ts` of Gemini CLI 0.61.0: which variables servers do not get.
//! - Codex: developers.openai.com/codex/mcp and `codex-rs/config/src/mcp_types.rs`: every key of `[mcp_servers.NAME]`.
//!   `CODEX_HOME` moves the folder. Codex 0.171.0 itself: which variables servers get, `env_vars`, and that `codex exec` makes
//!   no call without `default_tools_approval_mode = "approve"`.
//! - OpenCode: opencode.ai/v1/docs/mcp-servers (`mcp.NAME`, `enabled`) and opencode.ai/v2/docs/mcp-servers
//!   (`mcp.servers.NAME`, `disabled`); `{env:NAME}` and `{file:PATH}` by its page on configuration.
//! - Zed: zed.dev/docs/ai/mcp, and `crates/settings_content/src/project.rs`: `context_servers`, `timeout` in seconds, the
//!   older form with a table as `command`.
//! - Qwen Code 0.24.4 itself: the file (`QWEN_HOME` moves its folder), the keys of Gemini CLI, `timeout` in milliseconds (600,000 by default), `$VAR` and
//!   `${VAR}` in any string, and that servers get its environment without variables of its own.
//! - GitHub Copilot CLI 1.0.102 itself: `copilot help environment` (`COPILOT_HOME`) and `copilot mcp add --help`: the
//!   types, `env`, `tools`, `timeout` in milliseconds. A server that it started had its environment without its keys, and
//!   `${VAR}` and `${VAR:-default}` replaced in `args` and `env`.
//! - Cline 3.0.65 itself: the file (`CLINE_DIR` moves `~/.cline`), its schema of entries, `timeout` in seconds (60 by
//!   default, at most 3,600), and that servers get its environment.
//! - Kilo Code: its page "Using MCP in Kilo Code" for the files and `mcp`, whose entries are those of OpenCode 1. Its
//!   program 7.7.7 itself: the file of the user, and that servers get its environment.
//! - Vibe 3.0.3 itself: the file (`VIBE_HOME` moves its folder), `MCPStdio` and `MCPHttp` of `core/config/models.py`, that
//!   a `command` is split like words of a shell, and that servers get the variables of the Python SDK and those of `env`.
//! - Continue: `core/config/yaml/loadYaml.ts`, `core/context/mcp` and `packages/config-yaml` of its repository: the folder
//!   with files of single servers (`CONTINUE_GLOBAL_DIR` moves `~/.continue`), `connectionTimeout` in milliseconds, which
//!   is also the longest time of a call, and the variables of servers. Its program `cn` 1.5.47 itself: it reads only
//!   `config.yaml`, passes all variables on, and replaces `${{ secrets.NAME }}` by variables.
//! - Goose: its guide "Configuration Files" and `crates/goose/src/agents/extension.rs`: `extensions`, the types,
//!   `env_keys` from its keyring, variables in `uri` and `headers`.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::formats::format::Format;
use super::formats::spanned::Value;
use super::over_http::{self, HttpForm};
use super::own_entry::{self, Parts};
use super::translate::dialect::{self, Dialect, KeyMeaning};

/// An MCP client.
#[derive(Debug)]
pub struct Client {
    /// The name on the command line, and of the file in `~/MCPs`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// Its files: those of the user first, and for each scope in the order in which they are searched.
    pub(super) places: &'static [FileLocation],
    /// The meaning of its entries.
    pub(super) dialect: &'static Dialect,
    /// Makes belljar's own entry for this client.
    pub(super) own_entry: fn(&Parts<'_>) -> serde_json::Value,
    /// The form of belljar's entry for HTTP, or the reason why there is none.
    pub(super) http: Result<HttpForm, &'static str>,
    pub(super) layout: Layout,
    /// The variables of its environment that servers get.
    pub(super) passed_variables: PassedVariables,
    /// The setting with which the client makes belljar's calls without asking; `None`: belljar knows no such setting.
    pub(super) approval: Option<ApprovalSetting>,
}

/// The variables of its own environment that a client passes to the servers that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedVariables {
    /// It is unknown which variables are passed on.
    Unknown,
    /// These variables, and those whose names are listed under a key of the entry.
    Listed {
        /// The name of that key.
        key: &'static str,
        /// The variables that every server gets.
        always: &'static [&'static str],
    },
    /// These variables, and those that the entry's `env` sets.
    Few {
        /// The variables that every server gets.
        always: &'static [&'static str],
        /// What is before and after a variable's name if `env` refers to a variable; `None`: `env` has values only.
        reference: Option<(&'static str, &'static str)>,
    },
    /// All variables whose names do not suggest a secret, and those that the entry's `env` passes on as `$NAME`.
    Harmless {
        /// Parts of names that suggest a secret.
        secret: &'static [&'static str],
        /// Further names that count as secrets.
        names: &'static [&'static str],
    },
}

/// A setting in an entry without which the client refuses the calls of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ApprovalSetting {
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    /// The mode or setting of the client that refuses each call without it.
    pub(super) refuses: &'static str,
}

/// The places of servers in a file, in addition to the keys that each location names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Plain,
    /// Single projects have servers too, under `projects` and the project's folder.
    ClaudeCode,
    /// In a file of version 2, the servers are one level deeper, under `servers`.
    OpenCode,
}

/// The location of one configuration file of a client, and the keys in it.
#[derive(Debug)]
pub(super) struct FileLocation {
    pub(super) base: Base,
    /// The path, relative to the base.
    pub(super) path: &'static str,
    pub(super) format: Format,
    /// The paths of keys to the servers; a client may have two.
    pub(super) servers: &'static [&'static [&'static str]],
    /// The path of keys to a list of servers that are switched off.
    pub(super) switched_off: &'static [&'static str],
    /// The path of keys to a list of the only servers that are on.
    pub(super) switched_on: &'static [&'static str],
    pub(super) is_written: WriteSupport,
    /// What a new file has in addition to the servers.
    pub(super) new_text: &'static str,
}

/// Whether belljar writes its entry into a file of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteSupport {
    /// Belljar writes it.
    Yes,
    /// Belljar only reads it, because the client has a newer file.
    No,
}

/// The folder that a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The user's home folder.
    Home,
    /// XDG_CONFIG_HOME, else `~/.config`, on every system.
    Config,
    /// The system's folder for settings of applications: as `Config`, but `~/Library/Application Support` on macOS.
    Application,
    /// The folder that this variable names, or else this folder below the home.
    Named(&'static str, &'static str),
    /// The folder of a project.
    Project,
}

impl Client {
    /// Whether the client has a setting to make belljar's calls without asking.
    #[must_use]
    pub fn can_approve(&self) -> bool {
        self.approval.is_some()
    }

    /// Whether belljar's entry can pass a variable on without its value.
    #[must_use]
    pub fn can_pass_variables(&self) -> bool {
        !matches!(self.passed_variables, PassedVariables::Few { reference: None, .. })
    }

    /// The form of belljar's entry for HTTP. In a file of OpenCode 2, servers are one level deeper.
    ///
    /// # Errors
    /// The reason why it cannot be made.
    pub(super) fn http_form(&self, is_deeper: bool) -> Result<&HttpForm, &'static str> {
        match &self.http {
            Ok(_) if is_deeper => Ok(&over_http::OPENCODE_2),
            Ok(form) => Ok(form),
            Err(why) => Err(why),
        }
    }

    /// Whether a key belongs to entries of one transport only.
    pub(super) fn is_of_one_transport(&self, key: &str) -> bool {
        self.dialect
            .keys()
            .find(|(known, _)| *known == key)
            .is_some_and(|(_, meaning)| meaning.is_of_one_transport())
    }

    /// The key of the variables that an entry sets.
    pub(super) fn env_key(&self) -> &'static str {
        self.dialect.keys().find(|(_, meaning)| *meaning == KeyMeaning::Env).map_or("env", |(key, _)| *key)
    }

    /// Whether the servers of this table are under its key `servers`, which is then no server of that name.
    pub(super) fn has_deeper_servers(&self, table: &Value) -> bool {
        let is_server = |inner: &Value| inner.get("type").is_some_and(|kind| kind.text().is_some());
        self.layout == Layout::OpenCode && table.get("servers").is_some_and(|inner| !is_server(inner))
    }
}

impl FileLocation {
    /// A file of JSON that belljar writes.
    const fn new(base: Base, path: &'static str, servers: &'static [&'static [&'static str]]) -> Self {
        Self {
            base,
            path,
            format: Format::Json,
            servers,
            switched_off: &[],
            switched_on: &[],
            is_written: WriteSupport::Yes,
            new_text: "",
        }
    }

    const fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// A file with the switches of Gemini CLI.
    const fn with_switches(self) -> Self {
        Self { switched_off: &["mcp", "excluded"], switched_on: &["mcp", "allowed"], ..self }
    }

    const fn with_new_text(self, new_text: &'static str) -> Self {
        Self { new_text, ..self }
    }

    const fn read_only(self) -> Self {
        Self { is_written: WriteSupport::No, ..self }
    }
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];
const VSCODE: &[&[&str]] = &[&["servers"]];
const VSCODE_SETTINGS: &[&[&str]] = &[&["mcp", "servers"], &["mcp.servers"]];
const OPENCODE: &[&[&str]] = &[&["mcp"]];
const VIBE: &[&[&str]] = &[&["mcp_servers"]];
const ZED: &[&[&str]] = &[&["context_servers"]];

const GEMINI_SECRET: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "AUTH", "CREDENTIAL", "CREDS", "PRIVATE", "CERT"];
const GEMINI_NEVER: &[&str] = &[
    "CLIENT_ID",
    "DB_URI",
    "CONNECTION_STRING",
    "AWS_DEFAULT_REGION",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "SLACK_WEBHOOK_URL",
    "TWILIO_ACCOUNT_SID",
    "DATABASE_URL",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_ACCOUNT",
    "FIREBASE_PROJECT_ID",
];
const CODEX_ALWAYS: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "__CF_USER_TEXT_ENCODING",
];
/// The variables that the MCP SDKs for Python and TypeScript pass on.
const SDK_ALWAYS: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
/// The head of a file of one server.
const CONTINUE_BLOCK: &str = "name: belljar\nversion: 0.0.1\nschema: v1\n";
const CODEX_APPROVING: ApprovalSetting = ApprovalSetting {
    key: "default_tools_approval_mode",
    value: "approve",
    refuses: "`codex exec`, which can ask nobody,",
};

/// What most clients have in common; the names and places are those of no client.
const USUAL: Client = Client {
    name: "",
    title: "",
    places: &[],
    dialect: &dialect::CLAUDE_DESKTOP,
    own_entry: own_entry::plain,
    http: Err("has no HTTP servers in its file"),
    layout: Layout::Plain,
    passed_variables: PassedVariables::Unknown,
    approval: None,
};

static TABLE: [Client; 16] = [
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        places: &[FileLocation::new(Base::Application, "Claude/claude_desktop_config.json", MCP_SERVERS)],
        ..USUAL
    },
    Client {
        name: "claude-code",
        title: "Claude Code",
        places: &[
            FileLocation::new(Base::Named("CLAUDE_CONFIG_DIR", ""), ".claude.json", MCP_SERVERS),
            FileLocation::new(Base::Project, ".mcp.json", MCP_SERVERS),
        ],
        dialect: &dialect::CLAUDE_CODE,
        own_entry: own_entry::claude_code,
        http: Ok(over_http::CLAUDE_CODE),
        layout: Layout::ClaudeCode,
        ..USUAL
    },
    Client {
        name: "cursor",
        title: "Cursor",
        places: &[
            FileLocation::new(Base::Home, ".cursor/mcp.json", MCP_SERVERS),
            FileLocation::new(Base::Project, ".cursor/mcp.json", MCP_SERVERS),
        ],
        dialect: &dialect::CURSOR,
        own_entry: own_entry::with_type,
        http: Ok(over_http::CURSOR),
        ..USUAL
    },
    Client {
        name: "vscode",
        title: "VS Code",
        places: &[
            FileLocation::new(Base::Application, "Code/User/mcp.json", VSCODE),
            FileLocation::new(Base::Application, "Code/User/settings.json", VSCODE_SETTINGS).read_only(),
            FileLocation::new(Base::Application, "Code - Insiders/User/mcp.json", VSCODE).read_only(),
            FileLocation::new(Base::Application, "Code - Insiders/User/settings.json", VSCODE_SETTINGS)
                .read_only(),
            FileLocation::new(Base::Application, "VSCodium/User/mcp.json", VSCODE).read_only(),
            FileLocation::new(Base::Application, "VSCodium/User/settings.json", VSCODE_SETTINGS).read_only(),
            FileLocation::new(Base::Project, ".vscode/mcp.json", VSCODE),
            FileLocation::new(Base::Project, ".vscode/settings.json", VSCODE_SETTINGS).read_only(),
        ],
        dialect: &dialect::VSCODE,
        own_entry: own_entry::with_type,
        http: Ok(over_http::VSCODE),
        ..USUAL
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        places: &[FileLocation::new(Base::Home, ".codeium/windsurf/mcp_config.json", MCP_SERVERS)],
        dialect: &dialect::WINDSURF,
        http: Ok(over_http::WINDSURF),
        ..USUAL
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        places: &[
            FileLocation::new(Base::Home, ".gemini/settings.json", MCP_SERVERS).with_switches(),
            FileLocation::new(Base::Project, ".gemini/settings.json", MCP_SERVERS).with_switches(),
        ],
        dialect: &dialect::GEMINI,
        own_entry: own_entry::gemini,
        http: Ok(over_http::GEMINI),
        passed_variables: PassedVariables::Harmless { secret: GEMINI_SECRET, names: GEMINI_NEVER },
        ..USUAL
    },
    Client {
        name: "codex",
        title: "Codex",
        places: &[
            FileLocation::new(Base::Named("CODEX_HOME", ".codex"), "config.toml", &[&["mcp_servers"]])
                .format(Format::Toml),
            FileLocation::new(Base::Project, ".codex/config.toml", &[&["mcp_servers"]]).format(Format::Toml),
        ],
        dialect: &dialect::CODEX,
        own_entry: own_entry::codex,
        http: Ok(over_http::CODEX),
        passed_variables: PassedVariables::Listed { key: "env_vars", always: CODEX_ALWAYS },
        approval: Some(CODEX_APPROVING),
        ..USUAL
    },
    Client {
        name: "opencode",
        title: "OpenCode",
        places: &[
            FileLocation::new(Base::Config, "opencode/opencode.json", OPENCODE),
            FileLocation::new(Base::Config, "opencode/opencode.jsonc", OPENCODE),
            FileLocation::new(Base::Project, "opencode.json", OPENCODE),
            FileLocation::new(Base::Project, "opencode.jsonc", OPENCODE),
        ],
        dialect: &dialect::OPENCODE,
        own_entry: own_entry::opencode,
        http: Ok(over_http::OPENCODE),
        layout: Layout::OpenCode,
        ..USUAL
    },
    Client {
        name: "qwen",
        title: "Qwen Code",
        places: &[
            FileLocation::new(Base::Named("QWEN_HOME", ".qwen"), "settings.json", MCP_SERVERS)
                .with_switches(),
            FileLocation::new(Base::Project, ".qwen/settings.json", MCP_SERVERS).with_switches(),
        ],
        dialect: &dialect::GEMINI,
        own_entry: own_entry::gemini,
        http: Ok(over_http::GEMINI),
        ..USUAL
    },
    Client {
        name: "copilot",
        title: "GitHub Copilot CLI",
        places: &[FileLocation::new(Base::Named("COPILOT_HOME", ".copilot"), "mcp-config.json", MCP_SERVERS)],
        dialect: &dialect::COPILOT,
        own_entry: own_entry::copilot,
        http: Ok(over_http::COPILOT),
        ..USUAL
    },
    Client {
        name: "cline",
        title: "Cline",
        places: &[FileLocation::new(
            Base::Named("CLINE_DIR", ".cline"),
            "data/settings/cline_mcp_settings.json",
            MCP_SERVERS,
        )],
        dialect: &dialect::CLINE,
        own_entry: own_entry::cline,
        http: Err(
            "sends a reference to a variable as it stands, so that the token would have to be in its file",
        ),
        ..USUAL
    },
    Client {
        name: "kilo",
        title: "Kilo Code",
        places: &[
            FileLocation::new(Base::Config, "kilo/kilo.json", OPENCODE),
            FileLocation::new(Base::Config, "kilo/kilo.jsonc", OPENCODE),
            FileLocation::new(Base::Project, "kilo.json", OPENCODE),
            FileLocation::new(Base::Project, "kilo.jsonc", OPENCODE),
            FileLocation::new(Base::Project, ".kilo/kilo.json", OPENCODE),
            FileLocation::new(Base::Project, ".kilo/kilo.jsonc", OPENCODE),
        ],
        dialect: &dialect::OPENCODE,
        own_entry: own_entry::opencode,
        http: Ok(over_http::OPENCODE),
        ..USUAL
    },
    Client {
        name: "vibe",
        title: "Vibe",
        places: &[
            FileLocation::new(Base::Named("VIBE_HOME", ".vibe"), "config.toml", VIBE)
                .format(Format::TomlList),
            FileLocation::new(Base::Project, ".vibe/config.toml", VIBE).format(Format::TomlList),
        ],
        dialect: &dialect::VIBE,
        own_entry: own_entry::vibe,
        http: Ok(over_http::VIBE),
        passed_variables: PassedVariables::Few { always: SDK_ALWAYS, reference: None },
        ..USUAL
    },
    Client {
        name: "continue",
        title: "Continue",
        // A new config.yaml would be one without models, so a new file is one of a single server.
        places: &[
            FileLocation::new(
                Base::Named("CONTINUE_GLOBAL_DIR", ".continue"),
                "mcpServers/belljar.yaml",
                MCP_SERVERS,
            )
            .format(Format::YamlList)
            .with_new_text(CONTINUE_BLOCK),
            FileLocation::new(Base::Named("CONTINUE_GLOBAL_DIR", ".continue"), "config.yaml", MCP_SERVERS)
                .format(Format::YamlList),
            FileLocation::new(Base::Project, ".continue/mcpServers/belljar.yaml", MCP_SERVERS)
                .format(Format::YamlList)
                .with_new_text(CONTINUE_BLOCK),
        ],
        dialect: &dialect::CONTINUE,
        own_entry: own_entry::continue_dev,
        http: Ok(over_http::CONTINUE),
        passed_variables: PassedVariables::Few {
            always: SDK_ALWAYS,
            reference: Some(("${{ secrets.", " }}")),
        },
        ..USUAL
    },
    Client {
        name: "zed",
        title: "Zed",
        places: &[
            FileLocation::new(Base::Config, "zed/settings.json", ZED),
            FileLocation::new(Base::Project, ".zed/settings.json", ZED),
        ],
        dialect: &dialect::ZED,
        own_entry: own_entry::zed,
        http: Err(
            "is not known to replace variables in headers, so that the token would have to be in its file",
        ),
        ..USUAL
    },
    Client {
        name: "goose",
        title: "Goose",
        places: &[
            FileLocation::new(Base::Config, "goose/config.yaml", &[&["extensions"]]).format(Format::Yaml)
        ],
        dialect: &dialect::GOOSE,
        own_entry: own_entry::goose,
        http: Ok(over_http::GOOSE),
        ..USUAL
    },
];

/// All clients.
#[must_use]
pub fn clients() -> &'static [Client] {
    &TABLE
}

/// The names of all clients.
pub fn client_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|client| client.name)
}

/// The client with this name.
#[must_use]
pub fn client(name: &str) -> Option<&'static Client> {
    TABLE.iter().find(|client| client.name == name)
}

/// The servers of one client, with the files that they were read from.
#[derive(Debug)]
pub struct ClientServers {
    /// The client.
    pub client: &'static Client,
    /// The servers, in the order of the files.
    pub servers: Vec<ClientServer>,
    /// The files that exist.
    pub read: Vec<PathBuf>,
    /// Whether belljar itself is among the servers of these files.
    pub has_belljar: bool,
}

/// A server of a client, with its entry in the format of belljar.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientServer {
    /// The name that the client uses.
    pub name: String,
    /// The entry.
    pub entry: Map<String, Json>,
    /// The file that has the server.
    pub path: PathBuf,
    /// The project's folder as an entry has it, if it is a project's server, which others may have written.
    pub project: Option<String>,
}

/// Returns whether a command line starts belljar itself.
pub type OwnCommandCheck<'o> = &'o dyn Fn(&str, &[String]) -> bool;
