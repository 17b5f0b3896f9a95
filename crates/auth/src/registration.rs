//! Who we are to an authorization server: a client that was set up by hand, one whose name is the URL of a
//! document, or one that registers itself (RFC 7591). Each is bound to the issuer it is known to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use url::Url;

use crate::crypto::signing_key::SigningKey;
use crate::discovery::auth_server_metadata::AuthServerMetadata;
use crate::discovery::resource_metadata::sanitize_for_display;
use crate::fetch::origin_guard::CheckedUrl;
use crate::fetch::{FetchRequest, FetchResponse};
use crate::scopes::Scopes;
use crate::secret::{Secret, revealed};

/// The longest name and secret that a server may give us.
const MAX_VALUE_LENGTH: usize = 8 * 1024;

/// How a client shows at the token endpoint who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthMethod {
    /// By its name alone.
    None,
    /// With a secret, in a header.
    ClientSecretBasic,
    /// With a secret, in the form.
    ClientSecretPost,
    /// With a signature (RFC 7523).
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    fn parse(name: &str) -> Option<ClientAuthMethod> {
        [
            ClientAuthMethod::None,
            ClientAuthMethod::ClientSecretBasic,
            ClientAuthMethod::ClientSecretPost,
            ClientAuthMethod::PrivateKeyJwt,
        ]
        .into_iter()
        .find(|method| method.name() == name)
    }

    /// Its name in the registry of the RFC.
    pub fn name(self) -> &'static str {
        match self {
            ClientAuthMethod::None => "none",
            ClientAuthMethod::ClientSecretBasic => "client_secret_basic",
            ClientAuthMethod::ClientSecretPost => "client_secret_post",
            ClientAuthMethod::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProvenance {
    /// Somebody set it up.
    Configured,
    /// Its name is the URL of a document.
    Document,
    /// It registered itself.
    Registered,
}

/// A client as one issuer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthClient {
    /// Its name.
    pub id: String,
    /// Its secret, where it has one.
    #[serde(with = "revealed::or_none")]
    pub secret: Option<Secret>,
    /// How it shows who it is.
    pub method: ClientAuthMethod,
    /// Who knows it. Nobody else is shown the secret.
    pub issuer: String,
    /// Where people may be sent back to, where that was agreed upon.
    pub redirect: Option<String>,
    /// Where it comes from.
    pub provenance: ClientProvenance,
}

impl OAuthClient {
    /// Can it show more than its name?
    pub fn has_credential(&self) -> bool {
        self.method != ClientAuthMethod::None
    }
}

/// What a person set up, and what we may do by ourselves.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// A client that the authorization server knows already.
    pub configured: Option<ConfiguredClient>,
    /// The URL of a document that describes us.
    pub metadata_document: Option<Url>,
}

/// A client that was set up by hand.
#[derive(Debug, Clone)]
pub struct ConfiguredClient {
    /// Its name.
    pub id: String,
    /// What it can show.
    pub credential: ClientCredential,
    /// Who knows it, where that is known. Nobody else is shown what it can show.
    pub issuer: Option<String>,
}

/// What a client can show beside its name.
#[derive(Debug, Clone)]
pub enum ClientCredential {
    /// Nothing.
    None,
    /// A secret.
    Secret(Secret),
    /// Signatures.
    PrivateKey(SigningKey),
}

impl ClientCredential {
    /// What it signs with, if it does.
    pub fn signing_key(&self) -> Option<&SigningKey> {
        match self {
            ClientCredential::PrivateKey(key) => Some(key),
            ClientCredential::None | ClientCredential::Secret(_) => None,
        }
    }
}

/// What is to be done about a client.
#[derive(Debug)]
pub enum ClientChoice {
    /// This one it is.
    Use(OAuthClient),
    /// One must be registered, with this method.
    Register(ClientAuthMethod),
    /// There is none, and none can be had.
    Unavailable,
}

