//! Whole logins against a function that plays every server.

mod browser;
mod device;
mod fuzz;
mod hostile;
mod non_interactive;

use std::collections::HashMap;

use http::HeaderMap;
use serde_json::{Value, json};
use url::Url;

use super::callback::{CallbackError, CallbackSource};
use super::*;
use crate::fetch::{FetchError, FetchRequest, FetchResponse};
use crate::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use crate::scopes::Scopes;
use crate::secret::Secret;
use crate::time_and_random::with_system_random;

const SERVER: &str = "https://mcp.example.com/mcp";
const REDIRECT: &str = "http://127.0.0.1:7000/callback";

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn plan(method: LoginGrant) -> LoginPlan {
    LoginPlan::new(url(SERVER), method, "Switchboard")
}

fn browser() -> LoginPlan {
    plan(LoginGrant::Browser { redirect_uri: url(REDIRECT) })
}

fn configured(credential: ClientCredential) -> ClientConfig {
    let configured = ConfiguredClient { id: "mine".to_owned(), credential, issuer: None };
    ClientConfig { configured: Some(configured), metadata_document: None }
}

fn respond_with(status: u16, body: Value) -> Result<FetchResponse, FetchError> {
    Ok(FetchResponse { status, headers: HeaderMap::new(), body: body.to_string().into() })
}

fn not_found() -> Result<FetchResponse, FetchError> {
    respond_with(404, json!("nothing"))
}

fn unreachable() -> Result<FetchResponse, FetchError> {
    Err(FetchError::Unreachable { origin: "x".to_owned(), detail: "x".to_owned() })
}

fn resource() -> Value {
    json!({
        "resource": SERVER,
        "authorization_servers": ["https://as.example.com"],
        "scopes_supported": ["read", "write"],
    })
}

fn metadata() -> Value {
    json!({
        "issuer": "https://as.example.com",
        "authorization_endpoint": "https://as.example.com/authorize",
        "token_endpoint": "https://as.example.com/token",
        "registration_endpoint": "https://as.example.com/register",
        "device_authorization_endpoint": "https://as.example.com/device",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "scopes_supported": ["read", "write", "offline_access"],
        "dpop_signing_alg_values_supported": ["ES256"],
    })
}

/// The responses of well-behaved servers.
fn serve(request: &FetchRequest) -> Result<FetchResponse, FetchError> {
    match request.url.as_str() {
        "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" => {
            respond_with(200, resource())
        }
        "https://as.example.com/.well-known/oauth-authorization-server" => {
            respond_with(200, metadata())
        }
        "https://as.example.com/register" => {
            respond_with(201, json!({ "client_id": "registered" }))
        }
        "https://as.example.com/token" => respond_with(
            200,
            json!({ "access_token": "at", "refresh_token": "rt", "expires_in": 60 }),
        ),
        _ => not_found(),
    }
}

/// The record of one login.
struct FlowRun {
    requests: Vec<FetchRequest>,
    opened: Vec<Url>,
    rejected: Vec<CallbackError>,
    outcome: Result<CompletedLogin, FlowError>,
}

impl FlowRun {
    fn request_lines(&self) -> Vec<String> {
        let each = self.requests.iter();
        each.map(|request| format!("{} {}", request.method, request.url)).collect()
    }

    fn form(&self, index: usize) -> HashMap<String, String> {
        url::form_urlencoded::parse(&self.requests[index].body).into_owned().collect()
    }

    fn last_form(&self) -> HashMap<String, String> {
        self.form(self.requests.len() - 1)
    }

    fn error(self) -> FlowError {
        self.outcome.expect_err("it fails")
    }
}

/// The callback that a browser would bring.
fn callback_for(opened: &Url) -> String {
    let state = parameter(opened, "state").expect("a state");
    format!("code=the-code&state={state}&iss=https://as.example.com")
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(it, _)| it == name).map(|(_, value)| value.into_owned())
}

const MAX_STEPS: usize = 1000;

fn run_flow_with(
    plan: LoginPlan,
    mut respond: impl FnMut(&FetchRequest) -> Result<FetchResponse, FetchError>,
    mut user: impl FnMut(&Url) -> Vec<String>,
) -> FlowRun {
    let mut run = FlowRun {
        requests: Vec::new(),
        opened: Vec::new(),
        rejected: Vec::new(),
        outcome: Err(FlowError::UnexpectedEvent),
    };
    let mut now = 1000;
    let mut returned = Vec::new();
    let (mut flow, mut step) = with_system_random(now, |inputs| Flow::start(plan, inputs));
    for _ in 0..MAX_STEPS {
        let next = |callbacks: &mut Vec<String>| Event::Callback {
            text: callbacks.pop().expect("the test supplies enough callbacks"),
            source: CallbackSource::Listener,
        };
        let event = match step {
            Step::Fetch(request) => {
                let response = respond(&request);
                run.requests.push(*request);
                Event::Fetched(response)
            }
            Step::OpenUrl(url) => {
                returned = user(&url);
                returned.reverse();
                run.opened.push(url);
                next(&mut returned)
            }
            Step::CallbackRejected(error) => {
                run.rejected.push(error);
                next(&mut returned)
            }
            Step::ShowDeviceCode(authorization) => {
                now += authorization.interval;
                Event::Waited
            }
            Step::Wait(seconds) => {
                now += seconds;
                Event::Waited
            }
            Step::Done(login) => {
                run.outcome = Ok(*login);
                return run;
            }
            Step::Failed(error) => {
                run.outcome = Err(error);
                return run;
            }
        };
        step = with_system_random(now, |inputs| flow.on(event, inputs));
    }
    panic!("the flow does not end: {:?}", run.request_lines());
}

fn run_flow(
    plan: LoginPlan,
    respond: impl FnMut(&FetchRequest) -> Result<FetchResponse, FetchError>,
) -> FlowRun {
    run_flow_with(plan, respond, |url| vec![callback_for(url)])
}

fn enterprise(token_endpoint: Option<&str>) -> LoginPlan {
    let credential = ClientCredential::Secret(Secret::new("idp-secret"));
    let client = ConfiguredClient { id: "at-idp".to_owned(), credential, issuer: None };
    let provider = IdentityProviderLogin {
        issuer: url("https://idp.corp.example"),
        token_endpoint: token_endpoint.map(url),
        client,
        id_token: Secret::new("id-token"),
    };
    let setup = configured(ClientCredential::Secret(Secret::new("as-secret")));
    LoginPlan { client_config: setup, ..plan(LoginGrant::IdentityProvider(provider)) }
}

fn with_provider(request: &FetchRequest) -> Result<FetchResponse, FetchError> {
    match request.url.as_str() {
        "https://idp.corp.example/.well-known/openid-configuration" => respond_with(
            200,
            json!({
                "issuer": "https://idp.corp.example",
                "token_endpoint": "https://idp.corp.example/token",
            }),
        ),
        "https://idp.corp.example/token" => {
            respond_with(200, json!({ "access_token": "id-jag", "token_type": "N_A" }))
        }
        _ => serve(request),
    }
}
