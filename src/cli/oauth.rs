//! The options of `belljar serve` for the access tokens of an OAuth issuer.

use clap::builder::PossibleValuesParser;

/// The options for OAuth.
#[derive(Debug, clap::Args)]
pub struct OAuth {
    /// An OAuth issuer, such as `https://login.example.com`: clients may send its access tokens instead of a belljar token.
    #[arg(long = "oauth-issuer", value_name = "URL", requires = "http")]
    pub issuer: Option<String>,
    /// The address of MCP as clients write it, such as `https://bridge.example.com/mcp`. Without it, it follows from
    /// --allow-host or --http.
    #[arg(long = "oauth-resource", value_name = "URL", requires = "issuer")]
    pub resource: Option<String>,
    /// The audience that an access token must have. Without it, this is the address of MCP.
    #[arg(long = "oauth-audience", value_name = "TEXT", requires = "issuer")]
    pub audience: Option<String>,
    /// A scope that an access token must have; can be repeated.
    #[arg(long = "oauth-scope", value_name = "SCOPE", requires = "issuer")]
    pub scopes: Vec<String>,
    /// The profile of the policy for sessions with access tokens; without it, the profile of your settings counts.
    #[arg(long = "oauth-policy", value_name = "PROFILE", requires = "issuer",
        value_parser = PossibleValuesParser::new(["open", "careful", "read-only"]))]
    pub policy: Option<String>,
}
