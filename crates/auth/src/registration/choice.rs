//! Which client a login uses: configured, described by a metadata document, registered before, or a new
//! registration.

use super::client::{
    ClientAuthMethod, ClientConfig, ClientCredential, ClientProvenance, OAuthClient,
};
use crate::discovery::auth_server_metadata::AuthServerMetadata;
use crate::secret::Secret;

/// The client to use, or how to get one.
#[derive(Debug)]
pub enum ClientChoice {
    /// Use this client.
    Use(OAuthClient),
    /// Register a client with this authentication method.
    Register(ClientAuthMethod),
    /// No client is configured, and the server does not register clients.
    Unavailable,
}

/// Chooses the client: configured, then the metadata document, then a previous registration, then a new one.
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

/// The method for a client secret. Without metadata the default is `client_secret_basic` (RFC 8414).
pub(super) fn secret_auth_method(server: &AuthServerMetadata) -> ClientAuthMethod {
    match (
        supports_auth_method(server, ClientAuthMethod::ClientSecretBasic),
        supports_auth_method(server, ClientAuthMethod::ClientSecretPost),
    ) {
        (false, true) => ClientAuthMethod::ClientSecretPost,
        (true, _) | (false, false) => ClientAuthMethod::ClientSecretBasic,
    }
}

/// The method to register with. A native app avoids a client secret where it can.
fn registration_auth_method(server: &AuthServerMetadata) -> ClientAuthMethod {
    match &server.token_endpoint_auth_methods_supported {
        None => ClientAuthMethod::None,
        Some(_) if supports_auth_method(server, ClientAuthMethod::None) => ClientAuthMethod::None,
        Some(_) => secret_auth_method(server),
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::registration::client::ConfiguredClient;

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

    fn describe(choice: &ClientChoice) -> String {
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
            assert_eq!(
                describe(&choose_client(config, server, registered, Some(REDIRECT))),
                expected
            );
        }
    }
}
