//! The client that we are to an authorization server, and the client that a user configured.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::crypto::signing_key::SigningKey;
use crate::secret::{Secret, revealed};

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
