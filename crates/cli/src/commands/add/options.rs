//! The options of `swb add`.

use clap::{Args, ValueEnum};
use switchboard::config::entry::server::OAuthGrant;

use crate::invocation::scope::WritableScope;

/// Options of `swb add`.
#[derive(Debug, Clone, Default, Args)]
pub struct AddOptions {
    /// Where to keep it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// How to reach it; guessed from the target when absent
    #[arg(long, short, value_enum)]
    pub transport: Option<AddTransport>,
    /// A variable for the command; may be repeated
    #[arg(long, short, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// A header for the URL; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The URL, instead of naming it last
    #[arg(long)]
    pub url: Option<String>,
    /// The folder that the command starts in
    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<String>,
    /// The variable that holds the bearer token for the URL
    #[arg(long, value_name = "VARIABLE")]
    pub bearer_token_env_var: Option<String>,
    /// The id of a client that was registered beforehand
    #[arg(long, visible_alias = "oauth-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// Ask for the client's secret, or take it from MCP_CLIENT_SECRET
    #[arg(long)]
    pub client_secret: bool,
    /// The port of the sign-in redirect
    #[arg(long, value_name = "PORT")]
    pub callback_port: Option<u16>,
    /// Scopes to ask for when signing in
    #[arg(long, value_delimiter = ',', value_name = "SCOPE,…")]
    pub scopes: Vec<String>,
    /// Sign in through the enterprise's identity provider
    #[arg(long)]
    pub xaa: bool,
    /// In which way to sign in; all but the first need nobody
    #[arg(long, value_name = "GRANT", value_parser = parse_grant)]
    pub grant: Option<&'static str>,
    /// The variable that holds the key that the client signs with, as PEM
    #[arg(long, value_name = "VARIABLE")]
    pub private_key_env_var: Option<String>,
    /// The variable that holds the platform's token for `--grant jwt_bearer`
    #[arg(long, value_name = "VARIABLE")]
    pub workload_token_env_var: Option<String>,
    /// How long a call may take, in milliseconds
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u32>,
    /// Run its tools without asking
    #[arg(long)]
    pub trust: bool,
    /// A note for people
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Only these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub include_tools: Vec<String>,
    /// Never these tools, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub exclude_tools: Vec<String>,
    /// Replace a server of the same name in the same scope
    #[arg(long)]
    pub overwrite: bool,
}

/// The transports that a server can be added with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AddTransport {
    /// A command that we start.
    Stdio,
    /// Streamable HTTP.
    #[value(alias = "streamable-http")]
    Http,
    /// The older HTTP transport.
    Sse,
    /// WebSocket.
    Ws,
}

impl AddTransport {
    /// The word in an entry's `type`.
    pub fn id(self) -> &'static str {
        match self {
            AddTransport::Stdio => "stdio",
            AddTransport::Http => "http",
            AddTransport::Sse => "sse",
            AddTransport::Ws => "ws",
        }
    }
}

/// One of the words that an entry knows.
fn parse_grant(text: &str) -> Result<&'static str, String> {
    let words = OAuthGrant::NAMES.map(|(word, _)| word);
    let found = words.into_iter().find(|word| *word == text);
    found.ok_or_else(|| format!("the grants are {}", words.join(", ")))
}
