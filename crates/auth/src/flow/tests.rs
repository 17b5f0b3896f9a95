//! Whole logins against a world that is a function.

use std::collections::HashMap;

use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::crypto::pkce::with_system_random;
use crate::crypto::signing_key::tests::verify_and_decode;
use crate::registration::{ClientAuthMethod, ClientCredential, ClientProvenance};
use crate::token::response::TokenErrorCode;

const SERVER: &str = "https://mcp.example.com/mcp";
const REDIRECT: &str = "http://127.0.0.1:7000/callback";

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn plan(way: LoginGrant) -> LoginPlan {
    LoginPlan::new(url(SERVER), way, "Switchboard")
}

fn browser() -> LoginPlan {
    plan(LoginGrant::Browser { redirect_uri: url(REDIRECT) })
}

fn configured(credential: ClientCredential) -> ClientConfig {
    let configured = ConfiguredClient { id: "mine".to_owned(), credential, issuer: None };
    ClientConfig { configured: Some(configured), metadata_document: None }
}

fn answer(status: u16, body: Value) -> Result<FetchResponse, FetchError> {
    Ok(FetchResponse { status, headers: HeaderMap::new(), body: body.to_string().into() })
}

fn not_found() -> Result<FetchResponse, FetchError> {
    answer(404, json!("nothing"))
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

/// The world as it should be.
fn serve(request: &FetchRequest) -> Result<FetchResponse, FetchError> {
    match request.url.as_str() {
        "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" => {
            answer(200, resource())
        }
        "https://as.example.com/.well-known/oauth-authorization-server" => answer(200, metadata()),
        "https://as.example.com/register" => answer(201, json!({ "client_id": "registered" })),
        "https://as.example.com/token" => {
            answer(200, json!({ "access_token": "at", "refresh_token": "rt", "expires_in": 60 }))
        }
        _ => not_found(),
    }
}

/// What happened in a login.
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

/// Comes back as a browser would.
fn callback_for(opened: &Url) -> String {
    let state = parameter(opened, "state").expect("a state");
    format!("code=the-code&state={state}&iss=https://as.example.com")
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(it, _)| it == name).map(|(_, value)| value.into_owned())
}

const MOST_STEPS: usize = 1000;

fn run_flow_with(
    plan: LoginPlan,
    mut respond: impl FnMut(&FetchRequest) -> Result<FetchResponse, FetchError>,
    mut person: impl FnMut(&Url) -> Vec<String>,
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
    for _ in 0..MOST_STEPS {
        let next = |callbacks: &mut Vec<String>| Event::Callback {
            text: callbacks.pop().expect("the person has more to say"),
            source: CallbackSource::Listener,
        };
        let event = match step {
            Step::Fetch(request) => {
                let answer = respond(&request);
                run.requests.push(*request);
                Event::Fetched(answer)
            }
            Step::OpenUrl(url) => {
                returned = person(&url);
                returned.reverse();
                run.opened.push(url);
                next(&mut returned)
            }
            Step::CallbackRejected(error) => {
                run.rejected.push(error);
                next(&mut returned)
            }
            Step::ShowDeviceCode(instructions) => {
                now += instructions.interval;
                Event::Waited
            }
            Step::Wait(seconds) => {
                now += seconds;
                Event::Waited
            }
            Step::Done(signed_in) => {
                run.outcome = Ok(*signed_in);
                return run;
            }
            Step::Failed(why) => {
                run.outcome = Err(why);
                return run;
            }
        };
        step = with_system_random(now, |inputs| flow.on(event, inputs));
    }
    panic!("it never ends: {:?}", run.request_lines());
}

fn run_flow(
    plan: LoginPlan,
    respond: impl FnMut(&FetchRequest) -> Result<FetchResponse, FetchError>,
) -> FlowRun {
    run_flow_with(plan, respond, |url| vec![callback_for(url)])
}

