//! The HTTP client: proxies, certificates, and Debug output without secrets.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;

use axum::serve::Listener;
use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use switchboard_wire::http::client::{
    HttpClient, HttpSettings, HttpSetupError, ProxySettings, Target, TrustRoots,
};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::websocket::WebSocketTransport;
use switchboard_wire::transport::{Transport, TransportEvent};
use switchboard_wire::transport_error::{TlsProblem, TransportError, UnreachableReason};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use url::Url;

use crate::test_server::{
    ReceivedRequest, TestServer, error_response, json_response, next, not_mcp_content_type,
    raw_server, reply, request, result, settings, transport_error,
};

async fn echo(received: ReceivedRequest) -> axum::response::Response {
    json_response(&result(&received, json!("here")))
}

/// The outcome of a request with these settings.
async fn ping(settings: &HttpSettings, url: &str) -> Result<Value, TransportError> {
    let http_client = HttpClient::new(settings).expect("the settings are good");
    let mut transport =
        StreamableHttpTransport::new(http_client, Target::new(Url::parse(url).expect("a URL")));
    transport.push(request(1, "ping"));
    match next(&mut transport).await {
        Ok(TransportEvent::Message(message)) => {
            let mut text = Vec::new();
            message.write_to(&mut text);
            let answer: Value = serde_json::from_slice(&text).expect("JSON");
            Ok(answer["result"].clone())
        }
        Ok(TransportEvent::DeliveryFailed { error: fault, .. }) => Err(fault),
        other => panic!("an answer or its loss was expected: {other:?}"),
    }
}

fn unreachable_reason(outcome: Result<Value, TransportError>) -> (UnreachableReason, String) {
    match outcome {
        Err(TransportError::Unreachable { reason: why, detail }) => (why, detail),
        other => panic!("it cannot be reached: {other:?}"),
    }
}

#[tokio::test]
async fn a_proxy_is_used_for_its_scheme_and_for_what_has_none() {
    for choose in [
        |url: String| ProxySettings { http: Some(url), ..ProxySettings::default() },
        |url: String| ProxySettings {
            all: Some(url),
            https: Some("http://x.invalid".to_owned()),
            ..ProxySettings::default()
        },
    ] {
        let mut proxy = TestServer::start(echo).await;
        let url = format!("http://me:pass@{}", proxy.address);
        let settings = HttpSettings { proxies: choose(url), ..settings() };
        assert_eq!(ping(&settings, "http://server.invalid/mcp").await, Ok(json!("here")));
        let received = proxy.next().await;
        assert_eq!(received.uri, "http://server.invalid/mcp");
        assert_eq!(received.header("proxy-authorization"), "Basic bWU6cGFzcw==");
    }
}

