//! What the keys of each client's entries mean, one table each.
//!
//! It translates nothing: `entry` does.

/// How a client's entries are to be read.
#[derive(Debug)]
pub(in crate::clients) struct Dialect {
    pub(in crate::clients) keys: &'static [(&'static str, Meaning)],
    pub(in crate::clients) references: References,
    /// What `http` as a type stands for.
    pub(in crate::clients) http: Http,
}

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clients) enum Meaning {
    /// The command; a list is the command and its arguments, a table has `path`, `args` and `env`.
    Command,
    Args,
    Env,
    /// Names of variables that the server gets as they are in the client's environment.
    EnvNames,
    Cwd,
    Url,
    /// An address where Streamable HTTP is spoken.
    StreamableUrl,
    Headers,
    /// Headers whose values are names of variables.
    HeaderVariables,
    /// The variable that holds the bearer token.
    BearerVariable,
    Kind,
    Disabled,
    Enabled,
    /// The tools that there are; no others.
    Allow,
    /// The same, where an empty list means all.
    AllowUnlessEmpty,
    /// Tools that there are not.
    Deny,
    Seconds,
    Milliseconds,
    /// The time of the server's start.
    StartSeconds,
    StartMilliseconds,
    Description,
    /// Of how the client shows it only.
    Silent,
    /// No counterpart here; what to do instead, or nothing.
    Foreign(&'static str),
}

/// Which references a client replaces in its strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clients) enum References {
    /// None: every text is what it says.
    None,
    /// `${VAR}`, `${VAR:-default}`
    Shell,
    /// `$VAR` and `${VAR}`
    Dollar,
    /// `${env:VAR}`, `${input:ID}`, `${userHome}`, `${workspaceFolder}` and others.
    Editor,
    /// `${env:VAR}`, `${file:PATH}`
    EnvAndFile,
    /// `{env:VAR}`, `{file:PATH}`
    Braces,
    /// `$VAR` and `${VAR}` in addresses and headers only, out of the entry's own variables.
    OwnVariables,
}

impl References {
    /// How a user keeps a secret out of the client's file.
    pub(in crate::clients) fn advice(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Shell | Self::Dollar => "the client takes ${VAR} there too, which is copied as a reference",
            Self::Editor | Self::EnvAndFile => {
                "the client takes ${env:VAR} there too, which is copied as a reference"
            }
            Self::Braces => "the client takes {env:VAR} there too, which is copied as a reference",
            Self::OwnVariables => "the client takes names of variables as env_keys, which are copied as such",
        }
    }
}

/// What a client speaks where the type is `http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clients) enum Http {
    /// Streamable HTTP.
    Streamable,
    /// That, or HTTP+SSE where it fails.
    Either,
}

const ENV_FILE: Meaning = Meaning::Foreign(
    "write its variables as env, or set them where belljar is started and name them as env_inherit",
);
const LOGIN: Meaning = Meaning::Foreign("");
const OWN: Meaning = Meaning::Foreign("");

pub(in crate::clients) const CLAUDE_DESKTOP: Dialect = Dialect {
    keys: &[
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("cwd", Meaning::Cwd),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("type", Meaning::Kind),
        ("transport", Meaning::Kind),
        ("disabled", Meaning::Disabled),
    ],
    references: References::None,
    http: Http::Streamable,
};

pub(in crate::clients) const CLAUDE_CODE: Dialect = Dialect {
    keys: &[
        ("type", Meaning::Kind),
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("disabled", Meaning::Disabled),
        ("timeout", Meaning::Milliseconds),
        ("headersHelper", Meaning::Foreign("write its header as a reference, such as ${VAR}")),
        ("oauth", LOGIN),
        ("alwaysLoad", OWN),
    ],
    references: References::Shell,
    http: Http::Streamable,
};

pub(in crate::clients) const CURSOR: Dialect = Dialect {
    keys: &[
        ("type", Meaning::Kind),
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("envFile", ENV_FILE),
        ("cwd", Meaning::Cwd),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("disabled", Meaning::Disabled),
        ("auth", LOGIN),
    ],
    references: References::Editor,
    http: Http::Either,
};

pub(in crate::clients) const VSCODE: Dialect = Dialect {
    keys: &[
        ("type", Meaning::Kind),
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("envFile", ENV_FILE),
        ("cwd", Meaning::Cwd),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("disabled", Meaning::Disabled),
        ("dev", OWN),
        ("gallery", OWN),
        ("version", OWN),
        ("sandboxEnabled", OWN),
        ("sandbox", OWN),
        ("oauth", LOGIN),
    ],
    references: References::Editor,
    http: Http::Either,
};

