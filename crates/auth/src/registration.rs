//! Who we are to an authorization server: a client that was set up by hand, one whose name is the URL of a
//! document, or one that registers itself (RFC 7591). Each is bound to the issuer it is known to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use url::Url;

use crate::assertion::SigningKey;
use crate::confidential::{Secret, revealed};
use crate::discovery::resource_metadata::short;
use crate::discovery::server_metadata::ServerMetadata;
use crate::fetch::{Answer, Request};
use crate::origin_guard::Checked;
use crate::scopes::Scopes;

/// The longest name and secret that a server may give us.
const LONGEST: usize = 8 * 1024;

/// How a client shows at the token endpoint who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By its name alone.
    None,
    /// With a secret, in a header.
    ClientSecretBasic,
    /// With a secret, in the form.
    ClientSecretPost,
    /// With a signature (RFC 7523).
    PrivateKeyJwt,
}

impl Method {
    fn parse(name: &str) -> Option<Method> {
        [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost, Method::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.name() == name)
    }

    /// Its name in the registry of the RFC.
    pub fn name(self) -> &'static str {
        match self {
            Method::None => "none",
            Method::ClientSecretBasic => "client_secret_basic",
            Method::ClientSecretPost => "client_secret_post",
            Method::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Somebody set it up.
    Configured,
    /// Its name is the URL of a document.
    Document,
    /// It registered itself.
    Registered,
}

/// A client as one issuer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its name.
    pub id: String,
    /// Its secret, where it has one.
    #[serde(with = "revealed::or_none")]
    pub secret: Option<Secret>,
    /// How it shows who it is.
    pub method: Method,
    /// Who knows it. Nobody else is shown the secret.
    pub issuer: String,
    /// Where people may be sent back to, where that was agreed upon.
    pub redirect: Option<String>,
    /// Where it comes from.
    pub provenance: Provenance,
}

impl Client {
    /// Can it show more than its name?
    pub fn has_credential(&self) -> bool {
        self.method != Method::None
    }
}

/// What a person set up, and what we may do by ourselves.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// A client that the authorization server knows already.
    pub configured: Option<Configured>,
    /// The URL of a document that describes us.
    pub document: Option<Url>,
}

/// A client that was set up by hand.
#[derive(Debug, Clone)]
pub struct Configured {
    /// Its name.
    pub id: String,
    /// What it can show.
    pub credential: Credential,
    /// Who knows it, where that is known. Nobody else is shown what it can show.
    pub issuer: Option<String>,
}

/// What a client can show beside its name.
#[derive(Debug, Clone)]
pub enum Credential {
    /// Nothing.
    None,
    /// A secret.
    Secret(Secret),
    /// Signatures.
    Key(SigningKey),
}

impl Credential {
    /// What it signs with, if it does.
    pub fn key(&self) -> Option<&SigningKey> {
        match self {
            Credential::Key(key) => Some(key),
            Credential::None | Credential::Secret(_) => None,
        }
    }
}

/// What is to be done about a client.
#[derive(Debug)]
pub enum Choice {
    /// This one it is.
    Use(Client),
    /// One must be registered, with this method.
    Register(Method),
    /// There is none, and none can be had.
    Impossible,
}

/// Chooses: set up by hand, then the document, then one that was registered before, then registering.
pub fn choose(
    setup: &Setup,
    server: &ServerMetadata,
    known: Option<&Client>,
    redirect: Option<&str>,
) -> Choice {
    let client = |id: &str, secret: Option<Secret>, method, provenance| {
        let issuer = server.issuer.clone();
        let redirect = redirect.map(str::to_owned);
        Choice::Use(Client { id: id.to_owned(), secret, method, issuer, redirect, provenance })
    };
    if let Some(configured) = &setup.configured {
        let (secret, method) = match &configured.credential {
            Credential::None => (None, Method::None),
            Credential::Secret(secret) => (Some(secret.clone()), secret_method(server)),
            Credential::Key(_) => (None, Method::PrivateKeyJwt),
        };
        return client(&configured.id, secret, method, Provenance::Configured);
    }
    if let Some(document) = &setup.document
        && server.client_id_metadata_document_supported
    {
        return client(document.as_str(), None, Method::None, Provenance::Document);
    }
    if let Some(known) = known
        && known.provenance == Provenance::Registered
        && known.issuer == server.issuer
        && redirect.is_none_or(|redirect| known.redirect.as_deref() == Some(redirect))
    {
        return Choice::Use(known.clone());
    }
    match server.registration_endpoint {
        Some(_) => Choice::Register(registered_method(server)),
        None => Choice::Impossible,
    }
}

