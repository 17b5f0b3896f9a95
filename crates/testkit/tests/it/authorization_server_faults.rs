//! The authority at its worst, and the ways to sign in that need no browser.

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

fn token_url(authority: &AuthorizationServer) -> String {
    format!("{}/token", authority.issuer())
}

#[test]
fn unusual_answers_are_as_unusual_as_they_should_be() {
    let answer = |habit: OAuthQuirk| {
        login(&AuthorizationServer::start(AuthorizationConfig::compliant().quirk(habit)), "a b").1
    };
    assert_eq!(answer(OAuthQuirk::ExpiresInAsString)["expires_in"], "3600");
    assert_eq!(answer(OAuthQuirk::NoExpiresIn).get("expires_in"), None);
    assert_eq!(answer(OAuthQuirk::NoTokenType).get("token_type"), None);
    assert_eq!(answer(OAuthQuirk::CommaSeparatedScopes)["scope"], "a,b");
    assert!(answer(OAuthQuirk::TokensInAuthedUser)["authed_user"]["access_token"].is_string());
    assert_eq!(answer(OAuthQuirk::NoRefreshTokens).get("refresh_token"), None);
}

#[test]
fn errors_may_look_well_and_use_words_of_their_own() {
    let config = AuthorizationConfig::compliant()
        .quirk(OAuthQuirk::ErrorsWithStatus200)
        .quirk(OAuthQuirk::RefreshErrorCode("invalid_refresh_token".to_owned()));
    let authority = AuthorizationServer::start(config.client("me", None));
    let mut reply = refresh(&authority, "me", &json!("nobody gave this"));
    assert_eq!(reply.status, 200);
    let said = reply.json();
    assert_eq!((&said["ok"], &said["error"]), (&json!(false), &json!("invalid_refresh_token")));
}

#[test]
fn papers_may_lie() {
    let config = AuthorizationConfig::compliant()
        .quirk(OAuthQuirk::WrongIssuerInMetadata)
        .quirk(OAuthQuirk::WrongResourceInMetadata)
        .quirk(OAuthQuirk::AuthorizationEndpoint("javascript:alert(1)".to_owned()));
    let authority = AuthorizationServer::start(config);
    let place = format!("{}/.well-known/oauth-authorization-server", authority.issuer());
    let metadata = get(&place).json();
    assert_eq!(metadata["issuer"], authority.origin(Site::Attacker));
    assert_eq!(metadata["authorization_endpoint"], "javascript:alert(1)");
    let origin = authority.origin(Site::Resource);
    let metadata = get(&format!("{origin}/.well-known/oauth-protected-resource/mcp")).json();
    assert_eq!(metadata["resource"], format!("{}/mcp", authority.origin(Site::Attacker)));
}

#[test]
fn what_goes_wrong_goes_wrong_where_and_as_often_as_it_should() {
    let config = AuthorizationConfig::compliant()
        .client("me", None)
        .fault_once(Endpoint::Refresh, ResponseFault::Unavailable);
    let authority = AuthorizationServer::start(config);
    let (client, tokens) = login(&authority, "");
    assert_eq!(refresh(&authority, &client, &tokens["refresh_token"]).status, 503);
    assert_eq!(refresh(&authority, &client, &tokens["refresh_token"]).status, 200);
    assert_eq!(
        authority.counters().refresh_tokens_reused,
        0,
        "a server that is down takes nothing"
    );
}

#[test]
fn an_answer_may_be_lost_after_the_work_was_done() {
    let authority = AuthorizationServer::start(
        AuthorizationConfig::compliant()
            .fault_once(Endpoint::Refresh, ResponseFault::DropsResponse),
    );
    let (client, tokens) = login(&authority, "");
    let body = refresh_form(&authority, &client, &tokens["refresh_token"]);
    let came = raw_exchange("POST", &token_url(&authority), &[FORM], &body);
    assert!(!came.unwrap_or_default().contains("access_token"));
    assert_eq!(authority.counters().refreshes, 1);
    assert_eq!(refresh(&authority, &client, &tokens["refresh_token"]).status, 400);
}

