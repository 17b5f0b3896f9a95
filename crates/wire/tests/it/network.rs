//! The way to servers: proxies, certificates, and what is printed of secrets.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;

use axum::serve::Listener;
use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use switchboard_wire::fault::{Fault, Unreachable};
use switchboard_wire::link::{Arrival, Link};
use switchboard_wire::network::{Network, Proxies, Roots, Settings, SetupError, Target};
use switchboard_wire::streamable::HttpLink;
use switchboard_wire::websocket::WsLink;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use url::Url;

use crate::stage::{
    Seen, Stage, as_json, fault, next, raw, reply, request, result, settings, status, stranger,
};

async fn echo(seen: Seen) -> axum::response::Response {
    as_json(&result(&seen, json!("here")))
}

/// Where a question with these settings ends up.
async fn asked(settings: &Settings, url: &str) -> Result<Value, Fault> {
    let network = Network::new(settings).expect("the settings are good");
    let mut link = HttpLink::new(network, Target::new(Url::parse(url).expect("a URL")));
    link.push(request(1, "ping"));
    match next(&mut link).await {
        Ok(Arrival::Message(message)) => {
            let mut text = Vec::new();
            message.write_to(&mut text);
            let answer: Value = serde_json::from_slice(&text).expect("JSON");
            Ok(answer["result"].clone())
        }
        Ok(Arrival::Lost { fault, .. }) => Err(fault),
        other => panic!("an answer or its loss was expected: {other:?}"),
    }
}

fn why(outcome: Result<Value, Fault>) -> (Unreachable, String) {
    match outcome {
        Err(Fault::Unreachable { why, detail }) => (why, detail),
        other => panic!("it cannot be reached: {other:?}"),
    }
}

#[tokio::test]
async fn a_proxy_is_used_for_its_scheme_and_for_what_has_none() {
    for choose in [
        |url: String| Proxies { http: Some(url), ..Proxies::default() },
        |url: String| Proxies {
            all: Some(url),
            https: Some("http://x.invalid".to_owned()),
            ..Proxies::default()
        },
    ] {
        let mut proxy = Stage::start(echo).await;
        let url = format!("http://me:pass@{}", proxy.address);
        let settings = Settings { proxies: choose(url), ..settings() };
        assert_eq!(asked(&settings, "http://server.invalid/mcp").await, Ok(json!("here")));
        let seen = proxy.next().await;
        assert_eq!(seen.uri, "http://server.invalid/mcp");
        assert_eq!(seen.header("proxy-authorization"), "Basic bWU6cGFzcw==");
    }
}

#[tokio::test]
async fn hosts_that_need_no_proxy_are_reached_without() {
    let mut proxy = Stage::start(|_| async { reply(500, "", "") }).await;
    let server = Stage::start(echo).await;
    let proxies = Proxies {
        all: Some(format!("http://{}", proxy.address)),
        no: Some("localhost, 127.0.0.1,.example.com".to_owned()),
        ..Proxies::default()
    };
    let settings = Settings { proxies, ..settings() };
    assert_eq!(asked(&settings, server.url("/mcp").as_str()).await, Ok(json!("here")));
    assert!(proxy.seen.try_recv().is_err());
}

#[tokio::test]
async fn a_proxy_that_lets_nobody_through_is_blamed() {
    let through = |address: std::net::SocketAddr| {
        let all = Some(format!("http://me:secret@{address}"));
        Settings { proxies: Proxies { all, ..Proxies::default() }, ..settings() }
    };
    let refusing = raw(&["HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"]).await;
    let (reason, detail) = why(asked(&through(refusing), "https://server.invalid/").await);
    assert_eq!(reason, Unreachable::Proxy, "{detail}");
    let wants_password = Stage::start(|_| async { reply(407, "", "") }).await;
    let (reason, _) = why(asked(&through(wants_password.address), "http://server.invalid/").await);
    assert_eq!(reason, Unreachable::Proxy);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = listener.local_addr().expect("an address");
    drop(listener);
    let (reason, detail) = why(asked(&through(nobody), "https://server.invalid/").await);
    assert_eq!(reason, Unreachable::Proxy);
    assert!(!detail.contains("secret"), "{detail}");
    let all = Some(format!("socks5h://{nobody}"));
    let socks = Settings { proxies: Proxies { all, ..Proxies::default() }, ..settings() };
    assert_eq!(why(asked(&socks, "https://server.invalid/").await).0, Unreachable::Proxy);
}

