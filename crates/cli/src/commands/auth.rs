//! `swb auth status`: every login that is kept, for whom, for what and until when. Never a token.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::shown::{self, printable};
use switchboard::connection::state::Persistence;
use switchboard::load::Configuration;
use switchboard::signing::LoginView;
use url::Url;

use crate::live;
use crate::login_text;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb auth`.
#[derive(Debug, Args)]
pub struct AuthCommand {
    /// What to show.
    #[command(subcommand)]
    pub what: What,
}

/// What to show of logins.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Show every login: where, who, for what, until when, and where it is kept
    Status,
}

/// Runs the command. No server is connected to.
pub fn run(arguments: &AuthCommand, session: &Session) -> Result<Done, Failure> {
    match arguments.what {
        What::Status => status(session),
    }
}

fn status(session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let (logins, place) = live::run(session, Persistence::Once, async |host| {
        host.logins().await.map_err(|error| login_text::failure("any server", &error))
    })?;
    let folder = session.machine.places.logins();
    if session.wants_json() {
        let logins: Vec<Json> =
            logins.iter().map(|it| as_json(session, &configuration, it)).collect();
        let kept = json!({"folder": folder, "how": place});
        return Ok(super::json(&json!({"logins": logins, "kept": kept})));
    }
    let mut text = String::new();
    for login in &logins {
        let names = names(&configuration, login);
        let belongs = match (names.is_empty(), is_provider(session, login)) {
            (_, true) => "the identity provider".to_owned(),
            (false, false) => names.iter().map(|it| printable(it)).collect::<Vec<_>>().join(", "),
            (true, false) => "no server that is configured here".to_owned(),
        };
        let server = shown::url(&login.server);
        text.push_str(&format!("{belongs}: {}\n  at: {server}\n", login_text::standing(login)));
        text.push_str(&login_text::lines(login));
        text.push('\n');
    }
    if logins.is_empty() {
        text.push_str("Nobody is signed in anywhere: `swb login NAME` signs in.\n");
    }
    text.push_str(&format!("Kept in {}: {}\n", session.shown_path(&folder), printable(&place)));
    Ok(Done::text(text))
}

fn as_json(session: &Session, configuration: &Configuration, login: &LoginView) -> Json {
    let mut json = login_text::as_json(login);
    json["names"] = names(configuration, login).into();
    json["isIdentityProvider"] = is_provider(session, login).into();
    json
}

/// The configured servers that show this login.
fn names(configuration: &Configuration, login: &LoginView) -> Vec<String> {
    let servers = configuration.effective.servers.iter().filter(|it| it.is_in_play());
    let is_its = |url: &str| Url::parse(url).is_ok_and(|url| url.as_str() == login.server);
    let shows = servers.filter(|server| {
        let Some(transport) = server.spec.as_ref().map(|it| &it.transport) else { return false };
        let client = transport.oauth().and_then(|it| it.client_id.as_ref());
        // A name that has to be fetched first may be any.
        let is_client = client.is_some_and(|it| it.has_secrets())
            || client.map(|it| it.with_references()) == login.client;
        is_client && transport.url().is_some_and(|url| is_its(&url.with_references()))
    });
    shows.map(|it| it.name.clone()).collect()
}

fn is_provider(session: &Session, login: &LoginView) -> bool {
    let provider = session.backing().identity_provider.clone();
    let issuer = provider.and_then(|it| Url::parse(&it.issuer).ok());
    issuer.is_some_and(|it| it.as_str() == login.server)
}
