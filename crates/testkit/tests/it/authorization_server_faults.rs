//! Faults and quirks of the authorization server, and logins without a browser.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::AuthorizationServer;
use testkit::authorization_server::{
    AuthorizationConfig, DeviceOutcome, DevicePolling, DpopPolicy, Endpoint, OAuthQuirk,
    ResponseFault, SigningKey, Site, UnverifiedJwt, sha256_base64url,
};

use crate::http_client::{http_request, raw_exchange};
use crate::oauth_client::{
    FORM, REDIRECT, VERIFIER, code, dpop_proof, get, initialize, initialize_with_token, login,
    post_form, query_value, redeem_code, redirect_query, refresh, refresh_form,
};

fn token_url(authorization_server: &AuthorizationServer) -> String {
    format!("{}/token", authorization_server.issuer())
}

#[test]
fn quirks_change_token_responses() {
    let token_response = |quirk: OAuthQuirk| {
        login(&AuthorizationServer::start(AuthorizationConfig::compliant().quirk(quirk)), "a b").1
    };
    assert_eq!(token_response(OAuthQuirk::ExpiresInAsString)["expires_in"], "3600");
    assert_eq!(token_response(OAuthQuirk::NoExpiresIn).get("expires_in"), None);
    assert_eq!(token_response(OAuthQuirk::NoTokenType).get("token_type"), None);
    assert_eq!(token_response(OAuthQuirk::CommaSeparatedScopes)["scope"], "a,b");
    assert!(
        token_response(OAuthQuirk::TokensInAuthedUser)["authed_user"]["access_token"].is_string()
    );
    assert_eq!(token_response(OAuthQuirk::NoRefreshTokens).get("refresh_token"), None);
}

#[test]
fn errors_may_have_status_200_and_custom_codes() {
    let config = AuthorizationConfig::compliant()
        .quirk(OAuthQuirk::ErrorsWithStatus200)
        .quirk(OAuthQuirk::RefreshErrorCode("invalid_refresh_token".to_owned()));
    let authorization_server = AuthorizationServer::start(config.client("me", None));
    let mut reply = refresh(&authorization_server, "me", &json!("unknown"));
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!((&body["ok"], &body["error"]), (&json!(false), &json!("invalid_refresh_token")));
}

#[test]
fn metadata_may_be_wrong() {
    let config = AuthorizationConfig::compliant()
        .quirk(OAuthQuirk::WrongIssuerInMetadata)
        .quirk(OAuthQuirk::WrongResourceInMetadata)
        .quirk(OAuthQuirk::AuthorizationEndpoint("javascript:alert(1)".to_owned()));
    let authorization_server = AuthorizationServer::start(config);
    let location =
        format!("{}/.well-known/oauth-authorization-server", authorization_server.issuer());
    let metadata = get(&location).json();
    assert_eq!(metadata["issuer"], authorization_server.origin(Site::Attacker));
    assert_eq!(metadata["authorization_endpoint"], "javascript:alert(1)");
    let origin = authorization_server.origin(Site::Resource);
    let metadata = get(&format!("{origin}/.well-known/oauth-protected-resource/mcp")).json();
    assert_eq!(
        metadata["resource"],
        format!("{}/mcp", authorization_server.origin(Site::Attacker))
    );
}

#[test]
fn faults_happen_where_and_as_often_as_configured() {
    let config = AuthorizationConfig::compliant()
        .client("me", None)
        .fault_once(Endpoint::Refresh, ResponseFault::Unavailable);
    let authorization_server = AuthorizationServer::start(config);
    let (client, tokens) = login(&authorization_server, "");
    assert_eq!(refresh(&authorization_server, &client, &tokens["refresh_token"]).status, 503);
    assert_eq!(refresh(&authorization_server, &client, &tokens["refresh_token"]).status, 200);
    assert_eq!(
        authorization_server.counters().refresh_tokens_reused,
        0,
        "a server that is down takes nothing"
    );
}

