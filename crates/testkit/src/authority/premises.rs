//! Four origins on loopback, on one thread: which path leads to which endpoint, and what is written down on the way.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::charter::{Charter, Housing, IssuerPaper, ResourcePaper};
use super::lapse::Endpoint;
use super::ledger::Ledger;
use super::sighting::{Sighting, Site};
use super::signature_key::SignatureKey;
use super::{approval_page, device_counter, enrolment, gatehouse, mint, papers};
use crate::loopback::{Keeper, Port};
use crate::scripted::{Actor, Transport, document, recorded_headers, router, status};

/// Where the resource's metadata lies when only a challenge says so.
pub(super) const HIDDEN_PAPER: &str = "/about/this-resource.json";
/// The key by which the identity provider's tokens say who signed them.
pub(super) const KEY_NAME: &str = "identity-1";

/// The origins, without a slash at their end.
#[derive(Debug, Clone)]
pub(super) struct Origins {
    pub resource: String,
    pub issuer: String,
    pub identity: String,
    pub elsewhere: String,
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct Premises {
    pub origins: Origins,
    pub identity_key: SignatureKey,
    /// A document that a client publishes about itself, elsewhere.
    pub client_document: Mutex<Option<Value>>,
    ledger: Mutex<Ledger>,
}

/// One request, its body read.
#[derive(Debug)]
pub(super) struct Visitor {
    pub seen: Sighting,
    pub site: Site,
}

impl Premises {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody panics with it")
    }

    pub fn charter(&self) -> Charter {
        self.ledger().charter.clone()
    }

    /// The protected server's address.
    pub fn resource(&self) -> String {
        format!("{}/mcp", self.origins.resource)
    }

    /// Who issues tokens at a site.
    pub fn issuer(&self, charter: &Charter, site: Site) -> String {
        match (site, charter.housing) {
            (Site::Identity, _) => self.origins.identity.clone(),
            (Site::Resource | Site::Issuer | Site::Elsewhere, Housing::Apart) => {
                format!("{}{}", self.origins.issuer, charter.issuer_path)
            }
            (Site::Resource | Site::Issuer | Site::Elsewhere, Housing::Together) => {
                format!("{}{}", self.origins.resource, charter.issuer_path)
            }
        }
    }

    /// The endpoint that a request means.
    fn endpoint(&self, visitor: &Visitor) -> Option<Endpoint> {
        let ledger = self.ledger();
        let charter = &ledger.charter;
        let path = visitor.seen.path.as_str();
        if visitor.site == Site::Resource {
            if path == "/mcp" {
                return Some(Endpoint::Resource);
            }
            if Some(path) == resource_paper(charter.resource_paper) {
                return Some(Endpoint::ResourceMetadata);
            }
        }
        let issues = match charter.housing {
            Housing::Apart => Site::Issuer,
            Housing::Together => Site::Resource,
        };
        let (paper, base) = match visitor.site {
            Site::Identity => (Some("/.well-known/openid-configuration".to_owned()), ""),
            site if site == issues => (issuer_paper(charter), charter.issuer_path.as_str()),
            Site::Resource | Site::Issuer | Site::Elsewhere => return None,
        };
        if paper.is_some_and(|it| it == path) {
            return Some(Endpoint::IssuerMetadata);
        }
        match path.strip_prefix(base)? {
            "/authorize" => Some(Endpoint::Authorize),
            "/token" if visitor.seen.field("grant_type") == "refresh_token" => {
                Some(Endpoint::Refresh)
            }
            "/token" => Some(Endpoint::Token),
            "/register" => Some(Endpoint::Registration),
            "/revoke" => Some(Endpoint::Revocation),
            "/device" => Some(Endpoint::Device),
            "/jwks" => Some(Endpoint::Keys),
            _ => None,
        }
    }
}

fn resource_paper(place: ResourcePaper) -> Option<&'static str> {
    match place {
        ResourcePaper::AtPath => Some("/.well-known/oauth-protected-resource/mcp"),
        ResourcePaper::AtRoot => Some("/.well-known/oauth-protected-resource"),
        ResourcePaper::InChallengeOnly => Some(HIDDEN_PAPER),
        ResourcePaper::Absent => None,
    }
}

fn issuer_paper(charter: &Charter) -> Option<String> {
    let path = &charter.issuer_path;
    match charter.issuer_paper {
        IssuerPaper::OauthInserted => {
            Some(format!("/.well-known/oauth-authorization-server{path}"))
        }
        IssuerPaper::OidcInserted => Some(format!("/.well-known/openid-configuration{path}")),
        IssuerPaper::OidcAppended => Some(format!("{path}/.well-known/openid-configuration")),
        IssuerPaper::Absent => None,
    }
}