fn offers(server: &ServerMetadata, method: Method) -> bool {
    let offered = server.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
    offered.iter().any(|it| it == method.name())
}

/// How a secret is shown. Where nothing is said, RFC 8414 says `client_secret_basic`.
fn secret_method(server: &ServerMetadata) -> Method {
    match (offers(server, Method::ClientSecretBasic), offers(server, Method::ClientSecretPost)) {
        (false, true) => Method::ClientSecretPost,
        (true, _) | (false, false) => Method::ClientSecretBasic,
    }
}

/// How a client that registers itself will show who it is: a program on a desk keeps no secret if it need not.
fn registered_method(server: &ServerMetadata) -> Method {
    match &server.token_endpoint_auth_methods_supported {
        None => Method::None,
        Some(_) if offers(server, Method::None) => Method::None,
        Some(_) => secret_method(server),
    }
}

/// What a registration says.
#[derive(Debug)]
pub struct Application<'a> {
    /// Our name as people will read it.
    pub name: &'a str,
    /// Where people are sent back to.
    pub redirect: Option<&'a str>,
    /// How we will show who we are.
    pub method: Method,
    /// What we will ask for.
    pub scopes: Option<&'a Scopes>,
    /// Will we sign in as a device?
    pub grants: &'a [&'a str],
}

