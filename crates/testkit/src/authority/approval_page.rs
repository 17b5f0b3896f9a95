//! Where people sign in: what the person at the browser does is the charter's to say.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use url::Url;

use super::charter::{Consent, Indicator, IssuerParameter};
use super::enrolment::known;
use super::ledger::{Code, Grant};
use super::premises::{Premises, Visitor};
use super::sighting::Site;
use crate::scripted::{status, with_header};

/// Sends the browser back to whoever sent it, or shows it a page.
pub(super) async fn authorize(premises: &Premises, visitor: &Visitor) -> Response {
    let seen = &visitor.seen;
    let client = known(premises, visitor.site, seen.field("client_id")).await;
    let redirect = seen.field("redirect_uri");
    // Nobody is sent anywhere before it is certain that the client wants them there.
    let (Some(true), Ok(back)) =
        (client.map(|client| client.may_return_to(redirect)), Url::parse(redirect))
    else {
        return page(StatusCode::BAD_REQUEST, "<h1>Nobody asked for this</h1>");
    };
    let (consent, fault) = {
        let ledger = premises.ledger();
        let consent = match visitor.site {
            Site::Identity => Consent::Approves,
            Site::Resource | Site::Issuer | Site::Elsewhere => ledger.charter.consent,
        };
        (consent, fault(premises, visitor, ledger.charter.indicator))
    };
    if let Some(error) = fault {
        return send_back(premises, visitor, back, &[("error", error)]);
    }
    match consent {
        Consent::Page if seen.field("approved") != "yes" => {
            let query = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(&seen.fields)
                .append_pair("approved", "yes")
                .finish()
                .replace('&', "&amp;");
            let link = format!("<h1>May it?</h1><a href=\"{}?{query}\">Yes</a>", seen.path);
            page(StatusCode::OK, &link)
        }
        Consent::Denies => send_back(premises, visitor, back, &[("error", "access_denied")]),
        Consent::Elsewhere => {
            let code = new_code(premises, visitor);
            let thief = Url::parse(&premises.origins.elsewhere).expect("it is an origin");
            send_back(premises, visitor, thief, &[("code", &code)])
        }
        Consent::Approves | Consent::WrongState | Consent::NoState | Consent::Page => {
            let code = new_code(premises, visitor);
            send_back(premises, visitor, back, &[("code", &code)])
        }
    }
}

/// What is wrong with a request, in the word of the standards.
fn fault(premises: &Premises, visitor: &Visitor, indicator: Indicator) -> Option<&'static str> {
    let seen = &visitor.seen;
    if seen.field("response_type") != "code" {
        return Some("unsupported_response_type");
    }
    if seen.field("code_challenge_method") != "S256" || seen.field("code_challenge").len() != 43 {
        return Some("invalid_request");
    }
    let is_meant = visitor.site == Site::Identity
        || indicator == Indicator::Ignored
        || seen.field("resource") == premises.resource();
    (!is_meant).then_some("invalid_target")
}

fn new_code(premises: &Premises, visitor: &Visitor) -> String {
    let seen = &visitor.seen;
    let mut ledger = premises.ledger();
    let login = ledger.number();
    let code = Code {
        grant: Grant {
            site: visitor.site,
            client: seen.field("client_id").to_owned(),
            scopes: seen.field("scope").split_whitespace().map(str::to_owned).collect(),
            resource: seen.fields.get("resource").cloned(),
            key: None,
            login,
        },
        redirect: seen.field("redirect_uri").to_owned(),
        challenge: seen.field("code_challenge").to_owned(),
        nonce: seen.fields.get("nonce").cloned(),
    };
    ledger.new_code(code)
}

fn send_back(
    premises: &Premises,
    visitor: &Visitor,
    mut to: Url,
    said: &[(&str, &str)],
) -> Response {
    let ledger = premises.ledger();
    let charter = &ledger.charter;
    {
        let mut pairs = to.query_pairs_mut();
        pairs.extend_pairs(said);
        let state = visitor.seen.field("state");
        match charter.consent {
            Consent::NoState => {}
            Consent::WrongState => {
                pairs.append_pair("state", "nobody-gave-this");
            }
            Consent::Approves | Consent::Denies | Consent::Page | Consent::Elsewhere => {
                pairs.append_pair("state", state);
            }
        }
        let parameter = match visitor.site {
            Site::Identity => IssuerParameter::Announced,
            Site::Resource | Site::Issuer | Site::Elsewhere => charter.issuer_parameter,
        };
        match parameter {
            IssuerParameter::Announced | IssuerParameter::Unannounced => {
                pairs.append_pair("iss", &premises.issuer(charter, visitor.site));
            }
            IssuerParameter::Wrong => {
                pairs.append_pair("iss", &premises.origins.elsewhere);
            }
            IssuerParameter::Missing | IssuerParameter::Absent => {}
        }
    }
    with_header(status(StatusCode::FOUND), "location", to.as_str())
}

fn page(code: StatusCode, text: &str) -> Response {
    let mut response = status(code);
    *response.body_mut() = Body::from(text.to_owned());
    with_header(response, "content-type", "text/html")
}
