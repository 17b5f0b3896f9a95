//! The loopback listener for the redirect.

use std::net::SocketAddr;

use switchboard_auth::browser::loopback_listener::{
    CallbackPort, ListenError, LoopbackHost, LoopbackListener, ResultPage,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::refresh::TIMEOUT;

async fn send_raw(address: SocketAddr, text: String) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("it hears");
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.expect("in time").expect("text");
    answer
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

async fn start() -> (LoopbackListener, u16) {
    let listener = LoopbackListener::bind(CallbackPort::Any).await.expect("a port");
    let port = listener.redirect_uri(LoopbackHost::Ipv4).port().expect("a port");
    (listener, port)
}

fn ipv4(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[tokio::test]
async fn a_browser_callback_gets_the_result_page() {
    let (mut listener, port) = start().await;
    let path = "/callback?code=c&state=s";
    let browser = tokio::spawn(send_raw(ipv4(port), get(path, &format!("127.0.0.1:{port}"))));
    let visit =
        timeout(TIMEOUT, listener.next_callback()).await.expect("in time").expect("a visit");
    assert_eq!(visit.query(), "code=c&state=s");
    visit.respond(ResultPage::SignedIn { server: "git<hub>".to_owned() });
    listener.close().await;
    let page = browser.await.expect("a page");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("git&lt;hub&gt;"), "{page}");
    assert!(TcpStream::connect(ipv4(port)).await.is_err(), "it is closed");
}

#[tokio::test]
async fn the_other_side_of_localhost_works_too() {
    let (mut listener, port) = start().await;
    let six = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
    if TcpStream::connect(six).await.is_err() {
        // Without IPv6 there must be IPv4.
        assert!(TcpStream::connect(ipv4(port)).await.is_ok());
        return;
    }
    let browser = tokio::spawn(send_raw(six, get("/callback?a=b", &format!("[::1]:{port}"))));
    let visit =
        timeout(TIMEOUT, listener.next_callback()).await.expect("in time").expect("a visit");
    assert_eq!(visit.query(), "a=b");
    drop(visit);
    assert!(browser.await.expect("a page").contains("Go back to the terminal"));
    assert_eq!(listener.redirect_uri(LoopbackHost::Localhost).host_str(), Some("localhost"));
}

#[tokio::test]
async fn other_requests_are_refused() {
    let (mut listener, port) = start().await;
    let here = format!("127.0.0.1:{port}");
    for (request, status) in [
        (get("/callback?code=c", "evil.example"), 403),
        (get("/callback?code=c", &format!("evil.example:{port}")), 403),
        (get("/callback?code=c", "127.0.0.1"), 403),
        (get("/callback?code=c", &format!("127.0.0.1.evil.example:{port}")), 403),
        ("GET /callback HTTP/1.1\r\n\r\n".to_owned(), 403),
        (format!("GET /callback HTTP/1.1\r\nHost: {here}\r\nHost: evil\r\n\r\n"), 403),
        (get("/", &here), 404),
        (get("/callback/", &here), 404),
        (get("/Callback?code=c", &here), 404),
        (get("/favicon.ico", &here), 404),
        (
            format!("POST /callback?code=c HTTP/1.1\r\nHost: {here}\r\nContent-Length: 0\r\n\r\n"),
            404,
        ),
        ("rubbish\r\n\r\n".to_owned(), 400),
    ] {
        let answer = send_raw(ipv4(port), request.clone()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request} {answer}");
    }
    // None of these was a callback: the next one is the first.
    let browser = tokio::spawn(send_raw(ipv4(port), get("/callback?first", &here)));
    let visit =
        timeout(TIMEOUT, listener.next_callback()).await.expect("in time").expect("a visit");
    assert_eq!(visit.query(), "first");
    visit.respond(ResultPage::Unknown);
    browser.await.expect("a page");
}

#[tokio::test]
async fn a_browser_is_served_while_many_idle_connections_are_open() {
    let (mut listener, port) = start().await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(ipv4(port)).await.expect("it listens");
        // Also one that has begun to send a request.
        stream.write_all(b"GET /callback?").await.expect("it hears");
        idle.push(stream);
    }
    let here = format!("127.0.0.1:{port}");
    let browser = tokio::spawn(send_raw(ipv4(port), get("/callback?code=c", &here)));
    // Less than an idle connection may take for its headers.
    let visit = timeout(std::time::Duration::from_secs(5), listener.next_callback());
    let visit = visit.await.expect("in time").expect("a visit");
    assert_eq!(visit.query(), "code=c");
    visit.respond(ResultPage::Unknown);
    assert!(browser.await.expect("a page").starts_with("HTTP/1.1 200"));
    drop(idle);
}

#[tokio::test]
async fn a_fixed_port_that_is_taken_is_an_error_that_names_it() {
    let (_listener, port) = start().await;
    let ListenError { port: named, .. } =
        LoopbackListener::bind(CallbackPort::Fixed(port)).await.expect_err("it is taken");
    assert_eq!(named, port);
}