/// Certificates of a private authority.
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

    /// A server with a certificate of this authority, and a demand for one where clients need it.
    async fn serve(&self, demand: Demand) -> Stage {
        let (certificate, key) = self.issue("localhost");
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let builder = match demand {
            Demand::Nothing => ServerConfig::builder().with_no_client_auth(),
            Demand::Certificate => {
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
        Stage::over(Secured { tcp, acceptor }, address, echo)
    }
}

enum Demand {
    Nothing,
    Certificate,
}

struct Secured {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
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

fn secure_url(stage: &Stage) -> String {
    format!("https://localhost:{}/mcp", stage.address.port())
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_we_are_told_to() {
    let authority = Authority::new();
    let stage = authority.serve(Demand::Nothing).await;
    let (reason, detail) = why(asked(&settings(), &secure_url(&stage)).await);
    assert_eq!(reason, Unreachable::Tls, "{detail}");
    let settings = Settings { extra_ca: vec![authority.pem()], ..settings() };
    assert_eq!(asked(&settings, &secure_url(&stage)).await, Ok(json!("here")));
    let by_address = format!("https://{}/mcp", stage.address);
    let (reason, detail) = why(asked(&settings, &by_address).await);
    assert_eq!(reason, Unreachable::Tls, "the certificate has another name: {detail}");
}

#[tokio::test]
async fn a_websocket_takes_the_same_way() {
    let authority = Authority::new();
    let stage = authority.serve(Demand::Nothing).await;
    let url = Url::parse(&secure_url(&stage).replace("https", "wss")).expect("a URL");
    let end = async |settings: &Settings| {
        let network = Network::new(settings).expect("the settings are good");
        let mut link = WsLink::new(network, Target::new(url.clone()));
        next(&mut link).await.expect_err("nobody shakes hands")
    };
    let untrusted = end(&settings()).await;
    let trusted = end(&Settings { extra_ca: vec![authority.pem()], ..settings() }).await;
    assert!(
        matches!(fault(&untrusted), Fault::Unreachable { why: Unreachable::Tls, .. }),
        "{untrusted:?}"
    );
    assert_eq!(stranger(fault(&trusted)), "application/json");
    let proxy = Stage::start(|_| async { reply(418, "", "") }).await;
    let all = Some(format!("http://{}", proxy.address));
    let proxies = Proxies { all, ..Proxies::default() };
    let network = Network::new(&Settings { proxies, ..settings() }).expect("good");
    let url = Url::parse("ws://server.invalid/").expect("a URL");
    let end = next(&mut WsLink::new(network, Target::new(url))).await.expect_err("refused");
    assert_eq!(status(fault(&end)).status, 418);
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_demanded() {
    let authority = Authority::new();
    let stage = authority.serve(Demand::Certificate).await;
    let without = Settings { extra_ca: vec![authority.pem()], ..settings() };
    let (reason, detail) = why(asked(&without, &secure_url(&stage)).await);
    assert_eq!(reason, Unreachable::Tls, "{detail}");
    let (certificate, key) = authority.issue("client");
    let identity = Some(format!("{}{}", certificate.pem(), key.serialize_pem()).into_bytes());
    let with = Settings { identity, ..without };
    assert_eq!(asked(&with, &secure_url(&stage)).await, Ok(json!("here")));
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_no_secure_one() {
    let stage = Stage::start(echo).await;
    let (reason, detail) = why(asked(&settings(), &secure_url(&stage)).await);
    assert_eq!(reason, Unreachable::Tls, "{detail}");
}

/// Tells the process that runs a test again in other surroundings from the one that starts it.
const AGAIN: &str = "SWB_TEST_RUNS_AGAIN";

/// Runs a test of this file again with these variables.
fn run_again(test: &str, variables: &[(&str, &OsStr)]) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("network::{test}")])
        .env(AGAIN, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn is_second_run() -> bool {
    std::env::var_os(AGAIN).is_some()
}

#[test]
fn a_system_without_authorities_gets_ours() {
    if !is_second_run() {
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let variables = [
            ("SSL_CERT_FILE", empty.path().as_os_str()),
            ("SSL_CERT_DIR", folder.path().as_os_str()),
        ];
        return run_again("a_system_without_authorities_gets_ours", &variables);
    }
    let with_extra = Settings { extra_ca: vec![Authority::new().pem()], ..settings() };
    let roots = |settings| Network::new(settings).expect("the settings are good").roots();
    assert_eq!((roots(&settings()), roots(&with_extra)), (Roots::Bundled, Roots::Bundled));
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    if !is_second_run() {
        // Nobody can listen there.
        let nobody = OsStr::new("http://127.0.0.1:0");
        let variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let variables = variables.map(|name| (name, nobody));
        return run_again("proxies_of_the_environment_are_not_used", &variables);
    }
    let stage = Stage::start(echo).await;
    assert_eq!(asked(&settings(), stage.url("/mcp").as_str()).await, Ok(json!("here")));
}

#[test]
fn settings_that_cannot_be_used_are_named_without_their_secrets() {
    let error = |settings: Settings| Network::new(&settings).expect_err("bad settings");
    let all = Some("http://me:secret@[".to_owned());
    let proxies = Proxies { all, ..Proxies::default() };
    let proxy = error(Settings { proxies, ..settings() });
    assert!(matches!(proxy, SetupError::Proxy { scheme: "all" }));
    assert!(!format!("{proxy} {proxy:?}").contains("secret"));
    let extra = error(Settings { extra_ca: vec![b"nothing".to_vec()], ..settings() });
    assert_eq!(extra.to_string(), "extra certificate file 1 holds no certificates in PEM");
    let identity = error(Settings { identity: Some(b"secret".to_vec()), ..settings() });
    assert!(matches!(identity, SetupError::Identity(_)));
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
    let proxies = Proxies { http, ..Proxies::default() };
    let settings = Settings { proxies, identity: Some(b"secret".to_vec()), ..settings() };
    let network = Network::new(&Settings { identity: None, ..settings.clone() }).expect("good");
    let link = HttpLink::new(network.clone(), target);
    for text in [printed, format!("{settings:?}"), format!("{network:?}"), format!("{link:?}")] {
        assert!(!text.contains("secret") && !text.contains("115, 101"), "{text}");
    }
}
