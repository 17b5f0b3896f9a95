//! The stored record of a login: its tokens, and everything that a refresh needs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crypto::dpop::DpopKey;
use crate::discovery::auth_server_metadata::AuthServerMetadata;
use crate::flow::CompletedLogin;
use crate::registration::OAuthClient;
use crate::scopes::Scopes;
use crate::secret::{Secret, revealed};
use crate::token::response::{TokenResponse, TokenType};
use crate::untrusted_text::sanitize_for_display;

/// Identifies a login.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoginKey {
    /// The URL of the server.
    pub server: String,
    /// The issuer of the tokens.
    pub issuer: String,
    /// The configured client name; empty for a client that we registered. Also separates accounts.
    pub client: String,
}

/// Stored tokens, with their lifetime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTokens {
    /// The access token.
    #[serde(with = "revealed")]
    #[serde(rename = "access")]
    pub access_token: Secret,
    /// Its type.
    #[serde(rename = "kind")]
    pub token_type: TokenType,
    /// The refresh token.
    #[serde(with = "revealed::or_none")]
    #[serde(rename = "refresh")]
    pub refresh_token: Option<Secret>,
    /// The ID token (OpenID Connect). That of an identity provider is exchanged for tokens of other servers.
    #[serde(default, with = "revealed::or_none")]
    #[serde(rename = "identity")]
    pub id_token: Option<Secret>,
    /// When the access token was issued, in seconds since the Unix epoch.
    pub issued_at: u64,
    /// When the access token expires, if known.
    pub expires_at: Option<u64>,
}

/// Whether a login can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginStatus {
    /// As far as is known, yes.
    Good,
    /// The authorization server refused the refresh token.
    NeedsLogin,
    /// The authorization server no longer knows the client.
    NeedsRegistration,
}

/// A stored login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginRecord {
    /// Identifies the login.
    pub key: LoginKey,
    /// The version. Each write increments it.
    pub version: u64,
    /// Whether the login can be used.
    #[serde(rename = "standing")]
    pub status: LoginStatus,
    /// The tokens.
    #[serde(rename = "held")]
    pub tokens: StoredTokens,
    /// The client.
    pub client: OAuthClient,
    /// The metadata of the authorization server.
    pub metadata: AuthServerMetadata,
    /// The resource identifier of the server.
    pub resource: Option<String>,
    /// The granted scopes.
    pub scopes: Option<Scopes>,
    /// The key that the tokens are bound to.
    #[serde(with = "revealed::or_none")]
    #[serde(rename = "proof")]
    pub dpop_key: Option<Secret>,
    /// The account name, for display.
    #[serde(rename = "identity")]
    pub account: Option<String>,
    /// When the user logged in, in seconds since the Unix epoch.
    pub signed_in_at: u64,
}

impl LoginRecord {
    /// The record of a completed login.
    pub fn new(login: CompletedLogin, server: &str, client: &str, now: u64) -> LoginRecord {
        let CompletedLogin { tokens, client: oauth_client, metadata, resource, scopes, dpop_key } =
            login;
        let (server, client) = (server.to_owned(), client.to_owned());
        LoginRecord {
            key: LoginKey { server, issuer: metadata.issuer.clone(), client },
            version: 0,
            status: LoginStatus::Good,
            account: tokens.id_token.as_ref().and_then(account_in_id_token),
            tokens: StoredTokens::from_response(tokens, None, now),
            client: oauth_client,
            metadata,
            resource,
            scopes,
            dpop_key: dpop_key.as_ref().map(DpopKey::to_stored),
            signed_in_at: now,
        }
    }

    /// The client to reuse in the next login; `None` if the authorization server no longer knows it.
    pub fn reusable_client(&self) -> Option<&OAuthClient> {
        match self.status {
            LoginStatus::Good | LoginStatus::NeedsLogin => Some(&self.client),
            LoginStatus::NeedsRegistration => None,
        }
    }
}

impl StoredTokens {
    /// The tokens of a response. A refresh token or ID token that the response omits stays valid.
    pub fn from_response(
        tokens: TokenResponse,
        previous: Option<&StoredTokens>,
        now: u64,
    ) -> StoredTokens {
        StoredTokens {
            access_token: tokens.access_token,
            token_type: tokens.token_type,
            refresh_token: tokens.refresh_token.or_else(|| previous?.refresh_token.clone()),
            id_token: tokens.id_token.or_else(|| previous?.id_token.clone()),
            issued_at: now,
            expires_at: tokens.expires_in.map(|seconds| now.saturating_add(seconds)),
        }
    }

    /// Whether the access token has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }

    /// Whether the access token expires soon: within a tenth of its lifetime, at most a minute.
    pub fn is_expiring(&self, now: u64) -> bool {
        const MARGIN: u64 = 60;
        let Some(at) = self.expires_at else { return false };
        let tenth = at.saturating_sub(self.issued_at) / 10;
        now.saturating_add(tenth.min(MARGIN)) >= at
    }
}