/// Opens all origins.
pub(super) fn open(charter: Charter, actor: Arc<Actor>) -> io::Result<(Arc<Premises>, Keeper)> {
    let [resource, issuer, identity, elsewhere] =
        [Port::open()?, Port::open()?, Port::open()?, Port::open()?];
    let premises = Arc::new(Premises {
        origins: Origins {
            resource: resource.origin.clone(),
            issuer: issuer.origin.clone(),
            identity: identity.origin.clone(),
            elsewhere: elsewhere.origin.clone(),
        },
        identity_key: SignatureKey::new(),
        client_document: Mutex::default(),
        ledger: Mutex::new(Ledger::new(charter)),
    });
    let nobody = || Router::new().fallback(async || status(StatusCode::NOT_FOUND));
    let sites = [
        (Site::Resource, resource, router(Transport::Http, actor)),
        (Site::Issuer, issuer, nobody()),
        (Site::Identity, identity, nobody()),
        (Site::Elsewhere, elsewhere, nobody()),
    ];
    let servers = sites.map(|(site, port, behind)| {
        let state = (Arc::clone(&premises), site);
        (port, behind.layer(from_fn_with_state(state, receive)))
    });
    let keeper = Keeper::serve("authority", Vec::from(servers))?;
    Ok((premises, keeper))
}

async fn receive(
    State((premises, site)): State<(Arc<Premises>, Site)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return status(StatusCode::BAD_REQUEST);
    };
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    fields.extend(
        form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned(),
    );
    let is_form = parts
        .headers
        .get("content-type")
        .is_some_and(|it| it.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if is_form {
        fields.extend(form_urlencoded::parse(&bytes).into_owned());
    }
    let seen = Sighting {
        site,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: recorded_headers(&parts.headers),
        fields,
        body: String::from_utf8_lossy(&bytes).into_owned(),
        status: None,
    };
    let number = {
        let mut ledger = premises.ledger();
        ledger.sightings.push(seen.clone());
        ledger.sightings.len() - 1
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    let response = answer(&premises, Visitor { seen, site }, (request, next)).await;
    premises.ledger().sightings[number].status = Some(response.status().as_u16());
    response
}

async fn answer(premises: &Arc<Premises>, visitor: Visitor, onward: (Request, Next)) -> Response {
    let Some(endpoint) = premises.endpoint(&visitor) else { return otherwise(premises, &visitor) };
    let due = premises.ledger().count(endpoint);
    for how in &due {
        if let Some(response) = how.instead(&premises.origins.elsewhere).await {
            return response;
        }
    }
    let mut response = at(endpoint, premises, &visitor, onward).await;
    for how in &due {
        response = how.afterwards(response).await;
    }
    response
}

async fn at(
    endpoint: Endpoint,
    premises: &Arc<Premises>,
    visitor: &Visitor,
    (request, next): (Request, Next),
) -> Response {
    match endpoint {
        Endpoint::ResourceMetadata => {
            paper(&papers::of_resource(premises, &premises.ledger().charter))
        }
        Endpoint::IssuerMetadata => match visitor.site {
            Site::Identity => paper(&papers::of_identity(premises)),
            Site::Resource | Site::Issuer | Site::Elsewhere => {
                paper(&papers::of_issuer(premises, &premises.ledger().charter))
            }
        },
        Endpoint::Registration => enrolment::register(premises, visitor),
        Endpoint::Authorize => approval_page::authorize(premises, visitor).await,
        Endpoint::Token | Endpoint::Refresh => mint::tokens(premises, visitor).await,
        Endpoint::Revocation => mint::revoke(premises, visitor),
        Endpoint::Device => device_counter::begin(premises, visitor),
        Endpoint::Keys => {
            let mut key = premises.identity_key.public();
            key["kid"] = json!(KEY_NAME);
            key["use"] = json!("sig");
            paper(&json!({"keys": [key]}))
        }
        Endpoint::Resource => match gatehouse::check(premises, visitor) {
            Ok(()) => next.run(request).await,
            Err(refusal) => *refusal,
        },
    }
}

/// Somebody else answers everything, as a thief would.
fn otherwise(premises: &Premises, visitor: &Visitor) -> Response {
    if visitor.site != Site::Elsewhere {
        return status(StatusCode::NOT_FOUND);
    }
    let published = premises.client_document.lock().expect("nobody panics with it").clone();
    match published.filter(|_| visitor.seen.path == "/client.json") {
        Some(published) => paper(&published),
        None => paper(&json!({})),
    }
}

/// A document that may be kept for a while.
fn paper(value: &Value) -> Response {
    document(StatusCode::OK, Body::from(value.to_string()))
}
