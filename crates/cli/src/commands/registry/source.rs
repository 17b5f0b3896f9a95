//! Which registry is used, and what its failures mean for a user.

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::display::printable;
use switchboard::config::registry::RegistryServer;
use switchboard::config::registry::identifier::{is_pinned_version, is_server_name};
use switchboard::config::scope::Scope;
use switchboard_packages::registry::{
    RegistryClient, RegistryError, RegistryErrorKind, RegistryUrl,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::network::outbound_network;

/// Names the registry, unless an option does.
const URL_VARIABLE: &str = "SWB_REGISTRY_URL";

/// A client of the registry that option, environment or settings name.
pub(super) fn client(
    invocation: &Invocation,
    given: Option<&str>,
) -> Result<RegistryClient, Failure> {
    let url = registry_url(invocation, given)?;
    let network = outbound_network(invocation)?;
    let proxies = network.proxy_hosts().to_vec();
    let fetch = Box::new(HttpFetcher::new(network));
    Ok(RegistryClient::new(fetch, url).with_proxies(&proxies))
}

/// The registry's URL. An administrator's setting is the only one where there is one.
fn registry_url(invocation: &Invocation, given: Option<&str>) -> Result<RegistryUrl, Failure> {
    let configuration = invocation.load_without_demo()?;
    let variable = invocation.env.variables.get(URL_VARIABLE).filter(|it| !it.is_empty());
    let (managed, own) = match configuration.registry {
        Some(setting) if setting.origin.scope() == Scope::Enterprise => (Some(setting), None),
        other => (None, other),
    };
    let chosen = match (given, variable) {
        (Some(text), _) => Some((text.to_owned(), "--registry".to_owned())),
        (None, Some(text)) => Some((text.clone(), URL_VARIABLE.to_owned())),
        (None, None) => None,
    };
    if let Some(managed) = managed {
        let place = invocation.display_origin(&managed.origin);
        let url = parse(&managed.url, &place)?;
        return match chosen {
            Some((text, from)) if parse(&text, &from)? != url => {
                Err(Failure::new(Exit::Policy, "your administrator decides which registry is used")
                    .hint(&format!("{place} names {}; leave out {from}", managed.url)))
            }
            Some(_) | None => Ok(url),
        };
    }
    match (chosen, own) {
        (Some((text, from)), _) => parse(&text, &from),
        (None, Some(setting)) => {
            parse(&setting.url, &invocation.display_origin(&setting.origin))
        }
        (None, None) => Err(Failure::new(Exit::Configuration, "no registry is configured").hint(
            &format!(
                "name one with `--registry URL`, in {URL_VARIABLE}, or as \"registry\": {{\"url\": \"…\"}} in {}",
                invocation.display_path(&invocation.env.paths.user_settings())
            ),
        )),
    }
}

fn parse(text: &str, from: &str) -> Result<RegistryUrl, Failure> {
    RegistryUrl::parse(text).map_err(|error| {
        Failure::new(Exit::Usage, &format!("{from} is not the base URL of a registry"))
            .caused_by(error)
    })
}

/// Fails for a text that no server of a registry has as its name.
pub(super) fn expect_name(name: &str) -> Result<(), Failure> {
    match is_server_name(name) {
        true => Ok(()),
        false => {
            let message = format!("`{name}` is not the name of a server in a registry");
            Err(Failure::new(Exit::Usage, &message).hint(&format!(
                "such names have a slash, as in io.github.user/weather: swb registry search {}",
                name.split(char::is_whitespace).next().unwrap_or_default()
            )))
        }
    }
}

/// One version of a server.
pub(super) async fn fetch(
    invocation: &Invocation,
    client: &RegistryClient,
    name: &str,
    version: Option<&str>,
) -> Result<RegistryServer, Failure> {
    if let Some(version) = version.filter(|it| !is_pinned_version(it) && *it != "latest") {
        let message = format!("`{version}` is not an exact version");
        let hint = format!("swb registry show {name} --versions");
        return Err(Failure::new(Exit::Usage, &message).hint(&hint));
    }
    let version = version.filter(|it| *it != "latest");
    client.server(name, version).await.map_err(|error| {
        if !matches!(error.kind, RegistryErrorKind::NotFound) {
            return failure(invocation, error);
        }
        let version = version.map(|it| format!(" {it}")).unwrap_or_default();
        let message = format!("`{name}`{version} is not in the registry at {}", error.origin);
        let last = name.rsplit('/').next().unwrap_or(name);
        Failure::new(Exit::NotFound, &message).hint(&format!("swb registry search {last}"))
    })
}

/// A failed request as the failure of a command.
pub(super) fn failure(invocation: &Invocation, error: RegistryError) -> Failure {
    let hint = match &error.kind {
        RegistryErrorKind::NoApi => {
            "the URL must be that of a registry, without /v0.1 and what follows".to_owned()
        }
        RegistryErrorKind::Fetch(_) | RegistryErrorKind::Url(_) => format!(
            "check the registry's URL and your network: curl -i {}",
            printable(&error.origin)
        ),
        RegistryErrorKind::Status { .. }
        | RegistryErrorKind::NotFound
        | RegistryErrorKind::NotJson
        | RegistryErrorKind::Shape
        | RegistryErrorKind::Listing(_)
        | RegistryErrorKind::TimedOut => format!(
            "try again later, or another registry: {}",
            invocation.display_path(&invocation.env.paths.user_settings())
        ),
    };
    let exit = match &error.kind {
        RegistryErrorKind::NotFound => Exit::NotFound,
        RegistryErrorKind::NoApi
        | RegistryErrorKind::Fetch(_)
        | RegistryErrorKind::Url(_)
        | RegistryErrorKind::Status { .. }
        | RegistryErrorKind::NotJson
        | RegistryErrorKind::Shape
        | RegistryErrorKind::Listing(_)
        | RegistryErrorKind::TimedOut => Exit::Connection,
    };
    Failure::new(exit, &error.to_string()).caused_by(error.kind).hint(&hint)
}