#[test]
fn a_person_signs_in_with_a_client_that_registers_itself() {
    let run = run_flow(browser(), serve);
    assert_eq!(
        run.request_lines(),
        [
            "GET https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
            "GET https://as.example.com/.well-known/oauth-authorization-server",
            "POST https://as.example.com/register",
            "POST https://as.example.com/token",
        ]
    );
    let opened = &run.opened[0];
    for (name, expected) in [
        ("client_id", "registered"),
        ("redirect_uri", REDIRECT),
        ("resource", SERVER),
        ("scope", "read write offline_access"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(parameter(opened, name).as_deref(), Some(expected), "{name}");
    }
    let form = run.last_form();
    for (name, expected) in [
        ("grant_type", "authorization_code"),
        ("code", "the-code"),
        ("client_id", "registered"),
        ("redirect_uri", REDIRECT),
        ("resource", SERVER),
    ] {
        assert_eq!(form[name], expected, "{name}");
    }
    let challenge = crate::crypto::pkce::sha256_base64url(form["code_verifier"].as_bytes());
    assert_eq!(parameter(opened, "code_challenge"), Some(challenge));
    let signed_in = run.outcome.expect("signed in");
    assert!(signed_in.tokens.access_token.equals("at"));
    assert_eq!(signed_in.client.issuer, "https://as.example.com");
    assert_eq!(signed_in.scopes, Some(Scopes::parse("read write offline_access")));
    assert_eq!(signed_in.resource.as_deref(), Some(SERVER));
}

#[test]
fn a_client_that_is_known_to_this_issuer_is_used_again_and_to_another_not() {
    let known = |issuer: &str| OAuthClient {
        id: "known".to_owned(),
        secret: None,
        method: ClientAuthMethod::None,
        issuer: issuer.to_owned(),
        redirect: Some(REDIRECT.to_owned()),
        provenance: ClientProvenance::Registered,
    };
    for (issuer, expected) in
        [("https://as.example.com", "known"), ("https://old.example.com", "registered")]
    {
        let run = run_flow(LoginPlan { previous_client: Some(known(issuer)), ..browser() }, serve);
        assert_eq!(run.outcome.expect("signed in").client.id, expected);
    }
}

#[test]
fn a_client_that_is_set_up_for_one_issuer_is_shown_to_no_other() {
    let mut setup = configured(ClientCredential::Secret(Secret::new("canary")));
    if let Some(configured) = &mut setup.configured {
        configured.issuer = Some("https://old.example.com".to_owned());
    }
    let run = run_flow(LoginPlan { client_config: setup, ..browser() }, serve);
    assert!(matches!(run.error(), FlowError::IssuerMismatch { .. }));
}

#[test]
fn the_challenge_says_where_and_what() {
    let challenge = AuthChallenge {
        resource_metadata: Some("https://mcp.example.com/custom".to_owned()),
        scopes: Some(Scopes::parse("admin")),
        ..AuthChallenge::default()
    };
    let run = run_flow(LoginPlan { challenge, ..browser() }, |request| match request.url.path() {
        "/custom" => answer(200, resource()),
        _ => serve(request),
    });
    assert_eq!(run.request_lines()[0], "GET https://mcp.example.com/custom");
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("admin offline_access"));
}

#[test]
fn more_is_asked_for_together_with_what_is_held() {
    let challenge =
        AuthChallenge { scopes: Some(Scopes::parse("admin")), ..AuthChallenge::default() };
    let held = Some(Scopes::parse("read"));
    let run = run_flow(LoginPlan { challenge, granted_scopes: held, ..browser() }, serve);
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("read admin offline_access"));
}

#[test]
fn without_metadata_the_server_signs_people_in_itself() {
    let run = run_flow_with(
        browser(),
        |request| match (request.url.path(), request.url.host_str()) {
            ("/register", Some("mcp.example.com")) => answer(201, json!({ "client_id": "x" })),
            ("/token", Some("mcp.example.com")) => answer(200, json!({ "access_token": "at" })),
            _ => not_found(),
        },
        |url| {
            let state = parameter(url, "state").expect("a state");
            vec![format!("code=c&state={state}")]
        },
    );
    assert_eq!(
        run.request_lines(),
        [
            "GET https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
            "GET https://mcp.example.com/.well-known/oauth-protected-resource",
            "GET https://mcp.example.com/.well-known/oauth-authorization-server",
            "GET https://mcp.example.com/.well-known/openid-configuration",
            "POST https://mcp.example.com/register",
            "POST https://mcp.example.com/token",
        ]
    );
    assert!(run.opened[0].as_str().starts_with("https://mcp.example.com/authorize?"));
    assert_eq!(parameter(&run.opened[0], "resource"), None);
    assert!(run.outcome.is_ok());
}

