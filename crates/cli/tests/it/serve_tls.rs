//! `swb serve --http` over TLS.

use std::fs;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use testkit::Sandbox;
use testkit::processes::wait_until;

use crate::http_gateway::{HttpGateway, modern_request};
use crate::support::scene;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Writes a certificate of a new authority and its key, and returns the authority's certificate.
pub fn write_pair(scene: &Sandbox) -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let write = |name: &str, text: &str| fs::write(scene.path(name), text).expect("written");
    write("cert.pem", &certificate.pem());
    write("key.pem", &key.serialize_pem());
    authority.pem()
}

pub fn arguments(scene: &Sandbox) -> Vec<String> {
    let path = |name: &str| scene.path(name).display().to_string();
    let options = ["--pool", "--no-auth", "--tls-cert", "--tls-key"].map(str::to_owned);
    let [pool, no_auth, certificate, key] = options;
    vec![pool, no_auth, certificate, path("cert.pem"), key, path("key.pem")]
}

/// The text at `/healthz`, for a client that trusts one authority; `None` if it does not trust the gateway.
fn health(gateway: &HttpGateway, authority: &str) -> Option<String> {
    get(gateway, authority, "/healthz")
}

/// The text at a path; `None` if the client does not trust the gateway.
pub fn get(gateway: &HttpGateway, authority: &str, path: &str) -> Option<String> {
    send(gateway, authority, |client, url| client.get(url + path))
}

/// The response to a call of a tool that needs no arguments.
pub fn call(gateway: &HttpGateway, authority: &str, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {"text": "hi"}});
    let (lines, body) = modern_request(None, "tools/call", params);
    let sent = send(gateway, authority, |client, url| {
        let mut request = client
            .post(url + "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string());
        for (name, value) in lines.lines().filter_map(|it| it.split_once(": ")) {
            request = request.header(name, value);
        }
        request
    });
    sent.expect("a response")
}

fn send(
    gateway: &HttpGateway,
    authority: &str,
    request: impl FnOnce(&reqwest::Client, String) -> reqwest::RequestBuilder,
) -> Option<String> {
    send_as(gateway, client(authority), request).map(|it| it.1)
}

/// A client that trusts one authority.
fn client(authority: &str) -> reqwest::ClientBuilder {
    let root = reqwest::Certificate::from_pem(authority.as_bytes()).expect("a certificate");
    reqwest::Client::builder().no_proxy().tls_certs_only([root]).timeout(TIMEOUT)
}

/// The status and the text of a response; `None` if client and gateway do not trust each other.
fn send_as(
    gateway: &HttpGateway,
    client: reqwest::ClientBuilder,
    request: impl FnOnce(&reqwest::Client, String) -> reqwest::RequestBuilder,
) -> Option<(u16, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let client = client.build().expect("a client");
    let port = gateway.address.rsplit(':').next().expect("a port");
    let request = request(&client, format!("https://localhost:{port}"));
    runtime.expect("a runtime").block_on(async {
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.text().await.ok()?))
    })
}

/// The status and the response of a request for the tools.
fn list_tools(gateway: &HttpGateway, client: reqwest::ClientBuilder) -> Option<(u16, String)> {
    let (lines, body) = modern_request(None, "tools/list", json!({}));
    send_as(gateway, client, |client, url| {
        let mut request = client
            .post(url + "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string());
        for (name, value) in lines.lines().filter_map(|it| it.split_once(": ")) {
            request = request.header(name, value);
        }
        request
    })
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart_and_an_invalid_one_is_reported() {
    let scene = scene();
    let old = write_pair(&scene);
    let arguments = arguments(&scene);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let gateway = HttpGateway::start(&scene, &arguments);
    assert_eq!(health(&gateway, &old).as_deref(), Some("ok\n"));
    let new = write_pair(&scene);
    wait_until(TIMEOUT, "the new certificate is used", || health(&gateway, &new));
    assert_eq!(health(&gateway, &old), None);
    fs::write(scene.path("key.pem"), "no key").expect("written");
    wait_until(TIMEOUT, "the error is reported", || {
        gateway.stderr_contains("key.pem` cannot be used")
    });
    assert_eq!(health(&gateway, &new).as_deref(), Some("ok\n"));
    gateway.terminate();
}

#[test]
fn a_key_of_another_certificate_is_refused_at_the_start() {
    let scene = scene();
    write_pair(&scene);
    let key = KeyPair::generate().expect("a key").serialize_pem();
    fs::write(scene.path("key.pem"), key).expect("written");
    let arguments = arguments(&scene);
    let mut words = vec!["serve", "--http", "127.0.0.1:0"];
    words.extend(arguments.iter().map(String::as_str));
    let output = scene.swb(&words);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("does not belong to the certificate"), "{}", output.stderr);
}

#[test]
fn client_certificates_are_an_authentication_of_their_own() {
    let scene = scene();
    let authority = write_pair(&scene);
    fs::write(scene.path("clients.pem"), &authority).expect("written");
    let clients = scene.path("clients.pem").display().to_string();
    let mut words = arguments(&scene);
    words.retain(|it| it != "--no-auth");
    words.extend(["--tls-client-ca".to_owned(), clients]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The authority has issued this one, too, and it names no purpose.
    let identity = || {
        let file = |name: &str| fs::read_to_string(scene.path(name)).expect("it is there");
        let pem = file("cert.pem") + &file("key.pem");
        client(&authority).identity(reqwest::Identity::from_pem(pem.as_bytes()).expect("a pair"))
    };
    let has_tools = |answer: Option<(u16, String)>| {
        let (status, text) = answer.expect("a response");
        assert!(status == 200 && text.contains("\"tools\":["), "{status}: {text}");
    };
    let required = HttpGateway::start(&scene, &words);
    assert_eq!(health(&required, &authority), None, "it has no certificate");
    has_tools(list_tools(&required, identity()));
    required.terminate();
    let optional =
        HttpGateway::start(&scene, &[&words[..], &["--tls-client-auth", "optional"]].concat());
    assert_eq!(health(&optional, &authority).as_deref(), Some("ok\n"));
    let refused = list_tools(&optional, client(&authority));
    assert_eq!(refused.map(|it| it.0), Some(403), "it has no certificate");
    has_tools(list_tools(&optional, identity()));
    optional.terminate();
}