#[test]
fn a_response_may_be_lost_after_the_request_was_handled() {
    let authorization_server = AuthorizationServer::start(
        AuthorizationConfig::compliant()
            .fault_once(Endpoint::Refresh, ResponseFault::DropsResponse),
    );
    let (client, tokens) = login(&authorization_server, "");
    let body = refresh_form(&authorization_server, &client, &tokens["refresh_token"]);
    let came = raw_exchange("POST", &token_url(&authorization_server), &[FORM], &body);
    assert!(!came.unwrap_or_default().contains("access_token"));
    assert_eq!(authorization_server.counters().refreshes, 1);
    assert_eq!(refresh(&authorization_server, &client, &tokens["refresh_token"]).status, 400);
}

#[test]
fn a_redirect_leads_to_the_attacker_who_records_everything() {
    let config =
        AuthorizationConfig::compliant().fault(Endpoint::Token, ResponseFault::RedirectsToAttacker);
    let authorization_server = AuthorizationServer::start(config.client("me", None));
    let code = code(&authorization_server, "me", "");
    let reply = redeem_code(&authorization_server, "me", &code, &[]);
    assert_eq!(reply.status, 307);
    let location = reply.header("location").expect("a place").to_owned();
    assert_eq!(authorization_server.sites_that_received(&code), [Site::Issuer]);
    assert_eq!(post_form(&location, &[], &[("code", &code)]).status, 200);
    assert_eq!(authorization_server.sites_that_received(&code), [Site::Issuer, Site::Attacker]);
}

#[test]
fn responses_may_be_huge_or_slow_or_never_come() {
    let location = "/.well-known/oauth-authorization-server";
    let start = |how: ResponseFault| {
        AuthorizationServer::start(
            AuthorizationConfig::compliant().fault(Endpoint::IssuerMetadata, how),
        )
    };
    let huge = start(ResponseFault::OversizedBody(3 << 20));
    assert_eq!(get(&format!("{}{location}", huge.issuer())).body().expect("whole").len(), 3 << 20);
    let slow = start(ResponseFault::TricklesBody);
    let mut reply = get(&format!("{}{location}", slow.issuer()));
    assert_eq!(reply.status, 200);
    assert!(reply.is_silent(20), "nothing comes at once");
    let late = start(ResponseFault::Delayed(Duration::from_millis(50)));
    let since = std::time::Instant::now();
    assert_eq!(get(&format!("{}{location}", late.issuer())).status, 200);
    assert!(since.elapsed() >= Duration::from_millis(50));
}

#[test]
fn device_polling_ends_as_configured() {
    for (ending, expected) in [
        (DeviceOutcome::Approved, None),
        (DeviceOutcome::Denied, Some("access_denied")),
        (DeviceOutcome::Expired, Some("expired_token")),
    ] {
        let course = DevicePolling { pending: 1, slow_down: 1, outcome: ending };
        let config =
            AuthorizationConfig { device: Some(course), ..AuthorizationConfig::compliant() }
                .client("tv", None);
        let authorization_server = AuthorizationServer::start(config);
        let resource = authorization_server.url();
        let device = [("client_id", "tv"), ("resource", resource.as_str())];
        let device =
            post_form(&format!("{}/device", authorization_server.issuer()), &[], &device).json();
        assert!(device["verification_uri"].is_string() && device["user_code"].is_string());
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", device["device_code"].as_str().expect("a code")),
            ("client_id", "tv"),
        ];
        let poll = || post_form(&token_url(&authorization_server), &[], &fields).json();
        assert_eq!(poll()["error"], "authorization_pending");
        assert_eq!(poll()["error"], "slow_down");
        let last = poll();
        assert_eq!(last.get("error").and_then(Value::as_str), expected);
        if expected.is_none() {
            assert_eq!(
                initialize_with_token(&authorization_server.url(), &last["access_token"]),
                200
            );
        }
    }
}

