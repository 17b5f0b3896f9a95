//! `swb auth client-metadata`: prints the client metadata document that a user or an administrator hosts.

use std::collections::BTreeSet;

use switchboard::config::display::printable;
use switchboard::config::entry::is_client_metadata_url;
use switchboard::config::entry::server::{OAuthConfig, ServerSpec};
use switchboard::config::template::ExpandedText;
use switchboard::login::client_metadata_document;
use switchboard::sources::loader::Configuration;
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::runtime::host;

/// An example for hints.
const EXAMPLE: &str = "https://example.com/switchboard.json";

/// Prints the document for a URL, or for the configured one. The output is the document alone, so that it can be
/// written to a file.
pub fn run(invocation: &Invocation, url: Option<&str>) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let default = host::client_metadata_url(invocation);
    let url = match url {
        Some(text) => parse(text)?,
        None => configured(&configuration, default.as_ref())?,
    };
    let ports: BTreeSet<u16> = specs(&configuration)
        .filter(|spec| document_url(spec).or_else(|| default.clone()).as_ref() == Some(&url))
        .filter_map(|spec| oauth(spec)?.callback_port)
        .collect();
    let ports: Vec<u16> = ports.into_iter().collect();
    Ok(json_output(&client_metadata_document(&url, &ports)))
}

fn parse(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok().filter(|_| is_client_metadata_url(text));
    url.ok_or_else(|| {
        let message = format!("`{}` cannot be the URL of the document", printable(text));
        let failure = Failure::new(Exit::Usage, &message).hint(&format!("for example `{EXAMPLE}`"));
        let rule = "it must begin with `https://` and have a path, without user name, password or fragment";
        Failure { causes: vec![rule.to_owned()], ..failure }
    })
}

/// The only configured URL.
fn configured(configuration: &Configuration, default: Option<&Url>) -> Result<Url, Failure> {
    let mut urls: BTreeSet<Url> = specs(configuration).filter_map(document_url).collect();
    urls.extend(default.cloned());
    let command = "`swb auth client-metadata URL`";
    match (urls.pop_first(), urls.is_empty()) {
        (Some(url), true) => Ok(url),
        (None, _) => {
            let message = "no URL of a client metadata document is configured";
            Err(Failure::new(Exit::Usage, message).hint(&format!(
                "run {command}, host the document there, and set `oauth.clientMetadataUrl` in your settings"
            )))
        }
        (Some(_), false) => {
            let message = "several client metadata documents are configured";
            Err(Failure::new(Exit::Usage, message).hint(&format!("name one: {command}")))
        }
    }
}

fn specs(configuration: &Configuration) -> impl Iterator<Item = &ServerSpec> {
    let servers = configuration.effective.servers.iter().filter(|it| it.is_selected());
    servers.filter_map(|it| it.spec.as_ref())
}

fn oauth(spec: &ServerSpec) -> Option<&OAuthConfig<ExpandedText>> {
    spec.transport.oauth()
}

/// The document of a server's own entry.
fn document_url(spec: &ServerSpec) -> Option<Url> {
    let text = oauth(spec)?.client_metadata_url.as_ref()?.to_unresolved_string();
    Url::parse(&text).ok()
}
