//! The outbound network, from the proxy and certificate variables.

use switchboard::connection::resolve::HostEnv;
use switchboard::host::HostOptions;
use switchboard::wire::http::client;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// A way out for what is no server.
pub fn outbound_network(invocation: &Invocation) -> Result<client::HttpClient, Failure> {
    let environment = HostEnv::default();
    let usual = HostOptions::new(invocation.env.paths.clone(), environment).network;
    client::HttpClient::new(&network_settings(invocation, usual)?).map_err(|error| {
        Failure::new(Exit::Configuration, "there is no way out to the network").caused_by(error)
    })
}

/// The way out, as the variables that everybody uses describe it.
pub fn network_settings(
    invocation: &Invocation,
    usual: client::HttpSettings,
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
        ..usual
    })
}
