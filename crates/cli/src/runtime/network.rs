//! HTTP settings from the proxy and certificate variables.

use switchboard::wire::http::client;
use switchboard::{HostEnv, HostOptions};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// An HTTP client for requests that do not go to servers.
pub fn outbound_network(invocation: &Invocation) -> Result<client::HttpClient, Failure> {
    let environment = HostEnv::default();
    let defaults = HostOptions::new(invocation.env.paths.clone(), environment).network;
    client::HttpClient::new(&network_settings(invocation, defaults)?).map_err(|error| {
        Failure::new(Exit::Configuration, "the HTTP client cannot be created").caused_by(error)
    })
}

/// HTTP settings from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` and `NODE_EXTRA_CA_CERTS`.
pub fn network_settings(
    invocation: &Invocation,
    defaults: client::HttpSettings,
) -> Result<client::HttpSettings, Failure> {
    let variables = &invocation.env.variables;
    let either = |name: &str| {
        let found = variables.get(&name.to_ascii_lowercase()).or_else(|| variables.get(name));
        found.filter(|value| !value.is_empty()).cloned()
    };
    let file = |name: &str| match variables.get(name).filter(|path| !path.is_empty()) {
        None => Ok(None),
        Some(path) => std::fs::read(path).map(Some).map_err(|error| {
            let message = format!("{name} names a file that cannot be read");
            Failure::new(Exit::Configuration, &message).caused_by(error)
        }),
    };
    Ok(client::HttpSettings {
        proxies: client::ProxySettings {
            http: either("HTTP_PROXY"),
            https: either("HTTPS_PROXY"),
            all: either("ALL_PROXY"),
            no_proxy: either("NO_PROXY"),
        },
        extra_ca: file("NODE_EXTRA_CA_CERTS")?.into_iter().collect(),
        ..defaults
    })
}
