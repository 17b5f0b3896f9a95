//! A login by hand: every request is built here, so that a test can leave something out.

use serde_json::{Value, json};
use testkit::authorization_server::{AuthorizationServer, SigningKey, sha256_base64url};
use url::{Url, form_urlencoded};

use crate::client::{initialize_params, request};
use crate::http_client::{HttpResponse, http_request};

pub const REDIRECT: &str = "http://127.0.0.1:1/callback";
pub const VERIFIER: &str = "a-verifier-that-is-long-enough-for-the-standard-0123";

pub const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

pub fn get(url: &str) -> HttpResponse {
    http_request("GET", url, &[], "")
}

pub fn post_form(url: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> HttpResponse {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut all = vec![FORM];
    all.extend(headers);
    http_request("POST", url, &all, &body)
}

/// Sends `initialize` to the protected resource.
pub fn initialize(url: &str, headers: &[(&str, &str)]) -> HttpResponse {
    post_message(url, headers, &request(1, "initialize", initialize_params("2025-11-25")))
}

pub fn post_message(url: &str, headers: &[(&str, &str)], message: &Value) -> HttpResponse {
    let mut all = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ];
    all.extend(headers);
    http_request("POST", url, &all, &message.to_string())
}

/// Sends `initialize` with a token.
pub fn initialize_with_token(url: &str, token: &Value) -> u16 {
    let authorization = format!("Bearer {}", token.as_str().expect("a token is text"));
    initialize(url, &[("authorization", &authorization)]).status
}

/// Registers a client and returns the response.
pub fn register(authorization_server: &AuthorizationServer) -> Value {
    let body = json!({"redirect_uris": [REDIRECT], "client_name": "by hand"}).to_string();
    let url = format!("{}/register", authorization_server.issuer());
    let mut reply = http_request("POST", &url, &[("content-type", "application/json")], &body);
    assert_eq!(reply.status, 201);
    reply.json()
}

/// The URL of an authorization request.
pub fn authorize_url(
    authorization_server: &AuthorizationServer,
    client: &str,
    more: &[(&str, &str)],
) -> String {
    let mut url =
        Url::parse(&format!("{}/authorize", authorization_server.issuer())).expect("a URL");
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client)
        .append_pair("redirect_uri", REDIRECT)
        .append_pair("state", "the-state")
        .append_pair("code_challenge", &sha256_base64url(VERIFIER.as_bytes()))
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &authorization_server.url())
        .extend_pairs(more);
    url.into()
}

/// The query of a redirect.
pub fn redirect_query(reply: &HttpResponse) -> Vec<(String, String)> {
    assert_eq!(reply.status, 302);
    let back = Url::parse(reply.header("location").expect("it leads on")).expect("a URL");
    back.query_pairs().into_owned().collect()
}

pub fn query_value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
}

/// A code for a client, from a user who approves.
pub fn code(authorization_server: &AuthorizationServer, client: &str, scope: &str) -> String {
    let more: &[(&str, &str)] = if scope.is_empty() { &[] } else { &[("scope", scope)] };
    let pairs = redirect_query(&get(&authorize_url(authorization_server, client, more)));
    query_value(&pairs, "code").expect("there is a code").to_owned()
}

/// Exchanges a code for tokens.
pub fn redeem_code(
    authorization_server: &AuthorizationServer,
    client: &str,
    code: &str,
    headers: &[(&str, &str)],
) -> HttpResponse {
    let resource = authorization_server.url();
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("client_id", client),
        ("resource", &resource),
    ];
    post_form(&format!("{}/token", authorization_server.issuer()), headers, &fields)
}

/// A whole login of a client that registers itself: the client id and the token response.
pub fn login(authorization_server: &AuthorizationServer, scope: &str) -> (String, Value) {
    let client = register(authorization_server)["client_id"].as_str().expect("an id").to_owned();
    let code = code(authorization_server, &client, scope);
    let mut reply = redeem_code(authorization_server, &client, &code, &[]);
    assert_eq!(reply.status, 200);
    (client, reply.json())
}

/// Exchanges a refresh token.
pub fn refresh(
    authorization_server: &AuthorizationServer,
    client: &str,
    token: &Value,
) -> HttpResponse {
    let body = refresh_form(authorization_server, client, token);
    http_request("POST", &format!("{}/token", authorization_server.issuer()), &[FORM], &body)
}

/// The form of a refresh request.
pub fn refresh_form(
    authorization_server: &AuthorizationServer,
    client: &str,
    token: &Value,
) -> String {
    let resource = authorization_server.url();
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", token.as_str().expect("a token is text")),
        ("client_id", client),
        ("resource", &resource),
    ];
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// A DPoP proof.
pub fn dpop_proof(key: &SigningKey, method: &str, url: &str, more: Value) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut claims = json!({
        "htm": method,
        "htu": url,
        "iat": since.expect("after 1970").as_secs(),
        "jti": format!("{:?}", std::time::Instant::now()),
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    key.sign_jwt(json!({"typ": "dpop+jwt", "jwk": key.public_jwk()}), &claims)
}
