//! The HTTP proxy behind which this machine is, where its environment names one.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

/// The longest head of an answer.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// An HTTP proxy.
#[derive(Clone)]
pub struct UpstreamProxy {
    address: String,
    authorization: Option<String>,
    /// The scheme, if it is none that is supported.
    unsupported: Option<String>,
    /// Hosts that are reached without it, as `NO_PROXY` lists them.
    exceptions: Vec<String>,
}

impl std::fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UpstreamProxy({})", self.address)
    }
}

impl UpstreamProxy {
    /// Parses a URL such as `http://proxy.example:3128`; `None` for a text that is none.
    pub fn parse(text: &str) -> Option<UpstreamProxy> {
        let with_scheme =
            if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&with_scheme).ok()?;
        let port = url.port_or_known_default().unwrap_or(0);
        let address = format!("{}:{port}", url.host_str()?);
        let authorization = (!url.username().is_empty()).then(|| {
            let mut pair = decoded(url.username());
            pair.push(b':');
            pair.extend(decoded(url.password().unwrap_or_default()));
            STANDARD.encode(pair)
        });
        let unsupported = (url.scheme() != "http").then(|| url.scheme().to_owned());
        Some(UpstreamProxy { address, authorization, unsupported, exceptions: Vec::new() })
    }

    /// The same proxy, which is not used for hosts in a list as `NO_PROXY` has it.
    pub fn except(self, list: &str) -> UpstreamProxy {
        let names = list.split(',').map(|it| it.trim().to_ascii_lowercase());
        UpstreamProxy { exceptions: names.filter(|it| !it.is_empty()).collect(), ..self }
    }

    /// The scheme, if it is none that is supported. Pages must not be reached around such a proxy.
    pub(crate) fn unsupported_scheme(&self) -> Option<&str> {
        self.unsupported.as_deref()
    }

    /// Whether a host is reached through it.
    pub(super) fn applies_to(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_excepted = |entry: &String| {
            let (name, of_port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                    (name, port.parse::<u16>().ok())
                }
                Some(_) | None => (entry.as_str(), None),
            };
            let name = name.trim_start_matches("*.").trim_start_matches('.');
            let bare = host.trim_matches(['[', ']']);
            let is_host = name == "*"
                || bare == name.trim_matches(['[', ']'])
                || host.strip_suffix(name).is_some_and(|it| it.ends_with('.'));
            is_host && of_port.is_none_or(|it| it == port)
        };
        !self.exceptions.iter().any(is_excepted)
    }

    /// Opens a tunnel to a host.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(authorization) = &self.authorization {
            head += &format!("Proxy-Authorization: Basic {authorization}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).await?;
        let mut received = Vec::new();
        // Byte by byte, because what follows the head belongs to the tunnel.
        while !received.ends_with(b"\r\n\r\n") {
            if received.len() == MAX_HEAD_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            received.push(stream.read_u8().await?);
        }
        let is_open =
            received.starts_with(b"HTTP/1.1 200") || received.starts_with(b"HTTP/1.0 200");
        match is_open {
            true => Ok(stream),
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// A part of a URL without its percent-encoding.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.filter(|_| *first == b'%');
        match byte.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_decoded_and_other_kinds_of_proxies_are_not_overlooked() {
        let proxy = UpstreamProxy::parse("http://me:p%40ss%3a%zz@proxy.example:3128").expect("one");
        assert_eq!(proxy.authorization, Some(STANDARD.encode("me:p@ss:%zz")));
        assert_eq!(
            (proxy.address.as_str(), proxy.unsupported_scheme()),
            ("proxy.example:3128", None)
        );
        assert_eq!(UpstreamProxy::parse("proxy:1").expect("one").unsupported_scheme(), None);
        for scheme in ["https", "socks5", "socks5h"] {
            let proxy = UpstreamProxy::parse(&format!("{scheme}://proxy:1")).expect("one");
            assert_eq!(proxy.unsupported_scheme(), Some(scheme));
        }
    }

    #[test]
    fn hosts_of_the_list_of_exceptions_are_reached_directly() {
        let proxy = UpstreamProxy::parse("http://proxy:1").expect("one");
        let proxy = proxy.except("Example.com, .internal ,10.0.0.7,::1,special.org:8080");
        for (host, port, expected) in [
            ("example.com", 443, false),
            ("www.example.com.", 443, false),
            ("notexample.com", 443, true),
            ("a.internal", 80, false),
            ("10.0.0.7", 80, false),
            ("10.0.0.70", 80, true),
            ("[::1]", 80, false),
            ("special.org", 8080, false),
            ("special.org", 80, true),
        ] {
            assert_eq!(proxy.applies_to(host, port), expected, "{host}:{port}");
        }
        let none = UpstreamProxy::parse("http://proxy:1").expect("one").except("*");
        assert!(!none.applies_to("example.com", 443));
    }
}
