//! Where logins are kept: records of tokens and of everything that a refresh needs, so that a restart wants no
//! network. The port is [`Vault`]; the one on disk is [`folder::FolderVault`], sealed with a key from the
//! system's keychain where there is one.

pub mod folder;
mod hold;
pub mod keychain;
mod seal;

use std::io;
use std::pin::Pin;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::confidential::{Secret, revealed};
use crate::discovery::resource_metadata::short;
use crate::discovery::server_metadata::ServerMetadata;
use crate::dpop::ProofKey;
use crate::flow::SignedIn;
use crate::registration::Client;
use crate::scopes::Scopes;
use crate::token::{Kind, Tokens};

pub use hold::Hold;

/// Which login.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordKey {
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
pub struct Held {
    /// The token for the server.
    #[serde(with = "revealed")]
    pub access: Secret,
    /// How it is shown.
    pub kind: Kind,
    /// The token for the next one.
    #[serde(with = "revealed::or_none")]
    pub refresh: Option<Secret>,
    /// Who signed in, as OpenID Connect says it. An identity provider's is what other servers are shown.
    #[serde(default, with = "revealed::or_none")]
    pub identity: Option<Secret>,
    /// When it was issued, in seconds since 1970.
    pub issued_at: u64,
    /// When it ends, where that is known.
    pub expires_at: Option<u64>,
}

/// Whether a login can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As far as we know.
    Good,
    /// The authorization server does not take the refresh token any more.
    NeedsLogin,
    /// It does not even know the client any more.
    NeedsRegistration,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which one.
    pub key: RecordKey,
    /// Which state of it. Every change is one more.
    pub version: u64,
    /// Whether it can be used.
    pub standing: Standing,
    /// The tokens.
    pub held: Held,
    /// Who we are.
    pub client: Client,
    /// Who signed us in.
    pub metadata: ServerMetadata,
    /// The server's name for itself.
    pub resource: Option<String>,
    /// What we may do.
    pub scopes: Option<Scopes>,
    /// What the tokens are bound to.
    #[serde(with = "revealed::or_none")]
    pub proof: Option<Secret>,
    /// Who signed in, for people to read.
    pub identity: Option<String>,
    /// When somebody signed in, in seconds since 1970.
    pub signed_in_at: u64,
}

impl Record {
    /// The record of a login that was just made.
    pub fn of(signed_in: SignedIn, server: &str, client: &str, now: u64) -> Record {
        let SignedIn { tokens, client: who, metadata, resource, scopes, proof } = signed_in;
        let (server, client) = (server.to_owned(), client.to_owned());
        Record {
            key: RecordKey { server, issuer: metadata.issuer.clone(), client },
            version: 0,
            standing: Standing::Good,
            identity: tokens.identity.as_ref().and_then(identity_in),
            held: Held::of(tokens, None, now),
            client: who,
            metadata,
            resource,
            scopes,
            proof: proof.as_ref().map(ProofKey::to_store),
            signed_in_at: now,
        }
    }

    /// Who we were, for the next login there; nobody, where the authorization server has forgotten us.
    pub fn known_client(&self) -> Option<&Client> {
        match self.standing {
            Standing::Good | Standing::NeedsLogin => Some(&self.client),
            Standing::NeedsRegistration => None,
        }
    }
}