#[test]
fn a_typed_metadata_url_stands_above_what_the_server_names() {
    let metadata_url = Some(url("https://sso.corp.example/meta"));
    let run =
        run_flow(LoginPlan { metadata_url, ..browser() }, |request| match request.url.path() {
            "/meta" => answer(200, metadata()),
            _ => serve(request),
        });
    assert_eq!(run.request_lines()[1], "GET https://sso.corp.example/meta");
    assert!(run.outcome.is_ok());
}

#[test]
fn an_outage_is_not_taken_for_a_server_without_metadata() {
    assert!(matches!(run_flow(browser(), |_| unreachable()).error(), FlowError::Fetch(_)));
    let run = run_flow(browser(), |_| answer(503, json!({})));
    assert_eq!(run.error(), FlowError::Unavailable { status: 503 });
}

#[test]
fn hostile_metadata_ends_the_login() {
    let with_resource = |change: Value| {
        run_flow(browser(), move |request| match request.url.path() {
            "/.well-known/oauth-protected-resource/mcp" => answer(200, change.clone()),
            _ => serve(request),
        })
        .error()
    };
    let other = json!({ "resource": "https://evil.example/", "authorization_servers": [] });
    assert!(matches!(
        with_resource(other),
        FlowError::ResourceMetadata(ResourceMetadataError::Mismatch(_))
    ));
    for (named, why) in [
        ("http://as.example.com", UrlError::Unencrypted),
        ("https://169.254.169.254", UrlError::PrivateAddress),
        ("https://localhost", UrlError::PrivateAddress),
        ("javascript:alert(1)", UrlError::Scheme),
        ("file:///etc", UrlError::Scheme),
        ("https://a.b\n", UrlError::Malformed),
    ] {
        let change = json!({ "resource": SERVER, "authorization_servers": [named] });
        let expected = FlowError::Url { what: "authorization server", source: why };
        assert_eq!(with_resource(change), expected, "{named}");
    }
    let with_metadata = |key: &'static str, value: Value| {
        let mut changed = metadata();
        changed[key] = value;
        run_flow(browser(), move |request| match request.url.path() {
            "/.well-known/oauth-authorization-server" => answer(200, changed.clone()),
            _ => serve(request),
        })
        .error()
    };
    let wrong = with_metadata("issuer", json!("https://evil.example"));
    assert!(matches!(
        wrong,
        FlowError::AuthServerMetadata(AuthServerMetadataError::WrongIssuer(_))
    ));
    for key in ["authorization_endpoint", "token_endpoint"] {
        for value in
            ["$(calc)", "javascript:alert(1)", "--flag", "https://127.0.0.1/", "https://a\r\n.b"]
        {
            let why = with_metadata(key, json!(value));
            assert!(
                matches!(
                    why,
                    FlowError::AuthServerMetadata(AuthServerMetadataError::Endpoint { .. })
                ),
                "{key} {value}"
            );
        }
    }
    let challenge = AuthChallenge {
        resource_metadata: Some("http://169.254.169.254/latest".to_owned()),
        ..AuthChallenge::default()
    };
    let run = run_flow(LoginPlan { challenge, ..browser() }, serve);
    assert!(run.request_lines().is_empty());
    assert_eq!(
        run.error(),
        FlowError::Url { what: "metadata URL", source: UrlError::PrivateAddress }
    );
}

