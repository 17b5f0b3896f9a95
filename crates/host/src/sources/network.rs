//! The HTTP client of the host, built when the first remote server is reached, and the TLS files of single servers.

use std::fmt;
use std::sync::OnceLock;

use switchboard_config::entry::server::{ServerSpec, TransportConfig};
use switchboard_config::template::ExpandedText;
use switchboard_wire::http::client::{HttpClient, HttpSettings};

use crate::failure::ConnectionFailure;
use crate::sources::host_env::HostEnv;

/// Certificates for one server, read from the files that its entry names. Its `Debug` output hides them, because a
/// private key is among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Certificate authorities to trust besides the system's.
    pub authorities: Option<Vec<u8>>,
    /// The client certificate and its key.
    pub identity: Option<Vec<u8>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(…)")
    }
}

/// Reads the certificates that an entry names; `None` where it names none. Reads files, and blocks meanwhile.
pub fn load_certificates(
    spec: &ServerSpec,
    env: &HostEnv,
) -> Result<Option<Certificates>, ConnectionFailure> {
    let tls = match &spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => remote.tls.as_ref(),
        TransportConfig::Stdio(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => None,
    };
    let Some(tls) = tls else { return Ok(None) };
    let env = &*env.of_server(spec);
    let file = |key: &str, path: &Option<ExpandedText>| match path {
        None => Ok(None),
        Some(path) => {
            let path = env.absolute_path(&env.reveal(path)?);
            std::fs::read(&path).map(Some).map_err(|error| {
                ConnectionFailure::invalid_config(format!(
                    "`tls.{key}`: {} cannot be read: {error}",
                    path.display()
                ))
            })
        }
    };
    let certificate = file("clientCertificate", &tls.client_certificate)?;
    let key = file("clientKey", &tls.client_key)?;
    let identity = certificate.map(|mut pem| {
        pem.push(b'\n');
        pem.extend(key.unwrap_or_default());
        pem
    });
    Ok(Some(Certificates { authorities: file("caFile", &tls.ca_file)?, identity }))
}

/// An HTTP client that is built on first use, because loading the system's certificates takes time and memory.
pub(crate) struct LazyNetwork {
    settings: HttpSettings,
    client: OnceLock<Result<HttpClient, String>>,
}

impl LazyNetwork {
    pub(crate) fn new(settings: HttpSettings) -> LazyNetwork {
        LazyNetwork { settings, client: OnceLock::new() }
    }

    /// The shared client, or a client of its own for a server with certificates.
    pub(crate) fn client(
        &self,
        server_certificates: Option<Certificates>,
    ) -> Result<HttpClient, ConnectionFailure> {
        let Some(server_certificates) = server_certificates else {
            let shared = self.client.get_or_init(|| build_client(&self.settings)).clone();
            return shared.map_err(ConnectionFailure::invalid_config);
        };
        let mut settings = self.settings.clone();
        settings.extra_ca.extend(server_certificates.authorities);
        settings.identity = server_certificates.identity.or(settings.identity);
        build_client(&settings).map_err(ConnectionFailure::invalid_config)
    }
}

fn build_client(settings: &HttpSettings) -> Result<HttpClient, String> {
    HttpClient::new(settings).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })
}
