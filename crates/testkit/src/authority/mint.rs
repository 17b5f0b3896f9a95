//! Where tokens are had and given back. What is no code and no refresh token is left to `barter` and `device_counter`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::charter::{Binding, Habit, Indicator};
use super::enrolment::{Refusal, identify, not_stored};
use super::ledger::{Code, Grant, Ledger, Pair, Shown, WithRefresh};
use super::premises::{KEY_NAME, Premises, Visitor};
use super::proof_check::{self, About, ProofFault};
use super::sighting::Site;
use super::signature_key::{hashed, unguessable};
use super::{barter, device_counter};
use crate::scripted::{document, status, with_header};

/// The number that proofs have to repeat at the token endpoint.
const NONCE: &str = "number-of-the-issuer";
/// How long an id token lives, in seconds.
const ID_TOKEN_LIVES: u64 = 3600;

/// What is handed out.
#[derive(Debug)]
pub(super) enum Issued {
    /// Tokens of our own.
    Pair { grant: Grant, pair: Pair, id_token: Option<String> },
    /// Something else, as it is answered.
    Other(Value),
}

/// A refresh that is under way, until it is dropped: whoever asks may leave in the middle.
struct UnderWay(Arc<Premises>);

impl UnderWay {
    fn begin(premises: &Arc<Premises>) -> UnderWay {
        premises.ledger().begin_refresh();
        UnderWay(Arc::clone(premises))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ledger().end_refresh();
    }
}