pub(in crate::clients) const WINDSURF: Dialect = Dialect {
    keys: &[
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("cwd", Meaning::Cwd),
        ("serverUrl", Meaning::Url),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("type", Meaning::Kind),
        ("disabled", Meaning::Disabled),
        ("disabledTools", Meaning::Deny),
        ("alwaysAllow", OWN),
    ],
    references: References::EnvAndFile,
    http: Http::Either,
};

pub(in crate::clients) const GEMINI: Dialect = Dialect {
    keys: &[
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("cwd", Meaning::Cwd),
        ("httpUrl", Meaning::StreamableUrl),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("type", Meaning::Kind),
        ("timeout", Meaning::Milliseconds),
        ("description", Meaning::Description),
        ("includeTools", Meaning::Allow),
        ("excludeTools", Meaning::Deny),
        ("trust", OWN),
        ("oauth", LOGIN),
        ("authProviderType", LOGIN),
        ("targetAudience", LOGIN),
        ("targetServiceAccount", LOGIN),
    ],
    references: References::Dollar,
    http: Http::Streamable,
};

pub(in crate::clients) const CODEX: Dialect = Dialect {
    keys: &[
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("env_vars", Meaning::EnvNames),
        ("cwd", Meaning::Cwd),
        ("url", Meaning::StreamableUrl),
        ("bearer_token_env_var", Meaning::BearerVariable),
        ("http_headers", Meaning::Headers),
        ("env_http_headers", Meaning::HeaderVariables),
        ("enabled", Meaning::Enabled),
        ("enabled_tools", Meaning::Allow),
        ("disabled_tools", Meaning::Deny),
        ("tool_timeout_sec", Meaning::Seconds),
        ("bearer_token", Meaning::Foreign("Codex refuses it too; name a variable as bearer_token_env_var")),
        ("startup_timeout_sec", Meaning::StartSeconds),
        ("startup_timeout_ms", Meaning::StartMilliseconds),
        ("required", OWN),
        ("supports_parallel_tool_calls", OWN),
        ("experimental_environment", OWN),
        ("default_tools_approval_mode", OWN),
        ("tools", OWN),
        ("scopes", LOGIN),
        ("oauth", LOGIN),
        ("oauth_resource", LOGIN),
        ("name", OWN),
    ],
    references: References::None,
    http: Http::Streamable,
};

pub(in crate::clients) const OPENCODE: Dialect = Dialect {
    keys: &[
        ("type", Meaning::Kind),
        ("command", Meaning::Command),
        ("environment", Meaning::Env),
        ("cwd", Meaning::Cwd),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("enabled", Meaning::Enabled),
        ("disabled", Meaning::Disabled),
        ("timeout", Meaning::Milliseconds),
        ("oauth", LOGIN),
    ],
    references: References::Braces,
    http: Http::Either,
};

pub(in crate::clients) const ZED: Dialect = Dialect {
    keys: &[
        ("command", Meaning::Command),
        ("args", Meaning::Args),
        ("env", Meaning::Env),
        ("url", Meaning::Url),
        ("headers", Meaning::Headers),
        ("enabled", Meaning::Enabled),
        ("timeout", Meaning::Seconds),
        ("source", Meaning::Kind),
        ("settings", OWN),
        ("remote", OWN),
        ("oauth", LOGIN),
    ],
    references: References::None,
    http: Http::Either,
};

pub(in crate::clients) const GOOSE: Dialect = Dialect {
    keys: &[
        ("type", Meaning::Kind),
        ("cmd", Meaning::Command),
        ("args", Meaning::Args),
        ("envs", Meaning::Env),
        ("env_keys", Meaning::EnvNames),
        ("cwd", Meaning::Cwd),
        ("uri", Meaning::Url),
        ("headers", Meaning::Headers),
        ("enabled", Meaning::Enabled),
        ("timeout", Meaning::Seconds),
        ("description", Meaning::Description),
        ("available_tools", Meaning::AllowUnlessEmpty),
        ("name", Meaning::Silent),
        ("display_name", Meaning::Silent),
        ("bundled", Meaning::Silent),
        ("socket", OWN),
    ],
    references: References::OwnVariables,
    http: Http::Streamable,
};
