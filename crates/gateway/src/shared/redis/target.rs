//! Where the store is: one server, a cluster, or a server that sentinels name; as people write it in a URL.

use std::fmt;
use std::time::Duration;

use ::redis::cluster::ClusterClient;
use ::redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult,
    TlsCertificates, TlsMode,
};
use memchr::memmem::Finder;
use thiserror::Error;

use super::connection::Connection;

/// The first line of a certificate.
const PEM_CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";
/// How long a connection attempt to one server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one answer may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Where the store is. Prints no credentials.
pub struct StoreTarget(Kind);

enum Kind {
    Single(Box<Client>),
    Cluster(Box<ClusterClient>),
    Sentinel(Box<SentinelClient>),
}

impl fmt::Debug for StoreTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Single(_) => "StoreTarget(server)",
            Kind::Cluster(_) => "StoreTarget(cluster)",
            Kind::Sentinel(_) => "StoreTarget(sentinel)",
        })
    }
}

/// Why a text is no URL of a store. Repeats nothing of it, because it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoreUrlError {
    /// The scheme is unknown.
    #[error(
        "the URL of the store must begin with `redis://`, `rediss://` (TLS), `redis-cluster://`, `rediss-cluster://`, \
         `redis-sentinel://` or `rediss-sentinel://`"
    )]
    Scheme,
    /// There is no host, or a port is no number.
    #[error("the URL of the store has no host, or a port that is not a number")]
    Address,
    /// Sentinels need to know which server is meant.
    #[error("a sentinel URL ends with the name of the server: `redis-sentinel://HOST:26379/NAME`")]
    SentinelName,
    /// The database is not a number, or the server is a cluster, which has only one.
    #[error(
        "the database in the URL of the store is not a number, or it is a cluster, which has only one"
    )]
    Database,
    /// The certificates cannot be used.
    #[error("the certificate authorities for the store cannot be read as PEM")]
    Certificates,
}

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    Plain,
    Tls,
}

/// A URL of a store in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    kind: &'a str,
    protection: Protection,
    /// User and password as in the URL.
    user_info: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: Vec<&'a str>,
}

impl StoreTarget {
    /// Reads a URL. Servers with TLS must have a certificate of these authorities (PEM), or of the system's if there are none.
    pub fn parse(url: &str, authorities: Option<&[u8]>) -> Result<StoreTarget, StoreUrlError> {
        let parts = Parts::parse(url)?;
        // The library takes a file without any certificate for one that trusts none.
        if authorities.is_some_and(|it| Finder::new(PEM_CERTIFICATE).find(it).is_none()) {
            return Err(StoreUrlError::Certificates);
        }
        let certificates = authorities
            .filter(|_| parts.protection == Protection::Tls)
            .map(|it| TlsCertificates { client_tls: None, root_cert: Some(it.to_vec()) });
        let kind = match parts.kind {
            "" => Kind::Single(Box::new(single(&parts, certificates)?)),
            "cluster" => Kind::Cluster(Box::new(cluster(&parts, certificates)?)),
            _ => Kind::Sentinel(Box::new(sentinel(&parts, certificates)?)),
        };
        Ok(StoreTarget(kind))
    }

    /// Connects. Sentinels are asked each time, because the server that they name may have changed.
    pub(super) async fn connect(&mut self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        match &mut self.0 {
            Kind::Single(client) => {
                let connecting = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::Single(connecting.await?))
            }
            Kind::Sentinel(client) => {
                let connecting = client.get_async_connection_with_config(&config);
                Ok(Connection::Single(connecting.await?))
            }
            Kind::Cluster(client) => Ok(Connection::Cluster(client.get_async_connection().await?)),
        }
    }
}

impl<'a> Parts<'a> {
    fn parse(url: &'a str) -> Result<Parts<'a>, StoreUrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(StoreUrlError::Scheme)?;
        let (base, kind) = scheme.split_once('-').unwrap_or((scheme, ""));
        let protection = match base {
            "redis" | "valkey" => Protection::Plain,
            "rediss" | "valkeys" => Protection::Tls,
            _ => return Err(StoreUrlError::Scheme),
        };
        if !["", "cluster", "sentinel"].contains(&kind) {
            return Err(StoreUrlError::Scheme);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let hosts: Vec<&str> = hosts.split(',').collect();
        let has_several = hosts.len() > 1;
        if hosts.iter().any(|it| it.is_empty()) || (kind.is_empty() && has_several) {
            return Err(StoreUrlError::Address);
        }
        let path = path.split('/').filter(|it| !it.is_empty()).collect();
        Ok(Parts { kind, protection, user_info, hosts, path })
    }

    /// The connection to one of the hosts.
    fn host(&self, host: &str, database: &str) -> Result<ConnectionInfo, StoreUrlError> {
        let scheme = match self.protection {
            Protection::Plain => "redis",
            Protection::Tls => "rediss",
        };
        let user_info = self.user_info.map(|it| format!("{it}@")).unwrap_or_default();
        let url = format!("{scheme}://{user_info}{host}/{database}");
        url.into_connection_info().map_err(|_| StoreUrlError::Address)
    }
}

/// A database, which is a number.
fn database<'a>(path: &[&'a str]) -> Result<&'a str, StoreUrlError> {
    match path {
        [] => Ok(""),
        [number] if number.parse::<u16>().is_ok() => Ok(number),
        [..] => Err(StoreUrlError::Database),
    }
}

