//! The gate in front of the protected server: who is let in, and what everybody else is told.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::Value;

use super::charter::{Binding, Challenge, Charter, Habit, Indicator, ResourcePaper};
use super::ledger::Ledger;
use super::premises::{HIDDEN_PAPER, Premises, Visitor};
use super::proof_check::{self, About, ProofFault};
use super::sighting::Site;
use crate::scripted::{document, with_header};

/// The number that proofs have to repeat at the resource.
const NONCE: &str = "number-of-the-resource";
/// The scope that is never enough.
const MORE: &str = "more:than:you:have";

/// Is a request let in? Otherwise, the answer that it gets.
pub(super) fn check(premises: &Premises, visitor: &Visitor) -> Result<(), Box<Response>> {
    let mut ledger = premises.ledger();
    let refuse = |charter: &Charter, why: &Why<'_>| Err(Box::new(why.response(premises, charter)));
    let shown = visitor.seen.header("authorization").unwrap_or_default();
    let Some((scheme, token)) = shown.split_once(' ') else {
        return refuse(&ledger.charter, &Why::NoToken);
    };
    let Some(grant) = ledger.access(token).cloned() else {
        return refuse(&ledger.charter, &Why::BadToken("invalid_token"));
    };
    let is_for_us = ledger.charter.indicator == Indicator::Ignored
        || grant.resource.as_deref() == Some(premises.resource().as_str());
    if grant.site == Site::Identity || !is_for_us {
        return refuse(&ledger.charter, &Why::BadToken("invalid_token"));
    }
    let wanted = if grant.key.is_some() { "DPoP" } else { "Bearer" };
    if !scheme.eq_ignore_ascii_case(wanted) {
        return refuse(&ledger.charter, &Why::BadToken("invalid_token"));
    }
    if grant.key.is_some() {
        let url = premises.resource();
        let about = About { url: &url, nonce: NONCE, token: Some(token) };
        match proof_check::check(&mut ledger, &visitor.seen, about) {
            Ok(key) if key == grant.key => {}
            Ok(_) | Err(ProofFault::Invalid(_)) => {
                return refuse(&ledger.charter, &Why::BadToken("invalid_dpop_proof"));
            }
            Err(ProofFault::Nonce) => {
                return refuse(&ledger.charter, &Why::BadToken("use_dpop_nonce"));
            }
        }
    }
    match missing(&ledger, visitor, |scope| grant.scopes.contains(scope)) {
        Some(scope) => refuse(&ledger.charter, &Why::Scope(&scope)),
        None => Ok(()),
    }
}

/// The scope that a request needs and does not have.
fn missing(ledger: &Ledger, visitor: &Visitor, has: impl Fn(&str) -> bool) -> Option<String> {
    let message: Value = serde_json::from_str(&visitor.seen.body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    let tool = message["params"]["name"].as_str().filter(|_| method == "tools/call");
    if method == "tools/call" && ledger.charter.has(&Habit::NeverEnough) {
        return Some(MORE.to_owned());
    }
    let needs = ledger.charter.needs.iter();
    let mut needs = needs.filter(|need| need.what == method || Some(need.what.as_str()) == tool);
    needs.find(|need| !has(&need.scope)).map(|need| need.scope.clone())
}

enum Why<'a> {
    NoToken,
    BadToken(&'a str),
    Scope(&'a str),
}

impl Why<'_> {
    fn response(&self, premises: &Premises, charter: &Charter) -> Response {
        let code = match self {
            Why::NoToken | Why::BadToken(_) => StatusCode::UNAUTHORIZED,
            Why::Scope(_) => StatusCode::FORBIDDEN,
        };
        let mut response = document(code, Body::from("{}"));
        if charter.binding == Binding::WithNonce {
            response = with_header(response, "dpop-nonce", NONCE);
        }
        let ours = self.challenge(premises, charter);
        let challenges = match charter.challenge {
            Challenge::None => Vec::new(),
            Challenge::Full | Challenge::Bare => vec![ours],
            Challenge::Several => {
                vec!["Basic realm=\"here, there\"".to_owned(), "Negotiate".to_owned(), ours]
            }
        };
        for challenge in challenges {
            let value = HeaderValue::from_str(&challenge).expect("a charter has real headers");
            response.headers_mut().append("www-authenticate", value);
        }
        response
    }

    fn challenge(&self, premises: &Premises, charter: &Charter) -> String {
        let mut said = Vec::new();
        let place = match charter.resource_paper {
            ResourcePaper::AtPath => Some("/.well-known/oauth-protected-resource/mcp"),
            ResourcePaper::AtRoot => Some("/.well-known/oauth-protected-resource"),
            ResourcePaper::InChallengeOnly => Some(HIDDEN_PAPER),
            ResourcePaper::Absent => None,
        };
        if let Some(place) = place
            && charter.challenge != Challenge::Bare
        {
            said.push(format!("resource_metadata=\"{}{place}\"", premises.origins.resource));
        }
        match self {
            Why::NoToken => {}
            Why::BadToken(error) => said.push(format!("error=\"{error}\"")),
            Why::Scope(_) => said.push("error=\"insufficient_scope\"".to_owned()),
        }
        let scope = match self {
            Why::NoToken | Why::BadToken(_) => charter.challenge_scope.as_deref(),
            Why::Scope(scope) => Some(*scope),
        };
        said.extend(scope.map(|scope| format!("scope=\"{scope}\"")));
        let scheme = match charter.binding {
            Binding::Ignored | Binding::Offered => "Bearer",
            Binding::Demanded | Binding::WithNonce => "DPoP",
        };
        match said.is_empty() {
            true => scheme.to_owned(),
            false => format!("{scheme} {}", said.join(", ")),
        }
    }
}
