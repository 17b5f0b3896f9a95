//! The gateway over TLS: protocol versions, client certificates as principals, and files that change while it runs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use reqwest::{Client, ClientBuilder, Version};
use serde_json::{Value as Json, json};
use switchboard::audit::log;
use switchboard::sources::Paths;
use switchboard_gateway::{
    ClientCertificates, Limits, TlsErrorKind, TlsFiles, TlsReload, TlsServer,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix, TEST_TIMEOUT, token};
use crate::raw_http::MODERN;

/// A private certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority") }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate and its key, in PEM.
    fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn server(&self) -> (String, String) {
        self.issue(&CertificateParams::new(vec!["localhost".to_owned()]).expect("a name"))
    }
}

fn client_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::DnsName(name.try_into().expect("ASCII"))];
    params
}

fn expired(mut params: CertificateParams) -> CertificateParams {
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    params
}

/// The files of a TLS configuration in a temporary folder.
struct Files {
    folder: TempDir,
    servers: Authority,
    clients: Authority,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().expect("a temp folder");
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let files = Files { folder, servers, clients };
        files.write_pair(files.servers.server());
        files.write("clients.pem", &files.clients.pem());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it can be written");
    }

    fn write_pair(&self, (certificate, key): (String, String)) {
        self.write("cert.pem", &certificate);
        self.write("key.pem", &key);
    }

    fn open(&self, clients: Option<ClientCertificates>) -> Arc<TlsServer> {
        Arc::new(TlsServer::open(self.files(clients)).expect("the files are valid"))
    }

    fn files(&self, clients: Option<ClientCertificates>) -> TlsFiles {
        TlsFiles {
            certificate: self.path("cert.pem"),
            key: self.path("key.pem"),
            client_authorities: clients.map(|it| (self.path("clients.pem"), it)),
        }
    }

    /// A client that trusts the authority of the servers.
    fn client(&self) -> ClientBuilder {
        let root = reqwest::Certificate::from_pem(self.servers.pem().as_bytes());
        Client::builder().no_proxy().tls_certs_only([root.expect("a certificate")])
    }

    /// A client with a certificate of this authority.
    fn client_with(&self, authority: &Authority, params: &CertificateParams) -> Client {
        let (certificate, key) = authority.issue(params);
        let identity = reqwest::Identity::from_pem(format!("{certificate}{key}").as_bytes());
        built(self.client().identity(identity.expect("an identity")))
    }
}

fn built(builder: ClientBuilder) -> Client {
    builder.timeout(TEST_TIMEOUT).build().expect("a client")
}

struct Gateway {
    fixture: GatewayFixture,
    _servers: ServerMatrix,
}

impl Gateway {
    async fn start(tls: &Arc<TlsServer>, clients: usize) -> Gateway {
        Gateway::start_with(FixtureOptions {
            tls: Some(tls.clone()),
            clients,
            ..FixtureOptions::default()
        })
        .await
    }

    async fn start_with(options: FixtureOptions) -> Gateway {
        let servers = ServerMatrix::start();
        let fixture = servers.gateway(&["mh"], options).await;
        Gateway { fixture, _servers: servers }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.fixture.address.port())
    }

    /// Calls a tool, and returns the version of HTTP, the status and the body of the response.
    async fn call(&self, client: &Client, token: Option<&str>) -> (Version, u16, Json) {
        let mut request = client
            .post(self.url("/mcp"))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "mcp__mh__echo")
            .header("content-type", "application/json")
            .body(call_message().to_string());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.expect("a response");
        let (version, status) = (response.version(), response.status().as_u16());
        let text = response.text().await.expect("a body");
        (version, status, serde_json::from_str(&text).unwrap_or_default())
    }
}

