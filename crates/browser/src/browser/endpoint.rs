//! Connects to a browser that already runs, by its WebSocket or by the address of its debugging port.

use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use url::Url;

use crate::cdp::channel::{Channel, MAX_MESSAGE_BYTES};
use crate::error::{BrowserError, Result};

const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest description of a browser.
const MAX_DESCRIPTION_BYTES: u64 = 64 * 1024;

#[derive(Deserialize)]
struct Description {
    #[serde(rename = "webSocketDebuggerUrl")]
    socket: String,
}

/// Connects to a browser that already runs.
pub(crate) async fn connect(endpoint: &str) -> Result<Channel> {
    let fail = |reason: String| BrowserError::Endpoint {
        endpoint: shown_endpoint(endpoint),
        reason: crate::shown_text::shown(&reason, 200),
    };
    match timeout(TIMEOUT, open(endpoint)).await {
        Ok(opened) => opened.map_err(fail),
        Err(_) => Err(fail("it did not answer within 10 s".to_owned())),
    }
}

/// The endpoint without its path, which is a secret of the browser.
fn shown_endpoint(endpoint: &str) -> String {
    match Url::parse(endpoint) {
        Ok(url) if url.has_host() => crate::shown_text::shown(
            &format!(
                "{}://{}:{}",
                url.scheme(),
                url.host_str().unwrap_or_default(),
                url.port_or_known_default().unwrap_or(0)
            ),
            200,
        ),
        Ok(_) | Err(_) => crate::shown_text::shown(endpoint, 100),
    }
}

async fn open(endpoint: &str) -> std::result::Result<Channel, String> {
    let url = Url::parse(endpoint)
        .map_err(|_| "it is not a URL such as http://127.0.0.1:9222".to_owned())?;
    let socket = match url.scheme() {
        "ws" => url,
        "http" => {
            let description = fetch_description(&url).await?;
            let mut socket = Url::parse(&description.socket).map_err(|it| it.to_string())?;
            // The browser names itself as it was called; only the path counts.
            socket.set_host(url.host_str()).map_err(|it| it.to_string())?;
            let _has_host = socket.set_port(url.port());
            socket
        }
        other => return Err(format!("`{other}:` is not supported; use http: or ws:")),
    };
    let stream = connect_to(&socket).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let (socket, _) = client_async_with_config(socket.as_str(), stream, Some(config))
        .await
        .map_err(|it| it.to_string())?;
    Ok(Channel::Socket(Box::new(socket)))
}

async fn connect_to(url: &Url) -> std::result::Result<TcpStream, String> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((host, port)).await.map_err(|it| it.to_string())?;
    let _delays_only = stream.set_nodelay(true);
    Ok(stream)
}

/// Asks a debugging port for the browser's WebSocket.
async fn fetch_description(url: &Url) -> std::result::Result<Description, String> {
    let mut stream = connect_to(url).await?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let request = format!(
        "GET /json/version HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(|it| it.to_string())?;
    let mut answer = Vec::new();
    let mut limited = stream.take(MAX_DESCRIPTION_BYTES);
    // The port keeps the connection open; the end of the object is enough.
    while limited.read_buf(&mut answer).await.map_err(|it| it.to_string())? > 0 {
        if let Some(found) = parse_description(&answer) {
            return Ok(found);
        }
    }
    parse_description(&answer)
        .ok_or_else(|| "its answer names no WebSocket of a browser".to_owned())
}

fn parse_description(answer: &[u8]) -> Option<Description> {
    let text = std::str::from_utf8(answer).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    serde_json::Deserializer::from_str(body).into_iter().next()?.ok()
}