#[tokio::test]
async fn hosts_that_need_no_proxy_are_reached_without() {
    let mut proxy = TestServer::start(|_| async { reply(500, "", "") }).await;
    let server = TestServer::start(echo).await;
    let proxies = ProxySettings {
        all: Some(format!("http://{}", proxy.address)),
        no_proxy: Some("localhost, 127.0.0.1,.example.com".to_owned()),
        ..ProxySettings::default()
    };
    let settings = HttpSettings { proxies, ..settings() };
    assert_eq!(ping(&settings, server.url("/mcp").as_str()).await, Ok(json!("here")));
    assert!(proxy.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_failing_proxy_is_the_reported_reason() {
    let through = |address: std::net::SocketAddr| {
        let all = Some(format!("http://me:secret@{address}"));
        HttpSettings { proxies: ProxySettings { all, ..ProxySettings::default() }, ..settings() }
    };
    let refusing = raw_server(&["HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"]).await;
    let (reason, detail) =
        unreachable_reason(ping(&through(refusing), "https://server.invalid/").await);
    assert_eq!(reason, UnreachableReason::Proxy, "{detail}");
    let wants_password = TestServer::start(|_| async { reply(407, "", "") }).await;
    let (reason, _) =
        unreachable_reason(ping(&through(wants_password.address), "http://server.invalid/").await);
    assert_eq!(reason, UnreachableReason::Proxy);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed_port = listener.local_addr().expect("an address");
    drop(listener);
    let (reason, detail) =
        unreachable_reason(ping(&through(closed_port), "https://server.invalid/").await);
    assert_eq!(reason, UnreachableReason::Proxy);
    assert!(!detail.contains("secret"), "{detail}");
    let all = Some(format!("socks5h://{closed_port}"));
    let socks =
        HttpSettings { proxies: ProxySettings { all, ..ProxySettings::default() }, ..settings() };
    assert_eq!(
        unreachable_reason(ping(&socks, "https://server.invalid/").await).0,
        UnreachableReason::Proxy
    );
}

/// A private certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        Authority { issuer }
    }

    fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    /// A server with a certificate of this authority, which may require client certificates.
    async fn serve(&self, client_auth: ClientAuth) -> TestServer {
        let (certificate, key) = self.issue("localhost");
        self.serve_with(&certificate, &key, client_auth).await
    }

    async fn serve_with(
        &self,
        certificate: &rcgen::Certificate,
        key: &KeyPair,
        client_auth: ClientAuth,
    ) -> TestServer {
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let builder = match client_auth {
            ClientAuth::None => ServerConfig::builder().with_no_client_auth(),
            ClientAuth::Certificate => {
                let mut roots = RootCertStore::empty();
                roots.add(self.issuer.der().clone()).expect("an authority");
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
                ServerConfig::builder().with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let config = builder.with_single_cert(chain, key).expect("a certificate and its key");
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        TestServer::with_listener(TlsListener { tcp, acceptor }, address, echo)
    }
}

enum ClientAuth {
    None,
    Certificate,
}

struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (socket, address) = self.tcp.accept().await.expect("a connection");
            if let Ok(stream) = self.acceptor.accept(socket).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

fn secure_url(server: &TestServer) -> String {
    format!("https://localhost:{}/mcp", server.address.port())
}

#[tokio::test]
async fn an_extra_certificate_authority_is_trusted() {
    let authority = Authority::new();
    let server = authority.serve(ClientAuth::None).await;
    let (reason, detail) = unreachable_reason(ping(&settings(), &secure_url(&server)).await);
    let untrusted = UnreachableReason::Tls(TlsProblem::UntrustedCertificate);
    assert_eq!(reason, untrusted, "{detail}");
    let settings = HttpSettings { extra_ca: vec![authority.pem()], ..settings() };
    assert_eq!(ping(&settings, &secure_url(&server)).await, Ok(json!("here")));
    let by_address = format!("https://{}/mcp", server.address);
    let (reason, detail) = unreachable_reason(ping(&settings, &by_address).await);
    assert_eq!(reason, UnreachableReason::Tls(TlsProblem::WrongHost), "{detail}");
}

#[tokio::test]
async fn a_websocket_uses_the_same_proxy_and_certificates() {
    let authority = Authority::new();
    let server = authority.serve(ClientAuth::None).await;
    let url = Url::parse(&secure_url(&server).replace("https", "wss")).expect("a URL");
    let end = async |settings: &HttpSettings| {
        let http_client = HttpClient::new(settings).expect("the settings are good");
        let mut transport = WebSocketTransport::new(http_client, Target::new(url.clone()));
        next(&mut transport).await.expect_err("the handshake fails")
    };
    let untrusted = end(&settings()).await;
    let trusted = end(&HttpSettings { extra_ca: vec![authority.pem()], ..settings() }).await;
    assert!(
        matches!(
            transport_error(&untrusted),
            TransportError::Unreachable {
                reason: UnreachableReason::Tls(TlsProblem::UntrustedCertificate),
                ..
            }
        ),
        "{untrusted:?}"
    );
    assert_eq!(not_mcp_content_type(transport_error(&trusted)), "application/json");
    let proxy = TestServer::start(|_| async { reply(418, "", "") }).await;
    let all = Some(format!("http://{}", proxy.address));
    let proxies = ProxySettings { all, ..ProxySettings::default() };
    let http_client = HttpClient::new(&HttpSettings { proxies, ..settings() }).expect("good");
    let url = Url::parse("ws://server.invalid/").expect("a URL");
    let end = next(&mut WebSocketTransport::new(http_client, Target::new(url)))
        .await
        .expect_err("refused");
    assert_eq!(error_response(transport_error(&end)).status, 418);
}

#[tokio::test]
async fn a_client_certificate_is_sent_when_required() {
    let authority = Authority::new();
    let server = authority.serve(ClientAuth::Certificate).await;
    let without = HttpSettings { extra_ca: vec![authority.pem()], ..settings() };
    let (reason, detail) = unreachable_reason(ping(&without, &secure_url(&server)).await);
    assert_eq!(reason, UnreachableReason::Tls(TlsProblem::Other), "{detail}");
    let (certificate, key) = authority.issue("client");
    let identity = Some(format!("{}{}", certificate.pem(), key.serialize_pem()).into_bytes());
    let with = HttpSettings { identity, ..without };
    assert_eq!(ping(&with, &secure_url(&server)).await, Ok(json!("here")));
}

#[tokio::test]
async fn plain_http_on_an_https_port_is_recognised() {
    let server = TestServer::start(echo).await;
    let (reason, detail) = unreachable_reason(ping(&settings(), &secure_url(&server)).await);
    assert_eq!(reason, UnreachableReason::Tls(TlsProblem::NotTls), "{detail}");
}

#[tokio::test]
async fn each_certificate_problem_has_its_kind() {
    let authority = Authority::new();
    let trusting = HttpSettings { extra_ca: vec![authority.pem()], ..settings() };
    let valid = || CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let (mut expired, mut future, mut ca) = (valid(), valid(), valid());
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    future.not_before = rcgen::date_time_ymd(2100, 1, 1);
    future.not_after = rcgen::date_time_ymd(2101, 1, 1);
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issue = |params: CertificateParams| {
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &authority.issuer).expect("a certificate"), key)
    };
    let self_signed = |params: CertificateParams| {
        let key = KeyPair::generate().expect("a key");
        (params.self_signed(&key).expect("a certificate"), key)
    };
    let cases = [
        (issue(expired), TlsProblem::ExpiredCertificate),
        (issue(future), TlsProblem::CertificateNotYetValid),
        (self_signed(valid()), TlsProblem::UntrustedCertificate),
        (self_signed(ca), TlsProblem::UntrustedCertificate),
    ];
    for ((certificate, key), problem) in cases {
        let server = authority.serve_with(&certificate, &key, ClientAuth::None).await;
        let (reason, detail) = unreachable_reason(ping(&trusting, &secure_url(&server)).await);
        assert_eq!(reason, UnreachableReason::Tls(problem), "{detail}");
    }
}