#[test]
fn a_redirect_leads_to_somebody_who_writes_everything_down() {
    let config =
        AuthorizationConfig::compliant().fault(Endpoint::Token, ResponseFault::RedirectsToAttacker);
    let authority = AuthorizationServer::start(config.client("me", None));
    let code = code(&authority, "me", "");
    let reply = redeem_code(&authority, "me", &code, &[]);
    assert_eq!(reply.status, 307);
    let place = reply.header("location").expect("a place").to_owned();
    assert_eq!(authority.sites_that_received(&code), [Site::Issuer]);
    assert_eq!(post_form(&place, &[], &[("code", &code)]).status, 200);
    assert_eq!(authority.sites_that_received(&code), [Site::Issuer, Site::Attacker]);
}

#[test]
fn answers_may_be_huge_or_slow_or_never_come() {
    let place = "/.well-known/oauth-authorization-server";
    let start = |how: ResponseFault| {
        AuthorizationServer::start(
            AuthorizationConfig::compliant().fault(Endpoint::IssuerMetadata, how),
        )
    };
    let huge = start(ResponseFault::OversizedBody(3 << 20));
    assert_eq!(get(&format!("{}{place}", huge.issuer())).body().expect("whole").len(), 3 << 20);
    let slow = start(ResponseFault::TricklesBody);
    let mut reply = get(&format!("{}{place}", slow.issuer()));
    assert_eq!(reply.status, 200);
    assert!(reply.is_silent(20), "nothing comes at once");
    let late = start(ResponseFault::Delayed(Duration::from_millis(50)));
    let since = std::time::Instant::now();
    assert_eq!(get(&format!("{}{place}", late.issuer())).status, 200);
    assert!(since.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_device_waits_and_then_is_in_or_out() {
    for (ending, expected) in [
        (DeviceOutcome::Approved, None),
        (DeviceOutcome::Denied, Some("access_denied")),
        (DeviceOutcome::Expired, Some("expired_token")),
    ] {
        let course = DevicePolling { pending: 1, slow_down: 1, outcome: ending };
        let config =
            AuthorizationConfig { device: Some(course), ..AuthorizationConfig::compliant() }
                .client("tv", None);
        let authority = AuthorizationServer::start(config);
        let resource = authority.url();
        let begun = [("client_id", "tv"), ("resource", resource.as_str())];
        let begun = post_form(&format!("{}/device", authority.issuer()), &[], &begun).json();
        assert!(begun["verification_uri"].is_string() && begun["user_code"].is_string());
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", begun["device_code"].as_str().expect("a code")),
            ("client_id", "tv"),
        ];
        let poll = || post_form(&token_url(&authority), &[], &fields).json();
        assert_eq!(poll()["error"], "authorization_pending");
        assert_eq!(poll()["error"], "slow_down");
        let last = poll();
        assert_eq!(last.get("error").and_then(Value::as_str), expected);
        if expected.is_none() {
            assert_eq!(initialize_with_token(&authority.url(), &last["access_token"]), 200);
        }
    }
}

#[test]
fn a_program_signs_in_with_a_key() {
    let (key, other) = (SigningKey::new(), SigningKey::new());
    let authority = AuthorizationServer::start(
        AuthorizationConfig::compliant().client_with_key("robot", key.public_jwk()),
    );
    let claims = json!({"iss": "robot", "sub": "robot", "aud": authority.issuer(), "jti": "one",
        "exp": 4_000_000_000_u64});
    let show = |assertion: &str| {
        let resource = authority.url();
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", assertion),
            ("resource", &resource),
        ];
        post_form(&token_url(&authority), &[], &fields).json()
    };
    assert_eq!(show(&other.sign_jwt(json!({}), &claims))["error"], "invalid_client");
    let mut astray = claims.clone();
    astray["aud"] = json!("https://somebody.example");
    assert_eq!(show(&key.sign_jwt(json!({}), &astray))["error"], "invalid_client");
    let good = key.sign_jwt(json!({}), &claims);
    let tokens = show(&good);
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    assert_eq!(show(&good)["error"], "invalid_client", "an assertion is good once");
}

