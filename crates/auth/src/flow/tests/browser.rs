//! Logins in a browser: registration, scopes, legacy servers, callbacks, and DPoP.

use serde_json::json;

use super::*;
use crate::challenge::{AuthChallenge, DpopRequirement};
use crate::crypto::digest::sha256_base64url;
use crate::crypto::dpop::DpopKey;
use crate::registration::{ClientAuthMethod, ClientProvenance, OAuthClient};

#[test]
fn a_user_signs_in_with_a_dynamically_registered_client() {
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
    let challenge = sha256_base64url(form["code_verifier"].as_bytes());
    assert_eq!(parameter(opened, "code_challenge"), Some(challenge));
    let login = run.outcome.expect("signed in");
    assert!(login.tokens.access_token.equals("at"));
    assert_eq!(login.client.issuer, "https://as.example.com");
    assert_eq!(login.scopes, Some(Scopes::parse("read write offline_access")));
    assert_eq!(login.resource.as_deref(), Some(SERVER));
}

#[test]
fn a_registered_client_is_reused_only_with_its_issuer() {
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
fn a_client_configured_for_one_issuer_is_not_sent_to_another() {
    let mut setup = configured(ClientCredential::Secret(Secret::new("canary")));
    if let Some(configured) = &mut setup.configured {
        configured.issuer = Some("https://old.example.com".to_owned());
    }
    let run = run_flow(LoginPlan { client_config: setup, ..browser() }, serve);
    assert!(matches!(run.error(), FlowError::IssuerMismatch { .. }));
}

#[test]
fn the_challenge_names_the_metadata_url_and_the_scopes() {
    let challenge = AuthChallenge {
        resource_metadata: Some("https://mcp.example.com/custom".to_owned()),
        scopes: Some(Scopes::parse("admin")),
        ..AuthChallenge::default()
    };
    let run = run_flow(LoginPlan { challenge, ..browser() }, |request| match request.url.path() {
        "/custom" => respond_with(200, resource()),
        _ => serve(request),
    });
    assert_eq!(run.request_lines()[0], "GET https://mcp.example.com/custom");
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("admin offline_access"));
}

#[test]
fn a_step_up_requests_the_granted_scopes_again() {
    let challenge =
        AuthChallenge { scopes: Some(Scopes::parse("admin")), ..AuthChallenge::default() };
    let granted = Some(Scopes::parse("read"));
    let run = run_flow(LoginPlan { challenge, granted_scopes: granted, ..browser() }, serve);
    assert_eq!(parameter(&run.opened[0], "scope").as_deref(), Some("read admin offline_access"));
}

#[test]
fn without_metadata_the_server_is_its_own_authorization_server() {
    let run = run_flow_with(
        browser(),
        |request| match (request.url.path(), request.url.host_str()) {
            ("/register", Some("mcp.example.com")) => {
                respond_with(201, json!({ "client_id": "x" }))
            }
            ("/token", Some("mcp.example.com")) => {
                respond_with(200, json!({ "access_token": "at" }))
            }
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
fn a_configured_metadata_url_takes_precedence() {
    let metadata_url = Some(url("https://sso.corp.example/meta"));
    let run =
        run_flow(LoginPlan { metadata_url, ..browser() }, |request| match request.url.path() {
            "/meta" => respond_with(200, metadata()),
            _ => serve(request),
        });
    assert_eq!(run.request_lines()[1], "GET https://sso.corp.example/meta");
    assert!(run.outcome.is_ok());
}

#[test]
fn a_stray_callback_is_ignored_and_another_issuer_ends_the_login() {
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

fn serve_dpop(request: &FetchRequest) -> Result<FetchResponse, FetchError> {
    match request.url.path() {
        "/token" => respond_with(200, json!({ "access_token": "at", "token_type": "DPoP" })),
        _ => serve(request),
    }
}

#[test]
fn tokens_are_bound_to_a_key_where_the_server_requires_it() {
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
