//! Clients: registration, client metadata documents, and client authentication.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

use super::config::{ClientMetadataDocuments, Registration};
use super::grant_store::{GrantStore, RegisteredClient};
use super::jwt::UnverifiedJwt;
use super::oauth_error::{OAuthError, with_no_store};
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::SharedState;
use crate::http::response::json_response;

/// The timeout for fetching a client metadata document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a client metadata document.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
const JWT_BEARER_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Registers a client (RFC 7591).
pub(crate) fn register(shared: &SharedState, received: &ObservedRequest) -> Response {
    let mut store = shared.store();
    let metadata: Value = serde_json::from_str(&received.body).unwrap_or_default();
    let redirects: Option<Vec<String>> = metadata["redirect_uris"]
        .as_array()
        .map(|uris| uris.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let method = metadata["token_endpoint_auth_method"].as_str().unwrap_or("client_secret_basic");
    let secret = match store.config.registration {
        Registration::Absent => return json_response(StatusCode::NOT_FOUND, Body::empty()),
        Registration::Refused => {
            let error = OAuthError::new("access_denied", "registration is not allowed");
            return OAuthError { status: 403, ..error }.to_response(&store.config);
        }
        Registration::WithSecret => Some(store.new_token("secret")),
        Registration::Public => None,
    };
    if redirects.as_ref().is_none_or(Vec::is_empty) {
        let error = OAuthError::new("invalid_redirect_uri", "there is no redirect_uri");
        return error.to_response(&store.config);
    }
    let id = store.new_token("client");
    store.counters.registrations += 1;
    let mut body = metadata.clone();
    body["client_id"] = json!(id);
    body["token_endpoint_auth_method"] = match (&secret, method) {
        (None, _) => json!("none"),
        (Some(_), "none") => json!("client_secret_basic"),
        (Some(_), method) => json!(method),
    };
    if let Some(secret) = &secret {
        body["client_secret"] = json!(secret);
        body["client_secret_expires_at"] = json!(0);
    }
    store.clients.insert(id, RegisteredClient { secret, key: None, redirect_uris: redirects });
    with_no_store(json_response(StatusCode::CREATED, Body::from(body.to_string())))
}

/// Finds a client by its id. If the id is a URL, fetches its metadata document, if documents are supported.
pub(crate) async fn find_client(
    shared: &SharedState,
    site: Site,
    id: &str,
) -> Option<RegisteredClient> {
    {
        let store = shared.store();
        if let Some(client) = store.clients.get(id) {
            return Some(client.clone());
        }
        if site == Site::Identity
            || store.config.client_metadata_documents == ClientMetadataDocuments::Unsupported
        {
            return None;
        }
    }
    let url = Url::parse(id).ok()?;
    let hosted =
        shared.hosted_documents.lock().expect("no holder of the lock panics").get(id).cloned();
    let document = match hosted {
        Some(document) => document,
        None => timeout(FETCH_TIMEOUT, fetch_client_metadata(&url)).await.ok()??,
    };
    if document["client_id"] != id {
        return None;
    }
    let redirects = document["redirect_uris"].as_array()?.iter();
    let redirects = redirects.filter_map(Value::as_str).map(str::to_owned).collect();
    let client = RegisteredClient { redirect_uris: Some(redirects), ..RegisteredClient::default() };
    shared.store().clients.insert(id.to_owned(), client.clone());
    Some(client)
}

async fn fetch_client_metadata(url: &Url) -> Option<Value> {
    let address = url.socket_addrs(|| None).ok()?;
    let stream = TcpStream::connect(&address[..]).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let driver = tokio::spawn(connection);
    let request = hyper::Request::get(url.path()).header("host", url.authority());
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let body =
        Limited::new(response.into_body(), MAX_DOCUMENT_BYTES).collect().await.ok()?.to_bytes();
    driver.abort();
    serde_json::from_slice(&body).ok()
}

impl RegisteredClient {
    /// Whether the client may use a redirect URI. The port of a loopback URI is free (RFC 8252).
    pub fn allows_redirect(&self, redirect: &str) -> bool {
        let Ok(requested) = Url::parse(redirect) else { return false };
        let Some(redirects) = &self.redirect_uris else { return is_loopback(&requested) };
        redirects.iter().any(|allowed| match Url::parse(allowed) {
            Ok(mut allowed) if is_loopback(&allowed) => {
                allowed.set_port(requested.port()).is_ok() && allowed == requested
            }
            Ok(_) | Err(_) => allowed == redirect,
        })
    }
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"))
}

/// Authenticates the client of a request and returns its id.
pub(crate) fn authenticate_client(
    shared: &SharedState,
    store: &mut GrantStore,
    received: &ObservedRequest,
) -> Result<String, OAuthError> {
    let refuse = |description| Err(OAuthError::new("invalid_client", description));
    let basic = received.header("authorization").and_then(|it| it.strip_prefix("Basic "));
    let credentials = [
        basic.is_some(),
        received.fields.contains_key("client_secret"),
        received.fields.contains_key("client_assertion"),
    ];
    if credentials.iter().filter(|&&it| it).count() > 1 {
        return Err(OAuthError::new(
            "invalid_request",
            "more than one client authentication method",
        ));
    }
    let (method, id, presented) = if let Some(basic) = basic {
        let Some((id, secret)) = parse_basic(basic) else {
            return refuse("the Basic credentials are malformed");
        };
        ("client_secret_basic", id, Some(secret))
    } else if received.fields.contains_key("client_assertion") {
        let id = client_assertion_subject(shared, store, received)?;
        ("private_key_jwt", id, None)
    } else {
        let secret = received.fields.get("client_secret").cloned();
        let method = if secret.is_some() { "client_secret_post" } else { "none" };
        (method, received.field("client_id").to_owned(), secret)
    };
    let is_accepted = store.config.auth_methods.iter().any(|it| it == method);
    if received.site != Site::Identity && !is_accepted {
        return refuse("the client authentication method is not supported");
    }
    let Some(client) = store.clients.get(&id) else { return refuse("the client id is unknown") };
    let is_authenticated = match method {
        "private_key_jwt" => true,
        "none" => client.secret.is_none() && client.key.is_none(),
        _ => client.secret.is_some() && client.secret == presented,
    };
    match is_authenticated {
        true => Ok(id),
        false => refuse("the client credentials are wrong"),
    }
}

fn parse_basic(text: &str) -> Option<(String, String)> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (id, secret) = text.split_once(':')?;
    // Both parts are form-encoded (RFC 6749, section 2.3.1).
    let form_decode =
        |part: &str| form_urlencoded::parse(part.as_bytes()).next().map(|(it, _)| it.into_owned());
    Some((form_decode(id)?, form_decode(secret).unwrap_or_default()))
}