/// Answers at the token endpoint.
pub(super) async fn tokens(premises: &Arc<Premises>, visitor: &Visitor) -> Response {
    if visitor.seen.method != "POST" {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_refresh = visitor.seen.field("grant_type") == "refresh_token";
    let under_way = is_refresh.then(|| UnderWay::begin(premises));
    let takes = premises.ledger().charter.token_ms;
    tokio::time::sleep(Duration::from_millis(takes)).await;
    let mut ledger = premises.ledger();
    let response = match issue(premises, &mut ledger, visitor) {
        Ok(issued) => answer(&ledger, visitor.site, issued),
        Err(refusal) => {
            let response = refusal.response(&ledger.charter);
            match refusal.error.as_str() {
                "use_dpop_nonce" => with_header(response, "dpop-nonce", NONCE),
                _ => response,
            }
        }
    };
    drop(ledger);
    drop(under_way);
    response
}

fn issue(premises: &Premises, ledger: &mut Ledger, visitor: &Visitor) -> Result<Issued, Refusal> {
    let client = identify(premises, ledger, visitor)?;
    let key = key(premises, ledger, visitor)?;
    match visitor.seen.field("grant_type") {
        "authorization_code" => by_code(premises, ledger, visitor, (client, key)),
        "refresh_token" => by_refresh(ledger, visitor, &client, key),
        "client_credentials" => {
            let is_confidential = ledger
                .clients
                .get(&client)
                .is_some_and(|it| it.secret.is_some() || it.key.is_some());
            if !is_confidential {
                return Err(Refusal::new("unauthorized_client", "anybody could say that"));
            }
            let grant = new_grant(premises, ledger, visitor, (client, key))?;
            let pair = ledger.issue(&grant, WithRefresh::No);
            Ok(Issued::Pair { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            barter::check_assertion(premises, ledger, visitor, &client)?;
            let grant = new_grant(premises, ledger, visitor, (client, key))?;
            let pair = ledger.issue(&grant, WithRefresh::No);
            Ok(Issued::Pair { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:token-exchange" if visitor.site == Site::Identity => {
            barter::exchange(premises, &ledger.charter, visitor, &client).map(Issued::Other)
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            let mut grant = device_counter::poll(ledger, visitor, &client)?;
            grant.key = key;
            let pair = ledger.issue(&grant, WithRefresh::Yes);
            Ok(Issued::Pair { grant, pair, id_token: None })
        }
        _ => Err(Refusal::new("unsupported_grant_type", "tokens are not had in this way here")),
    }
}

/// The key that new tokens are bound to.
fn key(
    premises: &Premises,
    ledger: &mut Ledger,
    visitor: &Visitor,
) -> Result<Option<String>, Refusal> {
    let binding = ledger.charter.binding;
    if visitor.site == Site::Identity || binding == Binding::Ignored {
        return Ok(None);
    }
    let url = format!("{}/token", premises.issuer(&ledger.charter, visitor.site));
    let about = About { url: &url, nonce: NONCE, token: None };
    match proof_check::check(ledger, &visitor.seen, about) {
        Ok(None) if binding != Binding::Offered => {
            Err(Refusal::new("invalid_dpop_proof", "there is no proof"))
        }
        Ok(key) => Ok(key),
        Err(ProofFault::Nonce) => Err(Refusal::new("use_dpop_nonce", "say our number")),
        Err(ProofFault::Invalid(why)) => Err(Refusal::new("invalid_dpop_proof", why)),
    }
}

fn check_resource(premises: &Premises, ledger: &Ledger, visitor: &Visitor) -> Result<(), Refusal> {
    let is_meant = visitor.site == Site::Identity
        || ledger.charter.indicator == Indicator::Ignored
        || visitor.seen.field("resource") == premises.resource();
    match is_meant {
        true => Ok(()),
        false => Err(Refusal::new("invalid_target", "that is not a resource of ours")),
    }
}

fn new_grant(
    premises: &Premises,
    ledger: &mut Ledger,
    visitor: &Visitor,
    (client, key): (String, Option<String>),
) -> Result<Grant, Refusal> {
    check_resource(premises, ledger, visitor)?;
    let scopes = visitor.seen.field("scope").split_whitespace().map(str::to_owned).collect();
    let resource = visitor.seen.fields.get("resource").cloned();
    let login = ledger.number();
    Ok(Grant { site: visitor.site, client, scopes, resource, key, login })
}

fn by_code(
    premises: &Premises,
    ledger: &mut Ledger,
    visitor: &Visitor,
    (client, key): (String, Option<String>),
) -> Result<Issued, Refusal> {
    let seen = &visitor.seen;
    check_resource(premises, ledger, visitor)?;
    let code = ledger.take_code(seen.field("code"));
    let is_right = |code: &Code| {
        code.grant.client == client
            && code.grant.site == visitor.site
            && code.redirect == seen.field("redirect_uri")
            && (43..=128).contains(&seen.field("code_verifier").len())
            && hashed(seen.field("code_verifier").as_bytes()) == code.challenge
    };
    let Some(code) = code.filter(is_right) else {
        return Err(Refusal::new("invalid_grant", "the code is not good, or not yours"));
    };
    ledger.tally.logins += 1;
    let grant = Grant { key, ..code.grant };
    let pair = ledger.issue(&grant, WithRefresh::Yes);
    let is_identified = visitor.site == Site::Identity && grant.scopes.contains("openid");
    let id_token = is_identified
        .then(|| id_token(premises, &grant.client, code.nonce.as_deref(), ID_TOKEN_LIVES));
    Ok(Issued::Pair { grant, pair, id_token })
}

/// Says who somebody is, for so many seconds.
pub(super) fn id_token(
    premises: &Premises,
    client: &str,
    nonce: Option<&str>,
    lives: u64,
) -> String {
    let now = super::now();
    let mut claims = json!({
        "iss": premises.origins.identity,
        "sub": "ada",
        "aud": client,
        "iat": now,
        "exp": now + lives,
        "email": "ada@example.com",
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    premises.identity_key.sign(json!({"typ": "JWT", "kid": KEY_NAME}), &claims)
}

/// A token of the authorization server for a resource that checks signatures itself (RFC 9068).
pub(super) fn access_token(premises: &Premises, resource: &str, changes: &Value) -> String {
    let now = super::now();
    let mut claims = json!({
        "iss": premises.issuer(&premises.charter(), Site::Issuer),
        "sub": "ada",
        "aud": resource,
        "client_id": "app",
        "scope": "mcp",
        "jti": unguessable(),
        "iat": now,
        "exp": now + 600,
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    premises.identity_key.sign(json!({"typ": "at+jwt", "kid": KEY_NAME}), &claims)
}

fn by_refresh(
    ledger: &mut Ledger,
    visitor: &Visitor,
    client: &str,
    key: Option<String>,
) -> Result<Issued, Refusal> {
    let word = ledger.charter.habit_with(|habit| {
        if let Habit::RefusesRefreshAs(word) = habit { Some(word.clone()) } else { None }
    });
    let word = word.unwrap_or_else(|| "invalid_grant".to_owned());
    let no = |description| Err(Refusal::new(&word, description));
    let grant = match ledger.show_refresh(visitor.seen.field("refresh_token")) {
        Shown::Good(grant) => grant,
        Shown::Dead => return no("the refresh token is not good"),
    };
    if grant.client != client || grant.site != visitor.site || grant.key != key {
        return no("the refresh token is somebody else's");
    }
    let asked: BTreeSet<String> =
        visitor.seen.field("scope").split_whitespace().map(str::to_owned).collect();
    if !asked.is_subset(&grant.scopes) {
        return Err(Refusal::new("invalid_scope", "that is more than was granted"));
    }
    let with_refresh = match ledger.charter.has(&Habit::NoRotation) {
        true => WithRefresh::No,
        false => WithRefresh::Yes,
    };
    let pair = ledger.issue(&grant, with_refresh);
    Ok(Issued::Pair { grant, pair, id_token: None })
}

fn answer(ledger: &Ledger, site: Site, issued: Issued) -> Response {
    let charter = &ledger.charter;
    let has = |habit: &Habit| site != Site::Identity && charter.has(habit);
    let body = match issued {
        Issued::Other(body) => body,
        Issued::Pair { grant, pair, id_token } => {
            let kind = if grant.key.is_some() { "DPoP" } else { "Bearer" };
            let mut body = json!({"access_token": pair.access});
            if !has(&Habit::NoTokenType) {
                body["token_type"] = json!(kind);
            }
            if has(&Habit::ExpiryIsText) {
                body["expires_in"] = json!(charter.lifetime.to_string());
            } else if !has(&Habit::NoExpiry) {
                body["expires_in"] = json!(charter.lifetime);
            }
            if let Some(refresh) = pair.refresh {
                body["refresh_token"] = json!(refresh);
            }
            if let Some(id_token) = id_token {
                body["id_token"] = json!(id_token);
            }
            if !grant.scopes.is_empty() {
                let separator = if has(&Habit::ScopesWithCommas) { "," } else { " " };
                let scopes: Vec<&str> = grant.scopes.iter().map(String::as_str).collect();
                body["scope"] = json!(scopes.join(separator));
            }
            match has(&Habit::NestedTokens) {
                true => json!({"ok": true, "authed_user": body}),
                false => body,
            }
        }
    };
    not_stored(document(StatusCode::OK, Body::from(body.to_string())))
}

/// Takes tokens back (RFC 7009). A token that nobody knows is no error.
pub(super) fn revoke(premises: &Premises, visitor: &Visitor) -> Response {
    let mut ledger = premises.ledger();
    match identify(premises, &mut ledger, visitor) {
        Ok(_) => {
            ledger.revoke(visitor.seen.field("token"));
            status(StatusCode::OK)
        }
        Err(refusal) => refusal.response(&ledger.charter),
    }
}