/// The request that registers us.
pub fn request(at: Checked, application: &Application<'_>) -> Request {
    let mut body = json!({
        "client_name": application.name,
        "grant_types": application.grants,
        "token_endpoint_auth_method": application.method.name(),
        "application_type": "native",
    });
    if let Some(redirect) = application.redirect {
        body["redirect_uris"] = json!([redirect]);
        body["response_types"] = json!(["code"]);
    }
    if let Some(scopes) = application.scopes {
        body["scope"] = Value::String(scopes.to_string());
    }
    Request::post_json(at, &body)
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
struct Raw {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Reads the answer to a registration.
pub fn read(
    answer: &Answer,
    server: &ServerMetadata,
    application: &Application<'_>,
) -> Result<Client, RegistrationError> {
    if !answer.is_success() {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let word = |key: &str| body.get(key).and_then(Value::as_str).map(short);
        let error = [word("error"), word("error_description")];
        let error = error.into_iter().flatten().collect::<Vec<_>>().join(": ");
        return Err(RegistrationError::Refused { status: answer.status, error });
    }
    let raw: Raw =
        serde_json::from_slice(&answer.body).map_err(|_| RegistrationError::Malformed)?;
    let is_good = |text: &str| {
        !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
    };
    let secret = raw.client_secret.filter(|secret| !secret.is_empty());
    if !is_good(&raw.client_id) || secret.as_deref().is_some_and(|secret| !is_good(secret)) {
        return Err(RegistrationError::Malformed);
    }
    let told = raw.token_endpoint_auth_method.as_deref().and_then(Method::parse);
    let method = match (told, &secret) {
        (Some(Method::ClientSecretBasic | Method::ClientSecretPost), None)
        | (Some(Method::PrivateKeyJwt), _)
        | (None, None) => Method::None,
        (Some(told), _) => told,
        (None, Some(_)) => match application.method {
            Method::None | Method::PrivateKeyJwt => secret_method(server),
            Method::ClientSecretBasic | Method::ClientSecretPost => application.method,
        },
    };
    Ok(Client {
        id: raw.client_id,
        secret: secret.map(Secret::new),
        method,
        issuer: server.issuer.clone(),
        redirect: application.redirect.map(str::to_owned),
        provenance: Provenance::Registered,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::origin_guard::Reach;

    const REDIRECT: &str = "http://127.0.0.1:7000/callback";

    fn server(methods: Option<&[&str]>) -> ServerMetadata {
        let base = Url::parse("https://as.example.com/").expect("a URL");
        let methods = methods.map(|methods| methods.iter().map(|&it| it.to_owned()).collect());
        ServerMetadata {
            token_endpoint_auth_methods_supported: methods,
            ..ServerMetadata::assumed(&base)
        }
    }

    fn known(issuer: &str, redirect: &str) -> Client {
        Client {
            id: "known".to_owned(),
            secret: Some(Secret::new("s")),
            method: Method::ClientSecretPost,
            issuer: issuer.to_owned(),
            redirect: Some(redirect.to_owned()),
            provenance: Provenance::Registered,
        }
    }

    fn shown(choice: &Choice) -> String {
        match choice {
            Choice::Use(client) => format!("use {} by {}", client.id, client.method.name()),
            Choice::Register(method) => format!("register by {}", method.name()),
            Choice::Impossible => "impossible".to_owned(),
        }
    }

    #[test]
    fn clients_are_chosen_in_order() {
        let configured = |credential| Setup {
            configured: Some(Configured { id: "mine".to_owned(), credential, issuer: None }),
            document: Some(Url::parse("https://c.example/client.json").expect("a URL")),
        };
        let document = Setup { configured: None, ..configured(Credential::None) };
        let nothing = Setup::default();
        let secret = || configured(Credential::Secret(Secret::new("s")));
        let cimd = ServerMetadata { client_id_metadata_document_supported: true, ..server(None) };
        let closed = ServerMetadata { registration_endpoint: None, ..server(None) };
        let here = known("https://as.example.com", REDIRECT);
        let elsewhere = known("https://other.example", REDIRECT);
        let moved = known("https://as.example.com", "http://127.0.0.1:1/callback");
        for (setup, server, known, expected) in [
            (&secret(), &cimd, Some(&here), "use mine by client_secret_basic"),
            (
                &secret(),
                &server(Some(&["client_secret_post"])),
                None,
                "use mine by client_secret_post",
            ),
            (&configured(Credential::None), &cimd, None, "use mine by none"),
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
            assert_eq!(shown(&choose(setup, server, known, Some(REDIRECT))), expected);
        }
    }

    fn application() -> Application<'static> {
        Application {
            name: "Switchboard",
            redirect: Some(REDIRECT),
            method: Method::None,
            scopes: None,
            grants: &["authorization_code", "refresh_token"],
        }
    }

    #[test]
    fn a_registration_says_what_a_native_client_must() {
        let url = Url::parse("https://as.example.com/register").expect("a URL");
        let request = request(Checked { url, reach: Reach::Public }, &application());
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

    fn answered(status: u16, body: &str) -> Result<(String, Method), RegistrationError> {
        let body = body.to_owned().into();
        let answer = Answer { status, headers: HeaderMap::new(), body };
        read(&answer, &server(None), &application()).map(|client| (client.id, client.method))
    }

    #[test]
    fn answers_to_registrations_are_read() {
        let good = |method| Ok(("x".to_owned(), method));
        for (body, expected) in [
            (r#"{"client_id":"x"}"#, good(Method::None)),
            (r#"{"client_id":"x","client_secret":""}"#, good(Method::None)),
            (r#"{"client_id":"x","client_secret":"s"}"#, good(Method::ClientSecretBasic)),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                good(Method::ClientSecretPost),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                good(Method::None),
            ),
            (
                r#"{"client_id":"x","token_endpoint_auth_method":"client_secret_basic"}"#,
                good(Method::None),
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
        let mut client = known("https://a", REDIRECT);
        client.secret = Some(Secret::new("canary"));
        assert!(!format!("{client:?}").contains("canary"));
    }
}