#[test]
fn a_stray_answer_ends_no_login_and_a_mixed_up_one_does() {
    let run = run_flow_with(browser(), serve, |url| {
        vec!["code=x&state=forged".to_owned(), "rubbish".to_owned(), callback_for(url)]
    });
    assert_eq!(run.rejected, [CallbackError::WrongState, CallbackError::WrongState]);
    assert!(run.outcome.is_ok());
    let run = run_flow_with(browser(), serve, |url| {
        vec![callback_for(url).replace("as.example.com", "evil.example")]
    });
    assert!(matches!(run.error(), FlowError::Callback(CallbackError::WrongIssuer(_))));
    let run = run_flow_with(browser(), serve, |_| vec!["code=x&state=forged".to_owned(); 100]);
    assert_eq!(run.error(), FlowError::Callback(CallbackError::WrongState));
}

#[test]
fn a_program_signs_in_by_itself_with_a_secret() {
    let setup = configured(ClientCredential::Secret(Secret::new("s")));
    let run =
        run_flow(LoginPlan { client_config: setup, ..plan(LoginGrant::ClientCredentials) }, serve);
    let form = run.last_form();
    assert_eq!(form["grant_type"], "client_credentials");
    assert_eq!(run.requests[2].headers["authorization"], "Basic bWluZTpz");
    assert!(!form.contains_key("client_secret") && run.outcome.is_ok());
}

#[test]
fn a_program_signs_in_by_itself_with_a_key() {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    };
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let public = pair.public_key().as_ref().to_vec();
    let key = crate::crypto::signing_key::SigningKey::from_ecdsa(std::sync::Arc::new(pair));
    let setup = configured(ClientCredential::PrivateKey(key));
    let run =
        run_flow(LoginPlan { client_config: setup, ..plan(LoginGrant::ClientCredentials) }, serve);
    let form = run.last_form();
    let (_, claims) =
        verify_and_decode(&form["client_assertion"], &ECDSA_P256_SHA256_FIXED, &public);
    assert_eq!([&claims["aud"], &claims["sub"]], ["https://as.example.com", "mine"]);
}

#[test]
fn a_workload_shows_its_token_once_and_tries_nothing_else() {
    let setup = configured(ClientCredential::None);
    let way = || LoginGrant::WorkloadIdentity(Secret::new("jwt"));
    let run = run_flow(LoginPlan { client_config: setup.clone(), ..plan(way()) }, serve);
    assert_eq!(run.last_form()["assertion"], "jwt");
    assert!(run.outcome.is_ok());
    let run = run_flow(LoginPlan { client_config: setup, ..plan(way()) }, |request| match request
        .url
        .path()
    {
        "/token" => answer(400, json!({ "error": "invalid_grant" })),
        _ => serve(request),
    });
    assert_eq!(run.requests.len(), 3);
    let why = run.error();
    let FlowError::Token(error) = &why else { panic!("{why:?}") };
    assert_eq!(error.code(), Some(TokenErrorCode::InvalidGrant));
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
        "https://idp.corp.example/.well-known/openid-configuration" => answer(
            200,
            json!({
                "issuer": "https://idp.corp.example",
                "token_endpoint": "https://idp.corp.example/token",
            }),
        ),
        "https://idp.corp.example/token" => {
            answer(200, json!({ "access_token": "id-jag", "token_type": "N_A" }))
        }
        _ => serve(request),
    }
}

#[test]
fn an_identity_provider_vouches_and_no_browser_opens() {
    for endpoint in [None, Some("https://idp.corp.example/token")] {
        let run = run_flow(enterprise(endpoint), with_provider);
        let count = run.requests.len();
        let (at_provider, at_server) = (run.form(count - 2), run.form(count - 1));
        assert_eq!(run.requests[count - 2].url.as_str(), "https://idp.corp.example/token");
        assert_eq!(
            [&at_provider["subject_token"], &at_provider["audience"], &at_provider["resource"]],
            ["id-token", "https://as.example.com", SERVER]
        );
        assert_eq!(at_server["assertion"], "id-jag");
        assert_eq!(run.requests[count - 1].headers["authorization"], "Basic bWluZTphcy1zZWNyZXQ=");
        assert!(run.opened.is_empty() && run.outcome.is_ok());
    }
}