/// The account name in an ID token. The token came from the token endpoint and is only displayed, so its
/// signature is not verified.
fn account_in_id_token(token: &Secret) -> Option<String> {
    let payload = token.reveal().split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    let mut names = ["email", "preferred_username", "name", "sub"].into_iter();
    names
        .find_map(|name| claims.get(name)?.as_str())
        .map(sanitize_for_display)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::registration::{ClientAuthMethod, ClientProvenance};

    pub(crate) fn record(server: &str, issuer: &str) -> LoginRecord {
        let base = url::Url::parse("https://as.example.com/").expect("a URL");
        LoginRecord {
            key: LoginKey {
                server: server.to_owned(),
                issuer: issuer.to_owned(),
                client: String::new(),
            },
            version: 0,
            status: LoginStatus::Good,
            tokens: StoredTokens {
                access_token: Secret::new("canary-access"),
                token_type: TokenType::Bearer,
                refresh_token: Some(Secret::new("canary-refresh")),
                id_token: Some(Secret::new("canary-identity")),
                issued_at: 1000,
                expires_at: Some(2000),
            },
            client: OAuthClient {
                id: "me".to_owned(),
                secret: Some(Secret::new("canary-secret")),
                method: ClientAuthMethod::ClientSecretPost,
                issuer: issuer.to_owned(),
                redirect: None,
                provenance: ClientProvenance::Registered,
            },
            metadata: AuthServerMetadata::legacy_fallback(&base),
            resource: Some(server.to_owned()),
            scopes: Some(Scopes::parse("a b")),
            dpop_key: None,
            account: None,
            signed_in_at: 1000,
        }
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read_and_written_with_the_same_names() {
        let stored = serde_json::json!({
            "key": { "server": "https://a.b", "issuer": "https://c.d", "client": "" },
            "version": 3,
            "standing": "needs_login",
            "held": {
                "access": "a", "kind": "dpop", "refresh": "r", "identity": "i",
                "issued_at": 1000, "expires_at": 2000,
            },
            "client": {
                "id": "me", "secret": "s", "method": "client_secret_post", "issuer": "https://c.d",
                "redirect": "http://127.0.0.1:1/callback", "provenance": "registered",
            },
            "metadata": AuthServerMetadata::legacy_fallback(
                &url::Url::parse("https://as.example.com/").expect("a URL"),
            ),
            "resource": "https://a.b",
            "scopes": ["a", "b"],
            "proof": "key",
            "identity": "ada@example.com",
            "signed_in_at": 1000,
        });
        let record: LoginRecord = serde_json::from_value(stored.clone()).expect("a record");
        assert_eq!(record.status, LoginStatus::NeedsLogin);
        assert_eq!(record.tokens.refresh_token, Some(Secret::new("r")));
        assert_eq!(record.dpop_key, Some(Secret::new("key")));
        assert_eq!(record.account.as_deref(), Some("ada@example.com"));
        assert_eq!(serde_json::to_value(&record).expect("JSON"), stored);
    }

    #[test]
    fn a_record_prints_no_secret() {
        assert!(!format!("{:?}", record("https://a.b", "https://c.d")).contains("canary"));
    }

    #[test]
    fn a_token_is_renewed_a_tenth_or_a_minute_before_its_end() {
        let tokens = |issued_at, expires_at| StoredTokens {
            issued_at,
            expires_at,
            ..record("https://a.b", "https://c.d").tokens
        };
        for (issued, expires, now, expected) in [
            (0, Some(3600), 3539, false),
            (0, Some(3600), 3540, true),
            (0, Some(100), 89, false),
            (0, Some(100), 90, true),
            (0, Some(2), 1, false),
            (0, Some(2), 2, true),
            (100, Some(50), 60, true),
            (0, None, u64::MAX, false),
        ] {
            assert_eq!(
                tokens(issued, expires).is_expiring(now),
                expected,
                "{issued} {expires:?} {now}"
            );
        }
        assert!(tokens(0, Some(10)).is_expired(10) && !tokens(0, Some(10)).is_expired(9));
    }

    #[test]
    fn a_refresh_keeps_the_tokens_that_it_does_not_replace() {
        let previous = record("https://a.b", "https://c.d").tokens;
        let tokens = TokenResponse {
            access_token: Secret::new("new"),
            token_type: TokenType::Bearer,
            refresh_token: None,
            id_token: None,
            expires_in: Some(10),
            scopes: None,
        };
        let after = StoredTokens::from_response(tokens.clone(), Some(&previous), 5);
        assert_eq!(
            (&after.refresh_token, &after.id_token),
            (&previous.refresh_token, &previous.id_token)
        );
        assert_eq!((after.issued_at, after.expires_at), (5, Some(15)));
        let rotated = TokenResponse { refresh_token: Some(Secret::new("r2")), ..tokens };
        assert_eq!(
            StoredTokens::from_response(rotated, Some(&previous), 5).refresh_token,
            Some(Secret::new("r2"))
        );
    }

    #[test]
    fn a_client_unknown_to_the_issuer_is_not_reused() {
        let mut record = record("https://a.b", "https://c.d");
        assert!(record.reusable_client().is_some());
        record.status = LoginStatus::NeedsRegistration;
        assert_eq!(record.reusable_client(), None);
    }

    #[test]
    fn the_account_name_is_read_from_the_id_token() {
        let token = |claims: &str| Secret::new(format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims)));
        for (claims, expected) in [
            (r#"{"sub":"7","email":"a@b.c"}"#, Some("a@b.c")),
            (r#"{"sub":"7\u001b[31m"}"#, Some("7[31m")),
            (r#"{"sub":""}"#, None),
            (r#"{"sub":7}"#, None),
            ("rubbish", None),
        ] {
            assert_eq!(account_in_id_token(&token(claims)).as_deref(), expected, "{claims}");
        }
        assert_eq!(account_in_id_token(&Secret::new("opaque")), None);
    }
}