/// Chooses: set up by hand, then the document, then one that was registered before, then registering.
pub fn choose_client(
    config: &ClientConfig,
    server: &AuthServerMetadata,
    registered: Option<&OAuthClient>,
    redirect: Option<&str>,
) -> ClientChoice {
    let client = |id: &str, secret: Option<Secret>, method, provenance| {
        let issuer = server.issuer.clone();
        let redirect = redirect.map(str::to_owned);
        ClientChoice::Use(OAuthClient {
            id: id.to_owned(),
            secret,
            method,
            issuer,
            redirect,
            provenance,
        })
    };
    if let Some(configured) = &config.configured {
        let (secret, method) = match &configured.credential {
            ClientCredential::None => (None, ClientAuthMethod::None),
            ClientCredential::Secret(secret) => (Some(secret.clone()), secret_auth_method(server)),
            ClientCredential::PrivateKey(_) => (None, ClientAuthMethod::PrivateKeyJwt),
        };
        return client(&configured.id, secret, method, ClientProvenance::Configured);
    }
    if let Some(document) = &config.metadata_document
        && server.client_id_metadata_document_supported
    {
        return client(document.as_str(), None, ClientAuthMethod::None, ClientProvenance::Document);
    }
    if let Some(registered) = registered
        && registered.provenance == ClientProvenance::Registered
        && registered.issuer == server.issuer
        && redirect.is_none_or(|redirect| registered.redirect.as_deref() == Some(redirect))
    {
        return ClientChoice::Use(registered.clone());
    }
    match server.registration_endpoint {
        Some(_) => ClientChoice::Register(registration_auth_method(server)),
        None => ClientChoice::Unavailable,
    }
}

fn supports_auth_method(server: &AuthServerMetadata, method: ClientAuthMethod) -> bool {
    let offered = server.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
    offered.iter().any(|it| it == method.name())
}

/// How a secret is shown. Where nothing is said, RFC 8414 says `client_secret_basic`.
fn secret_auth_method(server: &AuthServerMetadata) -> ClientAuthMethod {
    match (
        supports_auth_method(server, ClientAuthMethod::ClientSecretBasic),
        supports_auth_method(server, ClientAuthMethod::ClientSecretPost),
    ) {
        (false, true) => ClientAuthMethod::ClientSecretPost,
        (true, _) | (false, false) => ClientAuthMethod::ClientSecretBasic,
    }
}

/// How a client that registers itself will show who it is: a program on a desk keeps no secret if it need not.
fn registration_auth_method(server: &AuthServerMetadata) -> ClientAuthMethod {
    match &server.token_endpoint_auth_methods_supported {
        None => ClientAuthMethod::None,
        Some(_) if supports_auth_method(server, ClientAuthMethod::None) => ClientAuthMethod::None,
        Some(_) => secret_auth_method(server),
    }
}

/// What a registration says.
#[derive(Debug)]
pub struct RegistrationRequest<'a> {
    /// Our name as people will read it.
    pub client_name: &'a str,
    /// Where people are sent back to.
    pub redirect_uri: Option<&'a str>,
    /// How we will show who we are.
    pub auth_method: ClientAuthMethod,
    /// What we will ask for.
    pub scopes: Option<&'a Scopes>,
    /// Will we sign in as a device?
    pub grant_types: &'a [&'a str],
}

/// The request that registers us.
pub fn registration_request(
    at: CheckedUrl,
    registration: &RegistrationRequest<'_>,
) -> FetchRequest {
    let mut body = json!({
        "client_name": registration.client_name,
        "grant_types": registration.grant_types,
        "token_endpoint_auth_method": registration.auth_method.name(),
        "application_type": "native",
    });
    if let Some(redirect) = registration.redirect_uri {
        body["redirect_uris"] = json!([redirect]);
        body["response_types"] = json!(["code"]);
    }
    if let Some(scopes) = registration.scopes {
        body["scope"] = Value::String(scopes.to_string());
    }
    FetchRequest::post_json(at, &body)
}

/// Why a registration came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// The server does not want us.
    #[error("the authorization server refused to register us: HTTP {status} {error}")]
    Refused {
        /// The status code.
        status: u16,
        /// What it says.
        error: String,
    },
    /// What it answered is no registration.
    #[error("the authorization server's answer is no registration")]
    Malformed,
}