fn single(
    parts: &Parts<'_>,
    certificates: Option<TlsCertificates>,
) -> Result<Client, StoreUrlError> {
    let info = parts.host(parts.hosts[0], database(&parts.path)?)?;
    match certificates {
        Some(certificates) => {
            Client::build_with_tls(info, certificates).map_err(|_| StoreUrlError::Certificates)
        }
        None => Client::open(info).map_err(|_| StoreUrlError::Address),
    }
}

fn cluster(
    parts: &Parts<'_>,
    certificates: Option<TlsCertificates>,
) -> Result<ClusterClient, StoreUrlError> {
    if !parts.path.is_empty() {
        return Err(StoreUrlError::Database);
    }
    let hosts = parts.hosts.iter().map(|it| parts.host(it, ""));
    let hosts: Vec<ConnectionInfo> = hosts.collect::<Result<_, _>>()?;
    let mut builder = ClusterClient::builder(hosts)
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(RESPONSE_TIMEOUT)
        .retries(2);
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    builder.build().map_err(|_| StoreUrlError::Address)
}

fn sentinel(
    parts: &Parts<'_>,
    certificates: Option<TlsCertificates>,
) -> Result<SentinelClient, StoreUrlError> {
    let (name, path) = parts.path.split_first().ok_or(StoreUrlError::SentinelName)?;
    let database = database(path)?;
    let hosts = parts.hosts.iter().map(|it| {
        // The port of sentinels, where the URL has none.
        let has_port = it.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match has_port {
            true => parts.host(it, database),
            false => parts.host(&format!("{it}:26379"), database),
        }
    });
    let hosts: Vec<ConnectionInfo> = hosts.collect::<Result<_, _>>()?;
    let server = hosts[0].redis_settings();
    let addresses: Vec<ConnectionAddr> = hosts.iter().map(|it| it.addr().clone()).collect();
    let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)
        .map_err(|_| StoreUrlError::Address)?
        .set_client_to_redis_db(server.db());
    // Sentinels usually have no password, and refuse one then.
    if let Some(user) = server.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = server.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if parts.protection == Protection::Tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build().map_err(|_| StoreUrlError::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_server_a_cluster_or_sentinels() {
        let shown = |url: &str| StoreTarget::parse(url, None).map(|it| format!("{it:?}"));
        for url in ["redis://h", "valkey://u:p%40@h:1/3", "redis://:secret@[::1]:6379"] {
            assert_eq!(shown(url).as_deref(), Ok("StoreTarget(server)"), "{url}");
        }
        for url in ["redis-cluster://a:1,b:2", "valkey-cluster://user:pw@a"] {
            assert_eq!(shown(url).as_deref(), Ok("StoreTarget(cluster)"), "{url}");
        }
        for url in ["redis-sentinel://a,b:2/main", "redis-sentinel://:pw@a:1/main/4"] {
            assert_eq!(shown(url).as_deref(), Ok("StoreTarget(sentinel)"), "{url}");
        }
    }

    #[test]
    fn an_error_says_what_is_wrong_and_repeats_no_password() {
        let cases = [
            ("h:6379", StoreUrlError::Scheme),
            ("http://user:hunter2@h", StoreUrlError::Scheme),
            ("redis-other://h", StoreUrlError::Scheme),
            ("redis://", StoreUrlError::Address),
            ("redis://a,b", StoreUrlError::Address),
            ("redis://:hunter2@h:port", StoreUrlError::Address),
            ("redis://h/x", StoreUrlError::Database),
            ("redis-cluster://h/1", StoreUrlError::Database),
            ("redis-sentinel://h:1", StoreUrlError::SentinelName),
            ("redis-sentinel://h:1/main/x", StoreUrlError::Database),
        ];
        for (url, expected) in cases {
            let error = StoreTarget::parse(url, None).expect_err(url);
            assert_eq!(error, expected, "{url}");
            assert!(!error.to_string().contains("hunter2"));
        }
        let error = StoreTarget::parse("rediss://h", Some(b"-----BEGIN CERTIFICATE-----\n!"));
        assert_eq!(error.expect_err("not PEM"), StoreUrlError::Certificates);
        let error = StoreTarget::parse("redis://h", Some(b"text"));
        assert_eq!(error.expect_err("no certificate"), StoreUrlError::Certificates);
    }
}
