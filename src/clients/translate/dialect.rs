//! The meaning of the keys in each client's entries, one table for each client.
//!
//! It translates nothing: `entry` does.

/// The syntax and the meaning of a client's entries.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The keys besides [`COMMON`] that have a meaning here, that there is advice for, or that belljar's own entry has.
    pub(crate) own_keys: &'static [(&'static str, KeyMeaning)],
    pub(crate) references: References,
    /// The transport that the type `http` stands for.
    pub(crate) http: Http,
}

/// The meaning of a key in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMeaning {
    /// The command. A list is the command with its arguments; a table has `path`, `args` and `env`.
    Command,
    /// The command. A text is split into words; the arguments come behind them.
    CommandLine,
    Args,
    Env,
    /// Names of variables that the server gets from the client's environment.
    EnvNames,
    Cwd,
    Url,
    /// An address for Streamable HTTP.
    StreamableUrl,
    Headers,
    /// A table with the headers under its key `headers`.
    HeadersWithin,
    /// Headers, with the names of the variables that have their values.
    HeaderVariables,
    /// The name of the variable with the bearer token.
    BearerVariable,
    Kind,
    Disabled,
    Enabled,
    /// The only tools that are offered.
    Allow,
    /// The only tools that are offered; an empty list means all.
    AllowUnlessEmpty,
    /// Tools that are not offered.
    Deny,
    Seconds,
    Milliseconds,
    /// The longest time of the server's start, in seconds.
    StartSeconds,
    StartMilliseconds,
    Description,
    /// A key that only affects how the client shows the server.
    Silent,
    /// A key without a counterpart in belljar, with advice or an empty text. A key that no table has is one without advice.
    Foreign(&'static str),
}

/// The references that a client replaces in its strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum References {
    /// No references: every text is taken literally.
    None,
    /// `${VAR}` and `${VAR:-default}`.
    Shell,
    /// `$VAR` and `${VAR}`.
    Dollar,
    /// `${env:VAR}`, `${input:ID}`, `${userHome}`, `${workspaceFolder}` and others.
    Editor,
    /// `${env:VAR}` and `${file:PATH}`.
    EnvAndFile,
    /// `{env:VAR}` and `{file:PATH}`.
    Braces,
    /// `${{ secrets.VAR }}`.
    Secrets,
    /// `$VAR` and `${VAR}` in addresses and headers only, from the entry's own variables.
    OwnVariables,
}

impl KeyMeaning {
    /// Whether a key with this meaning belongs to entries of one transport only.
    pub(crate) fn is_of_one_transport(self) -> bool {
        let starts = matches!(
            self,
            Self::Command | Self::CommandLine | Self::Args | Self::Env | Self::EnvNames | Self::Cwd
        );
        let sends = matches!(
            self,
            Self::Url
                | Self::StreamableUrl
                | Self::BearerVariable
                | Self::Headers
                | Self::HeadersWithin
                | Self::HeaderVariables
        );
        starts || sends || self == Self::Kind
    }
}

impl Dialect {
    /// All keys with their meanings. The first one of a name counts.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static (&'static str, KeyMeaning)> {
        self.own_keys.iter().chain(&COMMON)
    }
}

impl References {
    /// Advice for the user who wants to keep a secret out of the client's file.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Shell | Self::Dollar => "the client takes ${VAR} there too, which is copied as a reference",
            Self::Editor | Self::EnvAndFile => {
                "the client takes ${env:VAR} there too, which is copied as a reference"
            }
            Self::Braces => "the client takes {env:VAR} there too, which is copied as a reference",
            Self::Secrets => "the client takes ${{ secrets.VAR }} there too, which is copied as ${VAR}",
            Self::OwnVariables => "the client takes names of variables as env_keys, which are copied as such",
        }
    }
}

/// The transport that a client uses if the type is `http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    /// Streamable HTTP.
    Streamable,
    /// Streamable HTTP, or HTTP+SSE if that fails.
    Either,
}

/// The keys that nearly all clients have. A dialect that gives one of them another meaning has it in its own table.
const COMMON: [(&str, KeyMeaning); 8] = [
    ("type", KeyMeaning::Kind),
    ("command", KeyMeaning::Command),
    ("args", KeyMeaning::Args),
    ("env", KeyMeaning::Env),
    ("cwd", KeyMeaning::Cwd),
    ("url", KeyMeaning::Url),
    ("headers", KeyMeaning::Headers),
    ("disabled", KeyMeaning::Disabled),
];

const ENV_FILE: KeyMeaning = KeyMeaning::Foreign(
    "write its variables as env, or set them where belljar is started and name them as env_inherit",
);

pub(crate) const CLAUDE_DESKTOP: Dialect = Dialect {
    own_keys: &[("type", KeyMeaning::Kind), ("transport", KeyMeaning::Kind)],
    references: References::None,
    http: Http::Streamable,
};

pub(crate) const CLAUDE_CODE: Dialect = Dialect {
    own_keys: &[
        ("timeout", KeyMeaning::Milliseconds),
        ("headersHelper", KeyMeaning::Foreign("write its header as a reference, such as ${VAR}")),
        ("alwaysLoad", KeyMeaning::Foreign("")),
    ],
    references: References::Shell,
    http: Http::Streamable,
};

