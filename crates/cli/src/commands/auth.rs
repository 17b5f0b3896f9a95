//! `swb auth`: lists the stored logins, and prints the client metadata document to host. Never prints a token.

mod client_metadata;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::connection::RetryPolicy;
use switchboard::login::LoginView;
use switchboard::sources::loader::Configuration;
use url::Url;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::login_text;
use crate::runtime::host;

/// Arguments of `swb auth`.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// The action; without one, `status`.
    #[command(subcommand)]
    pub action: Option<AuthAction>,
}

/// Actions on logins.
#[derive(Debug, Subcommand)]
pub enum AuthAction {
    /// List every login: server, identity, scopes, expiry and storage
    Status,
    /// Print the client metadata document to host, for authorization servers that support such documents
    ClientMetadata {
        /// The URL at which you host it; default: `oauth.clientMetadataUrl` of your configuration
        #[arg(value_name = "URL")]
        url: Option<String>,
    },
}

/// Runs the command. Connects to no server.
pub fn run(arguments: &AuthArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        None | Some(AuthAction::Status) => status(invocation),
        Some(AuthAction::ClientMetadata { url }) => {
            client_metadata::run(invocation, url.as_deref())
        }
    }
}

fn status(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let (logins, place) = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.logins().await.map_err(|error| login_text::login_failure("any server", &error))
    })?;
    let folder = invocation.env.paths.logins();
    if invocation.wants_json() {
        let logins: Vec<Json> =
            logins.iter().map(|it| as_json(invocation, &configuration, it)).collect();
        let storage = json!({"folder": folder, "how": place});
        return Ok(json_output(&json!({"logins": logins, "kept": storage})));
    }
    let mut text = String::new();
    for login in &logins {
        let names = server_names(&configuration, login);
        let owner = match (names.is_empty(), is_identity_provider(invocation, login)) {
            (_, true) => "the identity provider".to_owned(),
            (false, false) => names.iter().map(|it| printable(it)).collect::<Vec<_>>().join(", "),
            (true, false) => "no configured server".to_owned(),
        };
        let server = display::masked_url(&login.server);
        text.push_str(&format!("{owner}: {}\n  at: {server}\n", login_text::validity(login)));
        text.push_str(&login_text::details_text(login));
        text.push('\n');
    }
    if logins.is_empty() {
        text.push_str("No logins. `swb login NAME` signs in.\n");
    }
    text.push_str(&format!(
        "Stored in {}: {}\n",
        invocation.display_path(&folder),
        printable(&place)
    ));
    Ok(CommandOutput::text(text))
}

fn as_json(invocation: &Invocation, configuration: &Configuration, login: &LoginView) -> Json {
    let mut json = login_text::as_json(login);
    json["names"] = server_names(configuration, login).into();
    json["isIdentityProvider"] = is_identity_provider(invocation, login).into();
    json
}

/// The configured servers that use this login.
fn server_names(configuration: &Configuration, login: &LoginView) -> Vec<String> {
    let servers = configuration.effective.servers.iter().filter(|it| it.is_selected());
    let is_its = |url: &str| Url::parse(url).is_ok_and(|url| url.as_str() == login.server);
    let shows = servers.filter(|server| {
        let Some(transport) = server.spec.as_ref().map(|it| &it.transport) else { return false };
        let client = transport.oauth().and_then(|it| it.client_id.as_ref());
        // A client id from a secret store is unknown here, so it may match.
        let is_client = client.is_some_and(|it| it.has_secrets())
            || client.map(|it| it.to_unresolved_string()) == login.client;
        is_client && transport.url().is_some_and(|url| is_its(&url.to_unresolved_string()))
    });
    shows.map(|it| it.name.clone()).collect()
}

fn is_identity_provider(invocation: &Invocation, login: &LoginView) -> bool {
    let provider = invocation.providers().identity_provider.clone();
    let issuer = provider.and_then(|it| Url::parse(&it.issuer).ok());
    issuer.is_some_and(|it| it.as_str() == login.server)
}