/// The subject of a valid client assertion (RFC 7523).
fn client_assertion_subject(
    shared: &SharedState,
    store: &mut GrantStore,
    received: &ObservedRequest,
) -> Result<String, OAuthError> {
    let refuse = |description| Err(OAuthError::new("invalid_client", description));
    if received.field("client_assertion_type") != JWT_BEARER_ASSERTION {
        return refuse("the assertion type is not supported");
    }
    let Some(token) = UnverifiedJwt::parse(received.field("client_assertion")) else {
        return refuse("the assertion is not a JWT");
    };
    let claims = &token.claims;
    let id = claims["sub"].as_str().unwrap_or_default().to_owned();
    let key = store.clients.get(&id).and_then(|client| client.key.clone());
    if !key.is_some_and(|key| token.is_signed_by(&key)) || claims["iss"] != claims["sub"] {
        return refuse("the assertion has an invalid signature or issuer");
    }
    let issuer = shared.issuer_url(&store.config, received.site);
    let endpoint = format!("{issuer}/token");
    let is_for = |audience: &Value| *audience == json!(issuer) || *audience == json!(endpoint);
    let is_audience = match claims["aud"].as_array() {
        Some(audiences) => audiences.iter().any(is_for),
        None => is_for(&claims["aud"]),
    };
    if !is_audience {
        return refuse("the assertion has the wrong audience");
    }
    if claims["exp"].as_u64().is_none_or(|until| until <= super::unix_time()) {
        return refuse("the assertion has expired");
    }
    match claims["jti"].as_str() {
        Some(name) if store.used_jtis.insert(format!("assertion {name}")) => Ok(id),
        Some(_) | None => refuse("the assertion was used before or has no jti"),
    }
}