#[test]
fn an_identity_provider_is_signed_in_to_like_a_server() {
    let at_provider = LoginPlan {
        server: url("https://idp.corp.example/"),
        metadata_url: Some(url("https://idp.corp.example/.well-known/openid-configuration")),
        client_config: configured(ClientCredential::None),
        scopes: Some(Scopes::parse("openid")),
        ..browser()
    };
    let run = run_flow_with(
        at_provider,
        |request| match request.url.path() {
            "/.well-known/openid-configuration" => answer(
                200,
                json!({
                    "issuer": "https://idp.corp.example",
                    "authorization_endpoint": "https://idp.corp.example/authorize",
                    "token_endpoint": "https://idp.corp.example/token",
                }),
            ),
            "/token" => answer(200, json!({ "access_token": "at", "id_token": "who" })),
            _ => not_found(),
        },
        |url| {
            let state = parameter(url, "state").expect("a state");
            vec![format!("code=c&state={state}")]
        },
    );
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("openid"));
    let signed_in = run.outcome.expect("signed in");
    assert_eq!(signed_in.tokens.id_token, Some(Secret::new("who")));
}

#[test]
fn a_person_signs_in_on_another_device() {
    let mut polls = 0;
    let respond = |request: &FetchRequest| match request.url.path() {
        "/device" => answer(
            200,
            json!({
                "device_code": "dc", "user_code": "AB\u{1b}CD", "expires_in": 600, "interval": 5,
                "verification_uri": "https://as.example.com/activate",
            }),
        ),
        "/token" => {
            polls += 1;
            match polls {
                1 => answer(400, json!({ "error": "authorization_pending" })),
                2 => answer(400, json!({ "error": "slow_down" })),
                3 => unreachable(),
                _ => serve(request),
            }
        }
        _ => serve(request),
    };
    let run = run_flow(plan(LoginGrant::Device), respond);
    assert_eq!(run.last_form()["device_code"], "dc");
    assert!(run.outcome.is_ok());
    let run = run_flow(plan(LoginGrant::Device), |request| match request.url.path() {
        "/device" => answer(
            200,
            json!({
                "device_code": "dc", "user_code": "x", "expires_in": 60,
                "verification_uri": "https://as.example.com/activate",
            }),
        ),
        "/token" => answer(400, json!({ "error": "authorization_pending" })),
        _ => serve(request),
    });
    assert_eq!(run.error(), FlowError::TimedOut);
}

fn serve_dpop(request: &FetchRequest) -> Result<FetchResponse, FetchError> {
    match request.url.path() {
        "/token" => answer(200, json!({ "access_token": "at", "token_type": "DPoP" })),
        _ => serve(request),
    }
}

#[test]
fn tokens_are_bound_to_a_key_where_the_server_wants_it() {
    let wants = |binding| LoginPlan {
        challenge: AuthChallenge { dpop: binding, ..AuthChallenge::default() },
        dpop_key: Some(DpopKey::generate()),
        ..browser()
    };
    let run = run_flow(wants(DpopRequirement::Required), serve_dpop);
    assert!(run.requests[3].headers.contains_key("dpop"));
    assert!(parameter(&run.opened[0], "dpop_jkt").is_some());
    assert!(run.outcome.expect("signed in").dpop_key.is_some());
    assert_eq!(
        run_flow(wants(DpopRequirement::Required), serve).error(),
        FlowError::DpopUnavailable
    );
    let run = run_flow(wants(DpopRequirement::Supported), serve);
    assert!(run.outcome.expect("signed in").dpop_key.is_none());
    let run = run_flow(wants(DpopRequirement::Unspecified), serve);
    assert!(!run.requests[3].headers.contains_key("dpop"));
    assert_eq!(run_flow(browser(), serve_dpop).error(), FlowError::DpopUnavailable);
}

#[test]
fn events_out_of_step_end_a_login_and_do_no_harm() {
    let (mut flow, _) = with_system_random(0, |inputs| Flow::start(browser(), inputs));
    for _ in 0..3 {
        let step = with_system_random(0, |inputs| flow.on(Event::Waited, inputs));
        assert!(matches!(step, Step::Failed(FlowError::UnexpectedEvent)));
    }
}

