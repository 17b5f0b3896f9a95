//! The OAuth client as an issuer knows it, and the client settings that a user configured.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::crypto::signing_key::SigningKey;
use crate::secret::{Secret, revealed};

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthMethod {
    /// Public client: only the client ID.
    None,
    /// Client secret in the `Authorization` header.
    ClientSecretBasic,
    /// Client secret in the form.
    ClientSecretPost,
    /// Signed assertion (RFC 7523).
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    pub(super) fn parse(name: &str) -> Option<ClientAuthMethod> {
        [
            ClientAuthMethod::None,
            ClientAuthMethod::ClientSecretBasic,
            ClientAuthMethod::ClientSecretPost,
            ClientAuthMethod::PrivateKeyJwt,
        ]
        .into_iter()
        .find(|method| method.name() == name)
    }

    /// The registered name of the method.
    pub fn name(self) -> &'static str {
        match self {
            ClientAuthMethod::None => "none",
            ClientAuthMethod::ClientSecretBasic => "client_secret_basic",
            ClientAuthMethod::ClientSecretPost => "client_secret_post",
            ClientAuthMethod::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// How a client came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProvenance {
    /// The user configured it.
    Configured,
    /// Its ID is the URL of a client metadata document.
    Document,
    /// It was registered dynamically.
    Registered,
}

/// A client registered with one issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthClient {
    /// The client ID.
    pub id: String,
    /// The client secret, if it has one.
    #[serde(with = "revealed::or_none")]
    pub secret: Option<Secret>,
    /// The authentication method.
    pub method: ClientAuthMethod,
    /// The issuer that knows the client. The secret is sent to no other.
    pub issuer: String,
    /// The registered redirect URI.
    pub redirect: Option<String>,
    /// How the client came to be.
    pub provenance: ClientProvenance,
}

impl OAuthClient {
    /// Whether the client authenticates with more than its ID.
    pub fn has_credential(&self) -> bool {
        self.method != ClientAuthMethod::None
    }
}

/// The client settings of a login.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// The configured client.
    pub configured: Option<ConfiguredClient>,
    /// The URL of our client metadata document.
    pub metadata_document: Option<Url>,
}

/// A client that the user configured.
#[derive(Debug, Clone)]
pub struct ConfiguredClient {
    /// The client ID.
    pub id: String,
    /// Its credential.
    pub credential: ClientCredential,
    /// The issuer that the client is for, if known. The credential is sent to no other.
    pub issuer: Option<String>,
}

/// The credential of a client.
#[derive(Debug, Clone)]
pub enum ClientCredential {
    /// None: a public client.
    None,
    /// A client secret.
    Secret(Secret),
    /// A private key that signs assertions.
    PrivateKey(SigningKey),
}

impl ClientCredential {
    /// The private key, if that is the credential.
    pub fn signing_key(&self) -> Option<&SigningKey> {
        match self {
            ClientCredential::PrivateKey(key) => Some(key),
            ClientCredential::None | ClientCredential::Secret(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_prints_no_secret() {
        let client = OAuthClient {
            id: "known".to_owned(),
            secret: Some(Secret::new("canary")),
            method: ClientAuthMethod::ClientSecretPost,
            issuer: "https://a".to_owned(),
            redirect: None,
            provenance: ClientProvenance::Registered,
        };
        assert!(!format!("{client:?}").contains("canary"));
    }
}