#[derive(Deserialize)]
struct RawRegistration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Reads the answer to a registration.
pub fn parse_registration(
    answer: &FetchResponse,
    server: &AuthServerMetadata,
    registration: &RegistrationRequest<'_>,
) -> Result<OAuthClient, RegistrationError> {
    if !answer.is_success() {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let word = |key: &str| body.get(key).and_then(Value::as_str).map(sanitize_for_display);
        let error = [word("error"), word("error_description")];
        let error = error.into_iter().flatten().collect::<Vec<_>>().join(": ");
        return Err(RegistrationError::Refused { status: answer.status, error });
    }
    let raw: RawRegistration =
        serde_json::from_slice(&answer.body).map_err(|_| RegistrationError::Malformed)?;
    let is_good = |text: &str| {
        !text.is_empty() && text.len() <= MAX_VALUE_LENGTH && !text.chars().any(char::is_control)
    };
    let secret = raw.client_secret.filter(|secret| !secret.is_empty());
    if !is_good(&raw.client_id) || secret.as_deref().is_some_and(|secret| !is_good(secret)) {
        return Err(RegistrationError::Malformed);
    }
    let assigned = raw.token_endpoint_auth_method.as_deref().and_then(ClientAuthMethod::parse);
    let method = match (assigned, &secret) {
        (Some(ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost), None)
        | (Some(ClientAuthMethod::PrivateKeyJwt), _)
        | (None, None) => ClientAuthMethod::None,
        (Some(assigned), _) => assigned,
        (None, Some(_)) => match registration.auth_method {
            ClientAuthMethod::None | ClientAuthMethod::PrivateKeyJwt => secret_auth_method(server),
            ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost => {
                registration.auth_method
            }
        },
    };
    Ok(OAuthClient {
        id: raw.client_id,
        secret: secret.map(Secret::new),
        method,
        issuer: server.issuer.clone(),
        redirect: registration.redirect_uri.map(str::to_owned),
        provenance: ClientProvenance::Registered,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::fetch::origin_guard::AllowedAddresses;

    const REDIRECT: &str = "http://127.0.0.1:7000/callback";

    fn server(methods: Option<&[&str]>) -> AuthServerMetadata {
        let base = Url::parse("https://as.example.com/").expect("a URL");
        let methods = methods.map(|methods| methods.iter().map(|&it| it.to_owned()).collect());
        AuthServerMetadata {
            token_endpoint_auth_methods_supported: methods,
            ..AuthServerMetadata::legacy_fallback(&base)
        }
    }

    fn registered(issuer: &str, redirect: &str) -> OAuthClient {
        OAuthClient {
            id: "known".to_owned(),
            secret: Some(Secret::new("s")),
            method: ClientAuthMethod::ClientSecretPost,
            issuer: issuer.to_owned(),
            redirect: Some(redirect.to_owned()),
            provenance: ClientProvenance::Registered,
        }
    }

    fn shown(choice: &ClientChoice) -> String {
        match choice {
            ClientChoice::Use(client) => format!("use {} by {}", client.id, client.method.name()),
            ClientChoice::Register(method) => format!("register by {}", method.name()),
            ClientChoice::Unavailable => "impossible".to_owned(),
        }
    }

    #[test]
    fn clients_are_chosen_in_order() {
        let configured = |credential| ClientConfig {
            configured: Some(ConfiguredClient { id: "mine".to_owned(), credential, issuer: None }),
            metadata_document: Some(Url::parse("https://c.example/client.json").expect("a URL")),
        };
        let document = ClientConfig { configured: None, ..configured(ClientCredential::None) };
        let nothing = ClientConfig::default();
        let secret = || configured(ClientCredential::Secret(Secret::new("s")));
        let cimd =
            AuthServerMetadata { client_id_metadata_document_supported: true, ..server(None) };
        let closed = AuthServerMetadata { registration_endpoint: None, ..server(None) };
        let here = registered("https://as.example.com", REDIRECT);
        let elsewhere = registered("https://other.example", REDIRECT);
        let moved = registered("https://as.example.com", "http://127.0.0.1:1/callback");
        for (config, server, registered, expected) in [
            (&secret(), &cimd, Some(&here), "use mine by client_secret_basic"),
            (
                &secret(),
                &server(Some(&["client_secret_post"])),
                None,
                "use mine by client_secret_post",
            ),
            (&configured(ClientCredential::None), &cimd, None, "use mine by none"),
            (&document, &cimd, Some(&here), "use https://c.example/client.json by none"),
            (&document, &server(None), Some(&here), "use known by client_secret_post"),
            (&nothing, &server(None), Some(&elsewhere), "register by none"),
            (&nothing, &server(None), Some(&moved), "register by none"),
            (
                &nothing,
                &server(Some(&["client_secret_basic"])),
                None,
                "register by client_secret_basic",
            ),
            (
                &nothing,
                &server(Some(&["client_secret_post"])),
                None,
                "register by client_secret_post",
            ),
            (&nothing, &server(Some(&["client_secret_basic", "none"])), None, "register by none"),
            (&document, &closed, None, "impossible"),
        ] {
            assert_eq!(shown(&choose_client(config, server, registered, Some(REDIRECT))), expected);
        }
    }

    fn registration() -> RegistrationRequest<'static> {
        RegistrationRequest {
            client_name: "Switchboard",
            redirect_uri: Some(REDIRECT),
            auth_method: ClientAuthMethod::None,
            scopes: None,
            grant_types: &["authorization_code", "refresh_token"],
        }
    }

    #[test]
    fn a_registration_says_what_a_native_client_must() {
        let url = Url::parse("https://as.example.com/register").expect("a URL");
        let request = registration_request(
            CheckedUrl { url, allowed: AllowedAddresses::Public },
            &registration(),
        );
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        assert_eq!(
            body,
            json!({
                "client_name": "Switchboard",
                "grant_types": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
                "redirect_uris": [REDIRECT],
                "response_types": ["code"],
            })
        );
    }

    fn answered(status: u16, body: &str) -> Result<(String, ClientAuthMethod), RegistrationError> {
        let body = body.to_owned().into();
        let answer = FetchResponse { status, headers: HeaderMap::new(), body };
        parse_registration(&answer, &server(None), &registration())
            .map(|client| (client.id, client.method))
    }

    #[test]
    fn answers_to_registrations_are_read() {
        let good = |method| Ok(("x".to_owned(), method));
        for (body, expected) in [
            (r#"{"client_id":"x"}"#, good(ClientAuthMethod::None)),
            (r#"{"client_id":"x","client_secret":""}"#, good(ClientAuthMethod::None)),
            (r#"{"client_id":"x","client_secret":"s"}"#, good(ClientAuthMethod::ClientSecretBasic)),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                good(ClientAuthMethod::ClientSecretPost),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                good(ClientAuthMethod::None),
            ),
            (
                r#"{"client_id":"x","token_endpoint_auth_method":"client_secret_basic"}"#,
                good(ClientAuthMethod::None),
            ),
            (r#"{"client_id":""}"#, Err(RegistrationError::Malformed)),
            (r#"{"client_id":"a\nb"}"#, Err(RegistrationError::Malformed)),
            (r#"{"client_id":7}"#, Err(RegistrationError::Malformed)),
            ("", Err(RegistrationError::Malformed)),
        ] {
            assert_eq!(answered(201, body), expected, "{body}");
        }
        let error = "invalid_redirect_uri: no[31m".to_owned();
        let body = "{\"error\":\"invalid_redirect_uri\",\"error_description\":\"no\\u001b[31m\"}";
        assert_eq!(answered(400, body), Err(RegistrationError::Refused { status: 400, error }));
    }

    #[test]
    fn a_client_prints_no_secret() {
        let mut client = registered("https://a", REDIRECT);
        client.secret = Some(Secret::new("canary"));
        assert!(!format!("{client:?}").contains("canary"));
    }
}
