//! The options of `swb add`.

use clap::{Args, ValueEnum};
use switchboard::config::entry::server::OAuthGrant;

use crate::invocation::scope::WritableScope;

/// Options of `swb add`.
#[derive(Debug, Clone, Default, Args)]
pub struct AddOptions {
    /// The scope to write to [default: local]
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// The transport; detected from the target by default
    #[arg(long, short, value_enum)]
    pub transport: Option<AddTransport>,
    /// Set an environment variable of the command; may be repeated
    #[arg(long, short, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// Send a header with every request; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The URL, as an alternative to the positional argument
    #[arg(long)]
    pub url: Option<String>,
    /// The working folder of the command
    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<String>,
    /// Take the bearer token from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    pub bearer_token_env_var: Option<String>,
    /// The OAuth client id, if the client was registered beforehand
    #[arg(long, visible_alias = "oauth-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// Prompt for the OAuth client secret, or read it from MCP_CLIENT_SECRET
    #[arg(long)]
    pub client_secret: bool,
    /// The port of the OAuth redirect
    #[arg(long, value_name = "PORT")]
    pub callback_port: Option<u16>,
    /// OAuth scopes to request
    #[arg(long, value_delimiter = ',', value_name = "SCOPE,…")]
    pub scopes: Vec<String>,
    /// Sign in through the enterprise identity provider
    #[arg(long)]
    pub xaa: bool,
    /// The OAuth grant; all but `authorization_code` sign in without a user
    #[arg(long, value_name = "GRANT", value_parser = parse_grant)]
    pub grant: Option<&'static str>,
    /// Take the client's private key (PEM) from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    pub private_key_env_var: Option<String>,
    /// Take the platform token for `--grant jwt_bearer` from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    pub workload_token_env_var: Option<String>,
    /// The timeout of tool calls, in milliseconds
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u32>,
    /// The timeout of connecting, in milliseconds
    #[arg(long, value_name = "MS")]
    pub connect_timeout: Option<u32>,
    /// Run its tools without asking
    #[arg(long)]
    pub trust: bool,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Expose only these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub include_tools: Vec<String>,
    /// Hide these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub exclude_tools: Vec<String>,
    /// Replace a server of the same name in the same scope
    #[arg(long)]
    pub overwrite: bool,
}

/// The transports of `swb add`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AddTransport {
    /// A local command.
    Stdio,
    /// Streamable HTTP.
    #[value(alias = "streamable-http")]
    Http,
    /// HTTP with server-sent events, protocol version 2024-11-05.
    Sse,
    /// WebSocket.
    Ws,
}

impl AddTransport {
    /// The entry's `type`.
    pub fn id(self) -> &'static str {
        match self {
            AddTransport::Stdio => "stdio",
            AddTransport::Http => "http",
            AddTransport::Sse => "sse",
            AddTransport::Ws => "ws",
        }
    }
}

/// Parses the name of an OAuth grant.
fn parse_grant(text: &str) -> Result<&'static str, String> {
    let words = OAuthGrant::NAMES.map(|(word, _)| word);
    let found = words.into_iter().find(|word| *word == text);
    found.ok_or_else(|| format!("the grants are {}", words.join(", ")))
}