/// Set in the process that runs a test again in another environment.
const SECOND_RUN: &str = "SWB_TEST_RUNS_AGAIN";

/// Runs a test of this file again with these variables.
fn run_in_subprocess(test: &str, variables: &[(&str, &OsStr)]) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("http_client::{test}")])
        .env(SECOND_RUN, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output_text.contains("1 passed"), "{output_text}");
}

fn is_second_run() -> bool {
    std::env::var_os(SECOND_RUN).is_some()
}

#[test]
fn a_system_without_authorities_gets_the_bundled_ones() {
    if !is_second_run() {
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let variables = [
            ("SSL_CERT_FILE", empty.path().as_os_str()),
            ("SSL_CERT_DIR", folder.path().as_os_str()),
        ];
        return run_in_subprocess("a_system_without_authorities_gets_the_bundled_ones", &variables);
    }
    let with_extra = HttpSettings { extra_ca: vec![Authority::new().pem()], ..settings() };
    let roots = |settings| HttpClient::new(settings).expect("the settings are good").roots();
    assert_eq!(
        (roots(&settings()), roots(&with_extra)),
        (TrustRoots::Bundled, TrustRoots::Bundled)
    );
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    if !is_second_run() {
        // A port on which nothing can listen.
        let closed_port = OsStr::new("http://127.0.0.1:0");
        let variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let variables = variables.map(|name| (name, closed_port));
        return run_in_subprocess("proxies_of_the_environment_are_not_used", &variables);
    }
    let server = TestServer::start(echo).await;
    assert_eq!(ping(&settings(), server.url("/mcp").as_str()).await, Ok(json!("here")));
}

#[test]
fn invalid_settings_are_reported_without_their_secrets() {
    let error = |settings: HttpSettings| HttpClient::new(&settings).expect_err("bad settings");
    let all = Some("http://me:secret@[".to_owned());
    let proxies = ProxySettings { all, ..ProxySettings::default() };
    let proxy = error(HttpSettings { proxies, ..settings() });
    assert!(matches!(proxy, HttpSetupError::Proxy { scheme: "all" }));
    assert!(!format!("{proxy} {proxy:?}").contains("secret"));
    let extra = error(HttpSettings { extra_ca: vec![b"nothing".to_vec()], ..settings() });
    assert_eq!(extra.to_string(), "extra certificate file 1 contains no PEM certificates");
    let identity = error(HttpSettings { identity: Some(b"secret".to_vec()), ..settings() });
    assert!(matches!(identity, HttpSetupError::Identity(_)));
    assert!(!format!("{identity} {identity:?}").contains("secret"));
}

#[test]
fn secrets_are_not_printed() {
    let mut headers = HeaderMap::new();
    headers.insert("x-key", "secret".parse().expect("a value"));
    let url = Url::parse("https://me:secret@a.example/mcp?key=secret").expect("a URL");
    let target = Target::new(url).headers(headers);
    let printed = format!("{target:?}");
    assert!(printed.contains("https://a.example/mcp") && printed.contains("x-key"), "{printed}");
    let http = Some("http://me:secret@proxy".to_owned());
    let proxies = ProxySettings { http, ..ProxySettings::default() };
    let settings = HttpSettings { proxies, identity: Some(b"secret".to_vec()), ..settings() };
    let http_client =
        HttpClient::new(&HttpSettings { identity: None, ..settings.clone() }).expect("good");
    let transport = StreamableHttpTransport::new(http_client.clone(), target);
    for text in
        [printed, format!("{settings:?}"), format!("{http_client:?}"), format!("{transport:?}")]
    {
        assert!(!text.contains("secret") && !text.contains("115, 101"), "{text}");
    }
}