#[test]
fn a_client_authenticates_with_a_key() {
    let (key, other) = (SigningKey::new(), SigningKey::new());
    let authorization_server = AuthorizationServer::start(
        AuthorizationConfig::compliant().client_with_key("robot", key.public_jwk()),
    );
    let claims = json!({"iss": "robot", "sub": "robot", "aud": authorization_server.issuer(), "jti": "one",
        "exp": 4_000_000_000_u64});
    let show = |assertion: &str| {
        let resource = authorization_server.url();
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", assertion),
            ("resource", &resource),
        ];
        post_form(&token_url(&authorization_server), &[], &fields).json()
    };
    assert_eq!(show(&other.sign_jwt(json!({}), &claims))["error"], "invalid_client");
    let mut astray = claims.clone();
    astray["aud"] = json!("https://other.example");
    assert_eq!(show(&key.sign_jwt(json!({}), &astray))["error"], "invalid_client");
    let good = key.sign_jwt(json!({}), &claims);
    let tokens = show(&good);
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    assert_eq!(show(&good)["error"], "invalid_client", "an assertion is good once");
}

#[test]
fn a_workload_token_is_exchanged() {
    let authorization_server =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("job", None));
    let show = |assertion: &str| {
        let resource = authorization_server.url();
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", assertion),
            ("client_id", "job"),
            ("resource", &resource),
        ];
        post_form(&token_url(&authorization_server), &[], &fields).json()
    };
    assert_eq!(show(&authorization_server.workload_token(-1))["error"], "invalid_grant");
    assert_eq!(show("not.a.token")["error"], "invalid_grant");
    let tokens = show(&authorization_server.workload_token(60));
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
}

#[test]
fn a_login_at_the_identity_provider_gives_access_to_the_resource() {
    let config = AuthorizationConfig {
        id_jag_client: Some("app".to_owned()),
        ..AuthorizationConfig::compliant().client("idp-app", None).client("app", Some("shh"))
    };
    let authorization_server = AuthorizationServer::start(config);
    let idp = authorization_server.origin(Site::Identity);
    let metadata = get(&format!("{idp}/.well-known/openid-configuration")).json();
    let challenge = sha256_base64url(VERIFIER.as_bytes());
    let url = format!(
        "{}?response_type=code&client_id=idp-app&redirect_uri={REDIRECT}&state=s&nonce=n\
         &scope=openid&code_challenge_method=S256&code_challenge={challenge}",
        metadata["authorization_endpoint"].as_str().expect("an endpoint")
    );
    let pairs = redirect_query(&get(&url));
    assert_eq!(query_value(&pairs, "iss"), Some(idp));
    let at = metadata["token_endpoint"].as_str().expect("an endpoint");
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", query_value(&pairs, "code").expect("a code")),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("client_id", "idp-app"),
    ];
    let tokens = post_form(at, &[], &fields).json();
    let id_token = tokens["id_token"].as_str().expect("an id token");
    let read = UnverifiedJwt::parse(id_token).expect("a token");
    assert_eq!((&read.claims["nonce"], &read.claims["aud"]), (&json!("n"), &json!("idp-app")));
    let keys = get(metadata["jwks_uri"].as_str().expect("an endpoint")).json();
    assert!(read.is_signed_by(&keys["keys"][0]));

    let (issuer, resource) = (authorization_server.issuer(), authorization_server.url());
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("subject_token", id_token),
        ("audience", &issuer),
        ("resource", &resource),
        ("client_id", "idp-app"),
    ];
    let exchanged = post_form(at, &[], &fields).json();
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", exchanged["access_token"].as_str().expect("an assertion")),
        ("client_id", "app"),
        ("client_secret", "shh"),
        ("resource", &resource),
    ];
    let tokens = post_form(&token_url(&authorization_server), &[], &fields).json();
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    assert_eq!(authorization_server.sites_that_received(id_token), [Site::Identity]);
    assert_eq!(authorization_server.sites_that_received("shh"), [Site::Issuer]);
}

#[test]
fn an_expired_or_foreign_id_token_is_not_exchanged() {
    let authorization_server =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("app", None));
    let at = format!("{}/token", authorization_server.origin(Site::Identity));
    let (issuer, resource) = (authorization_server.issuer(), authorization_server.url());
    for id_token in [
        authorization_server.id_token("app", Duration::ZERO),
        authorization_server.id_token("other", Duration::from_secs(60)),
    ] {
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("subject_token", id_token.as_str()),
            ("audience", &issuer),
            ("resource", &resource),
            ("client_id", "app"),
        ];
        assert_eq!(post_form(&at, &[], &fields).json()["error"], "invalid_grant");
    }
}