fn call_message() -> Json {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "mcp__mh__echo", "arguments": {"text": "hi"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
}

#[tokio::test]
async fn http_1_and_http_2_are_served_over_both_tls_versions() {
    let files = Files::new();
    let gateway = Gateway::start(&files.open(None), 1).await;
    let token = token(0);
    for tls in [reqwest::tls::Version::TLS_1_2, reqwest::tls::Version::TLS_1_3] {
        let builder = || files.client().tls_version_min(tls).tls_version_max(tls);
        let (version, status, body) = gateway.call(&built(builder()), Some(&token)).await;
        assert_eq!((version, status), (Version::HTTP_2, 200), "{tls:?}: {body}");
        assert!(body["result"]["content"].is_array(), "{body}");
        let (version, status, _) = gateway.call(&built(builder().http1_only()), Some(&token)).await;
        assert_eq!((version, status), (Version::HTTP_11, 200), "{tls:?}");
    }
    let (_, status, _) = gateway.call(&built(files.client()), None).await;
    assert_eq!(status, 401);
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn many_requests_share_one_http_2_connection() {
    let files = Files::new();
    let gateway = Gateway::start(&files.open(None), 1).await;
    let (client, token) = (built(files.client()), token(0));
    // Only after its first response does a client know that the connection can be shared.
    assert_eq!(gateway.call(&client, Some(&token)).await.1, 200);
    let calls = (0..50).map(|_| gateway.call(&client, Some(&token)));
    let statuses: Vec<u16> =
        futures_util::future::join_all(calls).await.into_iter().map(|it| it.1).collect();
    assert_eq!(statuses, [200; 50]);
    let page = client.get(gateway.url("/metrics")).bearer_auth(&token).send().await;
    let page = page.expect("a response").text().await.expect("a page");
    assert!(page.contains("\nswitchboard_connections 1\n"), "{page}");
    drop(client);
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn the_name_in_a_client_certificate_is_the_principal() {
    let files = Files::new();
    let tls = files.open(Some(ClientCertificates::Required));
    let gateway = Gateway::start(&tls, 0).await;
    let ci = files.client_with(&files.clients, &client_params("ci.example.org"));
    assert_eq!(gateway.call(&ci, None).await.1, 200);
    // A token has no meaning here, and does not replace the certificate.
    assert_eq!(gateway.call(&ci, Some(&token(0))).await.1, 403);
    let folder = gateway.fixture.folder.clone();
    drop(ci);
    gateway.fixture.stop().await;
    let paths = Paths::in_dir(&folder.path().canonicalize().expect("it is there"));
    let records = log::read(&paths.audit()).expect("the log");
    let callers: Vec<&str> = records.iter().map(|it| it.caller.as_str()).collect();
    assert_eq!(callers, ["cert:ci.example.org"]);
}

#[tokio::test]
async fn clients_without_a_valid_certificate_are_refused() {
    let files = Files::new();
    let gateway = Gateway::start(&files.open(Some(ClientCertificates::Required)), 0).await;
    let mut nameless = CertificateParams::default();
    nameless.distinguished_name = rcgen::DistinguishedName::new();
    let refused = [
        built(files.client()),
        files.client_with(&Authority::new("others"), &client_params("ci")),
        files.client_with(&files.clients, &expired(client_params("ci"))),
        files.client_with(&files.clients, &nameless),
    ];
    for client in &refused {
        client.get(gateway.url("/healthz")).send().await.expect_err("it is refused");
    }
    let client = files.client_with(&files.clients, &client_params("ci"));
    let page = client.get(gateway.url("/metrics")).send().await.expect("a response");
    let page = page.text().await.expect("a page");
    assert!(page.contains("switchboard_refused_total{reason=\"tls\"} 4"), "{page}");
    drop((client, refused));
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn an_optional_certificate_replaces_the_token() {
    let files = Files::new();
    let gateway = Gateway::start(&files.open(Some(ClientCertificates::Optional)), 1).await;
    let without = built(files.client());
    assert_eq!(gateway.call(&without, None).await.1, 401);
    assert_eq!(gateway.call(&without, Some(&token(0))).await.1, 200);
    let with = files.client_with(&files.clients, &client_params("ci"));
    assert_eq!(gateway.call(&with, None).await.1, 200);
    assert_eq!(gateway.call(&with, Some(&token(0))).await.1, 200);
    assert_eq!(gateway.call(&with, Some("not-a-token-of-the-file")).await.1, 401);
    drop((with, without));
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_used_for_new_connections_and_open_ones_stay() {
    let mut files = Files::new();
    let tls = files.open(None);
    let gateway = Gateway::start(&tls, 1).await;
    let token = token(0);
    let before = built(files.client());
    assert_eq!(gateway.call(&before, Some(&token)).await.1, 200);
    assert_eq!(tls.reload().expect("valid"), TlsReload::Unchanged);
    files.servers = Authority::new("other servers");
    files.write_pair(files.servers.server());
    assert_eq!(tls.reload().expect("valid"), TlsReload::Changed);
    // A new connection of this client would be refused: it does not trust the other authority.
    assert_eq!(gateway.call(&before, Some(&token)).await.1, 200);
    let after = built(files.client());
    assert_eq!(gateway.call(&after, Some(&token)).await.1, 200);
    drop((before, after));
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn files_that_are_not_valid_leave_the_certificate_in_use() {
    let files = Files::new();
    let tls = files.open(Some(ClientCertificates::Optional));
    let gateway = Gateway::start(&tls, 1).await;
    let (certificate, key) = files.servers.server();
    let valid = || files.write_pair((certificate.clone(), key.clone()));
    let failure = || tls.reload().expect_err("not valid").kind;
    valid();
    files.write("key.pem", &files.servers.server().1);
    assert!(matches!(failure(), TlsErrorKind::KeyMismatch { .. }));
    valid();
    let name = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    files.write_pair(files.servers.issue(&expired(name)));
    assert!(matches!(failure(), TlsErrorKind::Expired));
    files.write("cert.pem", "");
    assert!(matches!(failure(), TlsErrorKind::NoCertificate));
    valid();
    files.write("key.pem", "no key");
    assert!(matches!(failure(), TlsErrorKind::NoKey));
    valid();
    files.write("clients.pem", "");
    assert!(matches!(failure(), TlsErrorKind::NoCertificate));
    fs::remove_file(files.path("clients.pem")).expect("it is there");
    assert!(matches!(failure(), TlsErrorKind::Unreadable(_)));
    let client = built(files.client());
    assert_eq!(gateway.call(&client, Some(&token(0))).await.1, 200);
    drop(client);
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn connections_of_an_authority_that_was_removed_are_closed() {
    let mut files = Files::new();
    let tls = files.open(Some(ClientCertificates::Required));
    let gateway = Gateway::start(&tls, 0).await;
    let client = files.client_with(&files.clients, &client_params("ci"));
    let opened = client.get(gateway.url("/mcp")).header("accept", "text/event-stream");
    assert_eq!(opened.send().await.expect("a response").status(), 405);
    files.clients = Authority::new("other clients");
    files.write("clients.pem", &files.clients.pem());
    assert_eq!(tls.reload().expect("valid"), TlsReload::Changed);
    // Both the open connection and a new one.
    let refused = async {
        while client.get(gateway.url("/healthz")).send().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, refused).await.expect("it is refused");
    drop(client);
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn a_slow_handshake_is_ended_by_the_time_limit_of_clients_without_authentication() {
    let files = Files::new();
    let gateway = Gateway::start_with(FixtureOptions {
        tls: Some(files.open(None)),
        limits: Limits {
            authentication_timeout: Duration::from_millis(50),
            connections_per_address: 2,
            ..Limits::default()
        },
        ..FixtureOptions::default()
    })
    .await;
    let connect = || async { TcpStream::connect(gateway.fixture.address).await.expect("open") };
    let read_to_end = |mut stream: TcpStream| async move {
        let mut rest = Vec::new();
        let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut rest)).await;
        let _reset = read.expect("it is closed");
        rest
    };
    let mut slow = connect().await;
    // The beginning of a handshake record.
    slow.write_all(&[22, 3, 1]).await.expect("it is read");
    let (silent, slow) = (connect().await, slow);
    assert_eq!((read_to_end(silent).await, read_to_end(slow).await), (vec![], vec![]));
    gateway.fixture.stop().await;
}

#[tokio::test]
async fn a_client_that_speaks_plain_http_is_told_so() {
    let files = Files::new();
    let gateway = Gateway::start(&files.open(None), 1).await;
    let mut stream = TcpStream::connect(gateway.fixture.address).await.expect("open");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("read");
    let mut text = String::new();
    let read = timeout(TEST_TIMEOUT, stream.read_to_string(&mut text)).await;
    read.expect("it is closed").expect("a response");
    assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("https://"), "{text}");
    gateway.fixture.stop().await;
}
