//! A minimal browser for tests: fetches pages, follows redirects on request, and stores no cookies.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// A fetched page.
pub struct Page {
    pub status: u16,
    pub location: Option<String>,
    pub text: String,
}

/// Fetches a local page. Fails if no server listens.
pub async fn get(url: &str) -> std::io::Result<Page> {
    let url = Url::parse(url).expect("a URL");
    let host = url.host_str().expect("a host");
    let port = url.port_or_known_default().expect("a port");
    let mut stream = TcpStream::connect((host, port)).await?;
    let query = url.query().map(|it| format!("?{it}")).unwrap_or_default();
    let request = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n",
        url.path()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let location = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    Ok(Page { status, location, text })
}

/// The URL that a login page redirects to.
pub async fn redirect_target(url: &str) -> String {
    let page = get(url).await.expect("the page is there");
    page.location.unwrap_or_else(|| panic!("it redirects: {}", page.text))
}

/// Opens a login page and follows its redirect to the host's listener.
pub async fn open(url: &str) -> Page {
    get(&redirect_target(url).await).await.expect("the listener responds")
}