#[test]
fn a_bound_token_needs_a_fresh_proof_each_time() {
    let config = AuthorizationConfig {
        dpop: DpopPolicy::RequiredWithNonce,
        ..AuthorizationConfig::compliant()
    };
    let authorization_server = AuthorizationServer::start(config.client("me", None));
    let (key, at, url) =
        (SigningKey::new(), token_url(&authorization_server), authorization_server.url());
    let code = code(&authorization_server, "me", "");

    assert_eq!(
        redeem_code(&authorization_server, "me", &code, &[]).json()["error"],
        "invalid_dpop_proof"
    );
    let astray = dpop_proof(&key, "POST", &url, json!({}));
    assert_eq!(
        redeem_code(&authorization_server, "me", &code, &[("dpop", &astray)]).json()["error"],
        "invalid_dpop_proof"
    );
    let plain = dpop_proof(&key, "POST", &at, json!({}));
    let mut reply = redeem_code(&authorization_server, "me", &code, &[("dpop", &plain)]);
    let nonce = reply.header("dpop-nonce").expect("a number").to_owned();
    assert_eq!(reply.json()["error"], "use_dpop_nonce");
    let shown = dpop_proof(&key, "POST", &at, json!({"nonce": nonce}));
    let tokens = redeem_code(&authorization_server, "me", &code, &[("dpop", &shown)]).json();
    assert_eq!(tokens["token_type"], "DPoP");
    let token = tokens["access_token"].as_str().expect("text");

    let (bearer, bound) = (format!("Bearer {token}"), format!("DPoP {token}"));
    assert_eq!(initialize(&url, &[("authorization", &bearer)]).status, 401);
    let ath = sha256_base64url(token.as_bytes());
    let plain = dpop_proof(&key, "POST", &url, json!({"ath": ath}));
    let refused = initialize(&url, &[("authorization", &bound), ("dpop", &plain)]);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert!(challenge.starts_with("DPoP ") && challenge.contains("use_dpop_nonce"), "{challenge}");
    let nonce = refused.header("dpop-nonce").expect("a number");
    let fresh = dpop_proof(&key, "POST", &url, json!({"ath": ath, "nonce": nonce}));
    let knock_again = || initialize(&url, &[("authorization", &bound), ("dpop", &fresh)]).status;
    assert_eq!(knock_again(), 200);
    assert_eq!(knock_again(), 401, "a proof is good once");
    assert_eq!(authorization_server.counters().dpop_proofs_reused, 1);
    let thief = dpop_proof(&SigningKey::new(), "POST", &url, json!({"ath": ath, "nonce": nonce}));
    assert_eq!(initialize(&url, &[("authorization", &bound), ("dpop", &thief)]).status, 401);
}

#[test]
fn concurrent_refreshes_are_counted() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig {
        token_delay_ms: 300,
        ..AuthorizationConfig::compliant()
    });
    let (client, one) = login(&authorization_server, "");
    let (other, two) = login(&authorization_server, "");
    std::thread::scope(|scope| {
        scope.spawn(|| refresh(&authorization_server, &client, &one["refresh_token"]).status);
        scope.spawn(|| refresh(&authorization_server, &other, &two["refresh_token"]).status);
    });
    assert_eq!(authorization_server.counters().peak_concurrent_refreshes, 2);
}

#[test]
fn tokens_and_logins_are_revoked_on_demand() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, tokens) = login(&authorization_server, "");
    authorization_server.revoke_access_tokens();
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 401);
    let tokens = refresh(&authorization_server, &client, &tokens["refresh_token"]).json();
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    authorization_server.end_all_logins();
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 401);
    assert_eq!(refresh(&authorization_server, &client, &tokens["refresh_token"]).status, 400);
    let unknown =
        http_request("GET", &format!("{}/nothing", authorization_server.issuer()), &[], "");
    assert_eq!(unknown.status, 404);
}
