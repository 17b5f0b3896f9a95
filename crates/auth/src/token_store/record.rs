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

/// Which login.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoginKey {
    /// The server's URL.
    pub server: String,
    /// Who signed us in.
    pub issuer: String,
    /// As which client: the configured name, or empty for one that we come by ourselves. Accounts are told
    /// apart by it, too.
    pub client: String,
}

/// A token and when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTokens {
    /// The token for the server.
    #[serde(with = "revealed")]
    #[serde(rename = "access")]
    pub access_token: Secret,
    /// How it is shown.
    #[serde(rename = "kind")]
    pub token_type: TokenType,
    /// The token for the next one.
    #[serde(with = "revealed::or_none")]
    #[serde(rename = "refresh")]
    pub refresh_token: Option<Secret>,
    /// Who signed in, as OpenID Connect says it. An identity provider's is what other servers are shown.
    #[serde(default, with = "revealed::or_none")]
    #[serde(rename = "identity")]
    pub id_token: Option<Secret>,
    /// When it was issued, in seconds since 1970.
    pub issued_at: u64,
    /// When it ends, where that is known.
    pub expires_at: Option<u64>,
}

/// Whether a login can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginStatus {
    /// As far as we know.
    Good,
    /// The authorization server does not take the refresh token any more.
    NeedsLogin,
    /// It does not even know the client any more.
    NeedsRegistration,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginRecord {
    /// Which one.
    pub key: LoginKey,
    /// Which state of it. Every change is one more.
    pub version: u64,
    /// Whether it can be used.
    #[serde(rename = "standing")]
    pub status: LoginStatus,
    /// The tokens.
    #[serde(rename = "held")]
    pub tokens: StoredTokens,
    /// Who we are.
    pub client: OAuthClient,
    /// Who signed us in.
    pub metadata: AuthServerMetadata,
    /// The server's name for itself.
    pub resource: Option<String>,
    /// What we may do.
    pub scopes: Option<Scopes>,
    /// What the tokens are bound to.
    #[serde(with = "revealed::or_none")]
    #[serde(rename = "proof")]
    pub dpop_key: Option<Secret>,
    /// Who signed in, for people to read.
    #[serde(rename = "identity")]
    pub account: Option<String>,
    /// When somebody signed in, in seconds since 1970.
    pub signed_in_at: u64,
}

impl LoginRecord {
    /// The record of a login that was just made.
    pub fn new(signed_in: CompletedLogin, server: &str, client: &str, now: u64) -> LoginRecord {
        let CompletedLogin { tokens, client: who, metadata, resource, scopes, dpop_key: proof } =
            signed_in;
        let (server, client) = (server.to_owned(), client.to_owned());
        LoginRecord {
            key: LoginKey { server, issuer: metadata.issuer.clone(), client },
            version: 0,
            status: LoginStatus::Good,
            account: tokens.id_token.as_ref().and_then(account_in_id_token),
            tokens: StoredTokens::from_response(tokens, None, now),
            client: who,
            metadata,
            resource,
            scopes,
            dpop_key: proof.as_ref().map(DpopKey::to_stored),
            signed_in_at: now,
        }
    }

    /// Who we were, for the next login there; nobody, where the authorization server has forgotten us.
    pub fn reusable_client(&self) -> Option<&OAuthClient> {
        match self.status {
            LoginStatus::Good | LoginStatus::NeedsLogin => Some(&self.client),
            LoginStatus::NeedsRegistration => None,
        }
    }
}

impl StoredTokens {
    /// What is held after tokens were issued. A refresh token that was not replaced is still good.
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

    /// Is it over?
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }

    /// Will it be over soon: within a tenth of its life, and at most a minute?
    pub fn is_expiring(&self, now: u64) -> bool {
        const MARGIN: u64 = 60;
        let Some(at) = self.expires_at else { return false };
        let tenth = at.saturating_sub(self.issued_at) / 10;
        now.saturating_add(tenth.min(MARGIN)) >= at
    }
}

/// Who an ID token is about. It came from the token endpoint itself and is only shown, so nobody verifies it.
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
        let held = |issued_at, expires_at| StoredTokens {
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
                held(issued, expires).is_expiring(now),
                expected,
                "{issued} {expires:?} {now}"
            );
        }
        assert!(held(0, Some(10)).is_expired(10) && !held(0, Some(10)).is_expired(9));
    }

    #[test]
    fn what_a_renewal_does_not_replace_is_kept() {
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
    fn a_client_that_was_forgotten_is_not_used_again() {
        let mut record = record("https://a.b", "https://c.d");
        assert!(record.reusable_client().is_some());
        record.status = LoginStatus::NeedsRegistration;
        assert_eq!(record.reusable_client(), None);
    }

    #[test]
    fn who_signed_in_is_read_for_people() {
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