impl Held {
    /// What is held after tokens were issued. A refresh token that was not replaced is still good.
    pub fn of(tokens: Tokens, before: Option<&Held>, now: u64) -> Held {
        Held {
            access: tokens.access,
            kind: tokens.kind,
            refresh: tokens.refresh.or_else(|| before?.refresh.clone()),
            identity: tokens.identity.or_else(|| before?.identity.clone()),
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
fn identity_in(token: &Secret) -> Option<String> {
    let payload = token.reveal().split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    let mut names = ["email", "preferred_username", "name", "sub"].into_iter();
    names.find_map(|name| claims.get(name)?.as_str()).map(short).filter(|name| !name.is_empty())
}

/// Why a login could not be read or written.
#[derive(Debug, Error)]
pub enum VaultError {
    /// The system would not let us.
    #[error("the folder of logins cannot be used")]
    Io(#[from] io::Error),
    /// It is sealed, and the key is not there.
    #[error("the login is sealed with a key that the system's keychain does not give out")]
    Sealed,
    /// It was changed by something else than us.
    #[error("the record of the login is damaged")]
    Damaged,
    /// Somebody else is at it.
    #[error("another process has been busy with this login for {0} seconds")]
    Busy(u64),
    /// The keychain was asked for and cannot be used.
    #[error("the system's keychain cannot be used")]
    Keychain(#[from] keychain::KeychainError),
}

/// Something that the vault does, which may take a while.
pub type Keeping<'a, T> = Pin<Box<dyn Future<Output = Result<T, VaultError>> + Send + 'a>>;

/// What became of a record that was to be written.
#[derive(Debug)]
pub enum Swapped {
    /// It is there, with this version.
    Written(u64),
    /// Somebody was faster. This is what is there, if anything is.
    Stale(Option<Box<Record>>),
}

/// Keeps logins.
pub trait Vault: Send + Sync {
    /// The login at a server as a client: the latest, if there were several authorization servers.
    fn find<'a>(&'a self, server: &'a str, client: &'a str) -> Keeping<'a, Option<Record>>;

    /// One login.
    fn read<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Option<Record>>;

    /// Writes a record if what is there still has its version (0: nothing is there), and counts that up.
    fn swap<'a>(&'a self, record: &'a Record) -> Keeping<'a, Swapped>;

    /// Removes a login if it still has this version.
    fn remove<'a>(&'a self, key: &'a RecordKey, version: u64) -> Keeping<'a, Swapped>;

    /// Every login that can be read.
    fn all<'a>(&'a self) -> Keeping<'a, Vec<Record>>;

    /// Holds a login against everybody else on this machine, until it is dropped or the process ends.
    fn hold<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Hold>;
}

/// Writes the record of a new login over whatever is there.
pub async fn put(vault: &dyn Vault, mut record: Record) -> Result<Record, VaultError> {
    const TRIES: u32 = 16;
    for _ in 0..TRIES {
        match vault.swap(&record).await? {
            Swapped::Written(version) => {
                record.version = version;
                return Ok(record);
            }
            Swapped::Stale(there) => record.version = there.map_or(0, |there| there.version),
        }
    }
    Err(VaultError::Busy(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::registration::{Method, Provenance};

    pub(crate) fn record(server: &str, issuer: &str) -> Record {
        let base = url::Url::parse("https://as.example.com/").expect("a URL");
        Record {
            key: RecordKey {
                server: server.to_owned(),
                issuer: issuer.to_owned(),
                client: String::new(),
            },
            version: 0,
            standing: Standing::Good,
            held: Held {
                access: Secret::new("canary-access"),
                kind: Kind::Bearer,
                refresh: Some(Secret::new("canary-refresh")),
                identity: Some(Secret::new("canary-identity")),
                issued_at: 1000,
                expires_at: Some(2000),
            },
            client: Client {
                id: "me".to_owned(),
                secret: Some(Secret::new("canary-secret")),
                method: Method::ClientSecretPost,
                issuer: issuer.to_owned(),
                redirect: None,
                provenance: Provenance::Registered,
            },
            metadata: ServerMetadata::assumed(&base),
            resource: Some(server.to_owned()),
            scopes: Some(Scopes::parse("a b")),
            proof: None,
            identity: None,
            signed_in_at: 1000,
        }
    }

    #[test]
    fn a_record_prints_no_secret() {
        assert!(!format!("{:?}", record("https://a.b", "https://c.d")).contains("canary"));
    }

    #[test]
    fn a_token_is_renewed_a_tenth_or_a_minute_before_its_end() {
        let held = |issued_at, expires_at| Held {
            issued_at,
            expires_at,
            ..record("https://a.b", "https://c.d").held
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
        let before = record("https://a.b", "https://c.d").held;
        let tokens = Tokens {
            access: Secret::new("new"),
            kind: Kind::Bearer,
            refresh: None,
            identity: None,
            expires_in: Some(10),
            scopes: None,
        };
        let after = Held::of(tokens.clone(), Some(&before), 5);
        assert_eq!((&after.refresh, &after.identity), (&before.refresh, &before.identity));
        assert_eq!((after.issued_at, after.expires_at), (5, Some(15)));
        let rotated = Tokens { refresh: Some(Secret::new("r2")), ..tokens };
        assert_eq!(Held::of(rotated, Some(&before), 5).refresh, Some(Secret::new("r2")));
    }

    #[test]
    fn a_client_that_was_forgotten_is_not_used_again() {
        let mut record = record("https://a.b", "https://c.d");
        assert!(record.known_client().is_some());
        record.standing = Standing::NeedsRegistration;
        assert_eq!(record.known_client(), None);
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
            assert_eq!(identity_in(&token(claims)).as_deref(), expected, "{claims}");
        }
        assert_eq!(identity_in(&Secret::new("opaque")), None);
    }
}