/// Where each secret of the fuzzed login belongs. Nothing else may see it.
fn check_secrets(run: &FlowRun) {
    for request in &run.requests {
        let headers: Vec<_> = request
            .headers
            .values()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        let body = String::from_utf8_lossy(&request.body);
        let shown = format!("{} {body} {}", request.url, headers.join(" "));
        // Base64 of what Basic shows.
        let shows = |secret: &str, basic: &str| shown.contains(secret) || shown.contains(basic);
        let place = request.url.as_str();
        if shows("as-secret", "bWluZTphcy1zZWNyZXQ") {
            assert_eq!(place, "https://as.example.com/token");
        }
        if shows("idp-secret", "YXQtaWRwOmlkcC1zZWNyZXQ") || shown.contains("id-token") {
            assert_eq!(place, "https://idp.corp.example/token");
        }
        if shown.contains("the-code") {
            assert_eq!(place, "https://as.example.com/token");
        }
    }
}

/// An answer to a question, from a world that has lost its mind.
fn arbitrary_response() -> impl Strategy<Value = Option<(u16, String)>> {
    let body = prop_oneof![
        Just(resource().to_string()),
        Just(metadata().to_string()),
        Just(json!({ "client_id": "x", "client_secret": "y" }).to_string()),
        Just(json!({ "access_token": "a", "token_type": "DPoP" }).to_string()),
        Just(json!({ "error": "use_dpop_nonce" }).to_string()),
        Just(json!({ "error": "authorization_pending" }).to_string()),
        Just(
            json!({ "device_code": "d", "user_code": "u", "verification_uri": "https://a.b" })
                .to_string()
        ),
        Just(
            json!({ "issuer": "https://evil.example", "token_endpoint": "https://evil.example/t" })
                .to_string()
        ),
        Just(
            json!({ "resource": SERVER, "authorization_servers": ["https://evil.example"] })
                .to_string()
        ),
        "[ -~]{0,40}",
    ];
    prop_oneof![
        1 => Just(None),
        9 => (prop_oneof![Just(200u16), Just(201), Just(302), Just(400), Just(401), Just(404)], body)
            .prop_map(Some),
    ]
}

/// Is this the good world's, or the mad one's turn?
fn arbitrary_turns() -> impl Strategy<Value = Vec<(bool, Option<(u16, String)>)>> {
    prop::collection::vec((prop::bool::weighted(0.7), arbitrary_response()), 1..12)
}

fn arbitrary_method() -> impl Strategy<Value = usize> {
    0usize..5
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_sequence_of_answers_makes_it_stumble_loop_or_leak(turns in arbitrary_turns(), way in arbitrary_method()) {
        let base = enterprise(None);
        let way = match way {
            0 => LoginGrant::Browser { redirect_uri: url(REDIRECT) },
            1 => LoginGrant::Device,
            2 => LoginGrant::ClientCredentials,
            3 => LoginGrant::WorkloadIdentity(Secret::new("jwt")),
            _ => base.method.clone(),
        };
        let mut setup = base.client_config.clone();
        if let Some(configured) = &mut setup.configured {
            configured.issuer = Some("https://as.example.com".to_owned());
        }
        let plan = LoginPlan { method: way, client_config: setup, dpop_key: Some(DpopKey::generate()), ..base };
        let mut turn = 0;
        let run = run_flow_with(
            plan,
            |request| {
                turn += 1;
                match &turns[turn % turns.len()] {
                    (true, _) => with_provider(request),
                    (false, Some((status, body))) => {
                        let mut headers = HeaderMap::new();
                        headers.insert("dpop-nonce", http::HeaderValue::from_static("n"));
                        Ok(FetchResponse { status: *status, headers, body: body.clone().into() })
                    }
                    (false, None) => unreachable(),
                }
            },
            |url| vec![callback_for(url)],
        );
        check_secrets(&run);
        for opened in &run.opened {
            prop_assert!(opened.scheme() == "https");
        }
    }
}
