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
}

impl std::fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UpstreamProxy({})", self.address)
    }
}

impl UpstreamProxy {
    /// Parses a URL such as `http://proxy.example:3128`; `None` for other kinds of proxies.
    pub fn parse(text: &str) -> Option<UpstreamProxy> {
        let with_scheme =
            if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&with_scheme).ok().filter(|it| it.scheme() == "http")?;
        let address = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
        let authorization = (!url.username().is_empty()).then(|| {
            let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            STANDARD.encode(pair)
        });
        Some(UpstreamProxy { address, authorization })
    }

    /// Opens a tunnel to a host.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
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
