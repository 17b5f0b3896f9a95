//! A browser for tests: fetches pages by hand, follows redirects where it is told to, and keeps nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// What a page came with.
pub struct Page {
    pub status: u16,
    pub location: Option<String>,
    pub text: String,
}

/// Fetches one page of this machine. Nobody there is an error.
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

/// Where somebody who opens a page is sent back to.
pub async fn sent_back(url: &str) -> String {
    let page = get(url).await.expect("the page is there");
    page.location.unwrap_or_else(|| panic!("it leads on: {}", page.text))
}

/// Opens a page and follows it back to us.
pub async fn open(url: &str) -> Page {
    get(&sent_back(url).await).await.expect("somebody listens")
}
