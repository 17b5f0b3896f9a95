//! The authorization endpoint. The configuration decides how the user responds.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use url::Url;

use super::clients::find_client;
use super::config::{Consent, IssuerParameter, ResourceIndicator};
use super::grant_store::{AuthorizationCode, Grant};
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::SharedState;
use crate::http::response::{empty_response, with_header};

/// Redirects the browser back to the client, or shows a page.
pub(crate) async fn authorize(shared: &SharedState, request: &ObservedRequest) -> Response {
    let client = find_client(shared, request.site, request.field("client_id")).await;
    let redirect = request.field("redirect_uri");
    // Never redirect before the redirect URI is verified.
    let (Some(true), Ok(redirect_url)) =
        (client.map(|client| client.allows_redirect(redirect)), Url::parse(redirect))
    else {
        return html_page(StatusCode::BAD_REQUEST, "<h1>Unknown client or redirect URI</h1>");
    };
    let (consent, fault) = {
        let store = shared.store();
        let consent = match request.site {
            Site::Identity => Consent::Approves,
            Site::Resource | Site::Issuer | Site::Attacker => store.config.consent,
        };
        (consent, request_error(shared, request, store.config.resource_indicator))
    };
    if let Some(error) = fault {
        return redirect_back(shared, request, redirect_url, &[("error", error)]);
    }
    match consent {
        Consent::ShowsPage if request.field("approved") != "yes" => {
            let query = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(&request.fields)
                .append_pair("approved", "yes")
                .finish()
                .replace('&', "&amp;");
            let link =
                format!("<h1>Allow access?</h1><a href=\"{}?{query}\">Yes</a>", request.path);
            html_page(StatusCode::OK, &link)
        }
        Consent::Denies => {
            redirect_back(shared, request, redirect_url, &[("error", "access_denied")])
        }
        Consent::RedirectsToAttacker => {
            let code = new_code(shared, request);
            let attacker = Url::parse(&shared.origins.attacker).expect("it is an origin");
            redirect_back(shared, request, attacker, &[("code", &code)])
        }
        Consent::Approves | Consent::WrongState | Consent::NoState | Consent::ShowsPage => {
            let code = new_code(shared, request);
            redirect_back(shared, request, redirect_url, &[("code", &code)])
        }
    }
}

/// The OAuth error code for an invalid request.
fn request_error(
    shared: &SharedState,
    request: &ObservedRequest,
    indicator: ResourceIndicator,
) -> Option<&'static str> {
    if request.field("response_type") != "code" {
        return Some("unsupported_response_type");
    }
    if request.field("code_challenge_method") != "S256"
        || request.field("code_challenge").len() != 43
    {
        return Some("invalid_request");
    }
    let is_for_resource = request.site == Site::Identity
        || indicator == ResourceIndicator::Ignored
        || request.field("resource") == shared.resource_url();
    (!is_for_resource).then_some("invalid_target")
}

fn new_code(shared: &SharedState, request: &ObservedRequest) -> String {
    let mut store = shared.store();
    let login = store.next_number();
    let code = AuthorizationCode {
        grant: Grant {
            site: request.site,
            client: request.field("client_id").to_owned(),
            scopes: request.field("scope").split_whitespace().map(str::to_owned).collect(),
            resource: request.fields.get("resource").cloned(),
            dpop_thumbprint: None,
            login,
        },
        redirect_uri: request.field("redirect_uri").to_owned(),
        challenge: request.field("code_challenge").to_owned(),
        nonce: request.fields.get("nonce").cloned(),
    };
    store.store_code(code)
}

fn redirect_back(
    shared: &SharedState,
    request: &ObservedRequest,
    mut to: Url,
    parameters: &[(&str, &str)],
) -> Response {
    let store = shared.store();
    let config = &store.config;
    {
        let mut pairs = to.query_pairs_mut();
        pairs.extend_pairs(parameters);
        let state = request.field("state");
        match config.consent {
            Consent::NoState => {}
            Consent::WrongState => {
                pairs.append_pair("state", "wrong-state");
            }
            Consent::Approves
            | Consent::Denies
            | Consent::ShowsPage
            | Consent::RedirectsToAttacker => {
                pairs.append_pair("state", state);
            }
        }
        let parameter = match request.site {
            Site::Identity => IssuerParameter::Announced,
            Site::Resource | Site::Issuer | Site::Attacker => config.issuer_parameter,
        };
        match parameter {
            IssuerParameter::Announced | IssuerParameter::Unannounced => {
                pairs.append_pair("iss", &shared.issuer_url(config, request.site));
            }
            IssuerParameter::Wrong => {
                pairs.append_pair("iss", &shared.origins.attacker);
            }
            IssuerParameter::Missing | IssuerParameter::Absent => {}
        }
    }
    with_header(empty_response(StatusCode::FOUND), "location", to.as_str())
}

fn html_page(code: StatusCode, text: &str) -> Response {
    let mut response = empty_response(code);
    *response.body_mut() = Body::from(text.to_owned());
    with_header(response, "content-type", "text/html")
}