pub(crate) const CURSOR: Dialect =
    Dialect { own_keys: &[("envFile", ENV_FILE)], references: References::Editor, http: Http::Either };

pub(crate) const VSCODE: Dialect =
    Dialect { own_keys: &[("envFile", ENV_FILE)], references: References::Editor, http: Http::Either };

pub(crate) const WINDSURF: Dialect = Dialect {
    own_keys: &[("serverUrl", KeyMeaning::Url), ("disabledTools", KeyMeaning::Deny)],
    references: References::EnvAndFile,
    http: Http::Either,
};

pub(crate) const GEMINI: Dialect = Dialect {
    own_keys: &[
        ("httpUrl", KeyMeaning::StreamableUrl),
        ("timeout", KeyMeaning::Milliseconds),
        ("description", KeyMeaning::Description),
        ("includeTools", KeyMeaning::Allow),
        ("excludeTools", KeyMeaning::Deny),
    ],
    references: References::Dollar,
    http: Http::Streamable,
};

pub(crate) const COPILOT: Dialect = Dialect {
    own_keys: &[("tools", KeyMeaning::Allow), ("timeout", KeyMeaning::Milliseconds)],
    references: References::Shell,
    http: Http::Streamable,
};

pub(crate) const CLINE: Dialect = Dialect {
    own_keys: &[
        ("type", KeyMeaning::Kind),
        ("transportType", KeyMeaning::Kind),
        ("timeout", KeyMeaning::Seconds),
        ("transport", KeyMeaning::Foreign("write its keys into the entry itself, as Cline takes them too")),
    ],
    references: References::None,
    http: Http::Streamable,
};

pub(crate) const CODEX: Dialect = Dialect {
    own_keys: &[
        ("env_vars", KeyMeaning::EnvNames),
        ("url", KeyMeaning::StreamableUrl),
        ("bearer_token_env_var", KeyMeaning::BearerVariable),
        ("http_headers", KeyMeaning::Headers),
        ("env_http_headers", KeyMeaning::HeaderVariables),
        ("enabled", KeyMeaning::Enabled),
        ("enabled_tools", KeyMeaning::Allow),
        ("disabled_tools", KeyMeaning::Deny),
        ("tool_timeout_sec", KeyMeaning::Seconds),
        (
            "bearer_token",
            KeyMeaning::Foreign("Codex refuses it too; name a variable as bearer_token_env_var"),
        ),
        ("startup_timeout_sec", KeyMeaning::StartSeconds),
        ("startup_timeout_ms", KeyMeaning::StartMilliseconds),
    ],
    references: References::None,
    http: Http::Streamable,
};

pub(crate) const OPENCODE: Dialect = Dialect {
    own_keys: &[
        ("environment", KeyMeaning::Env),
        ("enabled", KeyMeaning::Enabled),
        ("timeout", KeyMeaning::Milliseconds),
    ],
    references: References::Braces,
    http: Http::Either,
};

pub(crate) const VIBE: Dialect = Dialect {
    own_keys: &[
        ("name", KeyMeaning::Silent),
        ("transport", KeyMeaning::Kind),
        ("command", KeyMeaning::CommandLine),
        ("auth", KeyMeaning::Foreign("write its headers as headers, with references such as ${VAR}")),
        ("api_key_env", KeyMeaning::Foreign("write the header with a reference, such as ${VAR}")),
        ("startup_timeout_sec", KeyMeaning::StartSeconds),
        ("tool_timeout_sec", KeyMeaning::Seconds),
        ("disabled_tools", KeyMeaning::Deny),
        ("prompt", KeyMeaning::Description),
    ],
    references: References::None,
    http: Http::Streamable,
};

pub(crate) const CONTINUE: Dialect = Dialect {
    own_keys: &[
        ("name", KeyMeaning::Silent),
        ("connectionTimeout", KeyMeaning::StartMilliseconds),
        ("requestOptions", KeyMeaning::HeadersWithin),
        (
            "apiKey",
            KeyMeaning::Foreign("write it as the header Authorization, with a reference such as ${VAR}"),
        ),
        ("faviconUrl", KeyMeaning::Silent),
        ("serverName", KeyMeaning::Silent),
        ("sourceFile", KeyMeaning::Silent),
    ],
    references: References::Secrets,
    http: Http::Either,
};

pub(crate) const ZED: Dialect = Dialect {
    own_keys: &[
        ("enabled", KeyMeaning::Enabled),
        ("timeout", KeyMeaning::Seconds),
        ("source", KeyMeaning::Kind),
    ],
    references: References::None,
    http: Http::Either,
};

pub(crate) const GOOSE: Dialect = Dialect {
    own_keys: &[
        ("cmd", KeyMeaning::Command),
        ("envs", KeyMeaning::Env),
        ("env_keys", KeyMeaning::EnvNames),
        ("uri", KeyMeaning::Url),
        ("enabled", KeyMeaning::Enabled),
        ("timeout", KeyMeaning::Seconds),
        ("description", KeyMeaning::Description),
        ("available_tools", KeyMeaning::AllowUnlessEmpty),
        ("name", KeyMeaning::Silent),
        ("display_name", KeyMeaning::Silent),
        ("bundled", KeyMeaning::Silent),
    ],
    references: References::OwnVariables,
    http: Http::Streamable,
};