#[test]
fn a_platform_vouches_for_a_program() {
    let authority =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("job", None));
    let show = |assertion: &str| {
        let resource = authority.url();
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", assertion),
            ("client_id", "job"),
            ("resource", &resource),
        ];
        post_form(&token_url(&authority), &[], &fields).json()
    };
    assert_eq!(show(&authority.workload_token(-1))["error"], "invalid_grant");
    assert_eq!(show("not.a.token")["error"], "invalid_grant");
    let tokens = show(&authority.workload_token(60));
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
}

#[test]
fn one_login_at_the_identity_provider_opens_the_server() {
    let config = AuthorizationConfig {
        id_jag_client: Some("app".to_owned()),
        ..AuthorizationConfig::compliant().client("idp-app", None).client("app", Some("shh"))
    };
    let authority = AuthorizationServer::start(config);
    let idp = authority.origin(Site::Identity);
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

    let (issuer, resource) = (authority.issuer(), authority.url());
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
    let tokens = post_form(&token_url(&authority), &[], &fields).json();
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    assert_eq!(authority.sites_that_received(id_token), [Site::Identity]);
    assert_eq!(authority.sites_that_received("shh"), [Site::Issuer]);
}

#[test]
fn an_id_token_that_is_over_or_for_another_client_is_not_exchanged() {
    let authority =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("app", None));
    let at = format!("{}/token", authority.origin(Site::Identity));
    let (issuer, resource) = (authority.issuer(), authority.url());
    for id_token in [
        authority.id_token("app", Duration::ZERO),
        authority.id_token("other", Duration::from_secs(60)),
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
    let authority = AuthorizationServer::start(config.client("me", None));
    let (key, at, url) = (SigningKey::new(), token_url(&authority), authority.url());
    let code = code(&authority, "me", "");

    assert_eq!(redeem_code(&authority, "me", &code, &[]).json()["error"], "invalid_dpop_proof");
    let astray = dpop_proof(&key, "POST", &url, json!({}));
    assert_eq!(
        redeem_code(&authority, "me", &code, &[("dpop", &astray)]).json()["error"],
        "invalid_dpop_proof"
    );
    let plain = dpop_proof(&key, "POST", &at, json!({}));
    let mut reply = redeem_code(&authority, "me", &code, &[("dpop", &plain)]);
    let nonce = reply.header("dpop-nonce").expect("a number").to_owned();
    assert_eq!(reply.json()["error"], "use_dpop_nonce");
    let shown = dpop_proof(&key, "POST", &at, json!({"nonce": nonce}));
    let tokens = redeem_code(&authority, "me", &code, &[("dpop", &shown)]).json();
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
    assert_eq!(authority.counters().dpop_proofs_reused, 1);
    let thief = dpop_proof(&SigningKey::new(), "POST", &url, json!({"ath": ath, "nonce": nonce}));
    assert_eq!(initialize(&url, &[("authorization", &bound), ("dpop", &thief)]).status, 401);
}

#[test]
fn refreshes_that_meet_are_counted() {
    let authority = AuthorizationServer::start(AuthorizationConfig {
        token_delay_ms: 300,
        ..AuthorizationConfig::compliant()
    });
    let (client, one) = login(&authority, "");
    let (other, two) = login(&authority, "");
    std::thread::scope(|scope| {
        scope.spawn(|| refresh(&authority, &client, &one["refresh_token"]).status);
        scope.spawn(|| refresh(&authority, &other, &two["refresh_token"]).status);
    });
    assert_eq!(authority.counters().peak_concurrent_refreshes, 2);
}

#[test]
fn tokens_are_forgotten_or_ended_on_demand() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, tokens) = login(&authority, "");
    authority.revoke_access_tokens();
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 401);
    let tokens = refresh(&authority, &client, &tokens["refresh_token"]).json();
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    authority.end_all_logins();
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 401);
    assert_eq!(refresh(&authority, &client, &tokens["refresh_token"]).status, 400);
    let unknown = http_request("GET", &format!("{}/nothing", authority.issuer()), &[], "");
    assert_eq!(unknown.status, 404);
}
