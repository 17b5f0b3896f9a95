//! The authorization server: its metadata, logins and clients, and its records.

use serde_json::{Value, json};
use testkit::AuthorizationServer;
use testkit::authorization_server::{
    AuthorizationConfig, Challenge, ClientMetadataDocuments, Consent, Endpoint,
    IssuerMetadataLocation, IssuerOrigin, IssuerParameter, OAuthQuirk, Registration,
    ResourceIndicator, ResourceMetadataLocation, Site,
};

use crate::client::{request, with_modern_meta};
use crate::http_client::http_request;
use crate::oauth_client::{
    REDIRECT, VERIFIER, authorize_url, code, get, initialize, initialize_with_token, login,
    post_form, post_message, query_value, redeem_code, redirect_query, refresh, register,
};

#[test]
fn a_login_gives_access_to_the_protected_resource() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let refused = initialize(&authorization_server.url(), &[]);
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    let place = challenge.split('"').nth(1).expect("it names the metadata");
    let resource = get(place).json();
    assert_eq!(resource["resource"], authorization_server.url());
    let issuer = resource["authorization_servers"][0].as_str().expect("an issuer");
    let metadata = get(&format!("{issuer}/.well-known/oauth-authorization-server")).json();
    assert_eq!(metadata["issuer"], issuer);

    let (_, tokens) = login(&authorization_server, "");

    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["expires_in"], 3600);
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    assert_eq!(
        authorization_server.admitted_requests().len(),
        1,
        "only the second request came through"
    );
    let counters = authorization_server.counters();
    assert_eq!((counters.registrations, counters.logins, counters.refreshes), (1, 1, 0));
    assert_eq!(counters.requests[&Endpoint::Resource], 2);
    let access = tokens["access_token"].as_str().expect("text");
    assert_eq!(authorization_server.sites_that_received(access), [Site::Resource]);
    assert_eq!(authorization_server.sites_that_received(VERIFIER), [Site::Issuer]);
}

#[track_caller]
fn metadata_found(config: AuthorizationConfig, paths: &[(Site, &str)]) -> Vec<bool> {
    let authorization_server = AuthorizationServer::start(config);
    let there = |(site, path): &(Site, &str)| {
        get(&format!("{}{path}", authorization_server.origin(*site))).status == 200
    };
    paths.iter().map(there).collect()
}

#[test]
fn metadata_is_only_at_the_configured_locations() {
    let resource = [
        (Site::Resource, "/.well-known/oauth-protected-resource/mcp"),
        (Site::Resource, "/.well-known/oauth-protected-resource"),
        (Site::Resource, "/about/this-resource.json"),
    ];
    for (resource_paper, expected) in [
        (ResourceMetadataLocation::AtPath, [true, false, false]),
        (ResourceMetadataLocation::AtRoot, [false, true, false]),
        (ResourceMetadataLocation::InChallengeOnly, [false, false, true]),
        (ResourceMetadataLocation::Absent, [false, false, false]),
    ] {
        assert_eq!(
            metadata_found(
                AuthorizationConfig {
                    resource_metadata: resource_paper,
                    ..AuthorizationConfig::compliant()
                },
                &resource
            ),
            expected
        );
    }
    let issuer = [
        (Site::Issuer, "/.well-known/oauth-authorization-server/tenant"),
        (Site::Issuer, "/.well-known/openid-configuration/tenant"),
        (Site::Issuer, "/tenant/.well-known/openid-configuration"),
        (Site::Resource, "/.well-known/oauth-authorization-server"),
    ];
    for (issuer_paper, expected) in [
        (IssuerMetadataLocation::OauthInserted, [true, false, false, false]),
        (IssuerMetadataLocation::OidcInserted, [false, true, false, false]),
        (IssuerMetadataLocation::OidcAppended, [false, false, true, false]),
        (IssuerMetadataLocation::Absent, [false, false, false, false]),
    ] {
        let issuer_path = "/tenant".to_owned();
        assert_eq!(
            metadata_found(
                AuthorizationConfig {
                    issuer_metadata: issuer_paper,
                    issuer_path,
                    ..AuthorizationConfig::compliant()
                },
                &issuer
            ),
            expected
        );
    }
    let old = AuthorizationConfig {
        issuer_origin: IssuerOrigin::SameAsResource,
        resource_metadata: ResourceMetadataLocation::Absent,
        ..AuthorizationConfig::compliant()
    };
    assert_eq!(metadata_found(old, &issuer), [false, false, false, true]);
}

#[test]
fn a_server_of_march_2025_has_its_endpoints_at_its_own_root() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig {
        issuer_origin: IssuerOrigin::SameAsResource,
        resource_metadata: ResourceMetadataLocation::Absent,
        issuer_metadata: IssuerMetadataLocation::Absent,
        resource_indicator: ResourceIndicator::Ignored,
        ..AuthorizationConfig::compliant()
    });
    assert_eq!(authorization_server.issuer(), authorization_server.origin(Site::Resource));
    let (_, tokens) = login(&authorization_server, "");
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    assert!(authorization_server.requests().iter().all(|seen| seen.site == Site::Resource));
}

#[test]
fn challenges_are_full_bare_multiple_or_absent() {
    for (challenge, expected) in [
        (Challenge::Full, vec!["Bearer resource_metadata="]),
        (Challenge::WithoutMetadata, vec!["Bearer"]),
        (Challenge::None, vec![]),
        (Challenge::Multiple, vec!["Basic realm=", "Negotiate", "Bearer resource_metadata="]),
    ] {
        let authorization_server = AuthorizationServer::start(AuthorizationConfig {
            challenge,
            ..AuthorizationConfig::compliant()
        });
        let reply = initialize(&authorization_server.url(), &[]);
        assert_eq!(reply.status, 401);
        let challenges = reply.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let challenges: Vec<&str> = challenges.map(|(_, value)| value.as_str()).collect();
        assert_eq!(challenges.len(), expected.len(), "{challenges:?}");
        assert!(
            challenges.iter().zip(&expected).all(|(it, prefix)| it.starts_with(prefix)),
            "{challenges:?}"
        );
    }
}

#[test]
fn a_client_with_a_secret_must_use_a_supported_method() {
    let config = AuthorizationConfig {
        registration: Registration::WithSecret,
        ..AuthorizationConfig::compliant()
    };
    let authorization_server =
        AuthorizationServer::start(config.auth_methods(&["client_secret_basic"]));
    let client = register(&authorization_server);
    let id = client["client_id"].as_str().expect("an id");
    let secret = client["client_secret"].as_str().expect("a secret");
    let url = format!("{}/token", authorization_server.issuer());
    let resource = authorization_server.url();
    let fields = [("grant_type", "client_credentials"), ("resource", resource.as_str())];

    let posted = [&fields[..], &[("client_id", id), ("client_secret", secret)]].concat();
    assert_eq!(post_form(&url, &[], &posted).json()["error"], "invalid_client");
    let nothing = [&fields[..], &[("client_id", id)]].concat();
    assert_eq!(post_form(&url, &[], &nothing).status, 401);
    use base64::Engine;
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{id}:{secret}"));
    let shown = format!("Basic {basic}");
    assert_eq!(post_form(&url, &[("authorization", &shown)], &fields).status, 200);
}

#[test]
fn a_rejected_registration_is_reported() {
    let config = AuthorizationConfig {
        registration: Registration::Refused,
        ..AuthorizationConfig::compliant()
    };
    let authorization_server = AuthorizationServer::start(config.client("known", None));
    let url = format!("{}/register", authorization_server.issuer());
    let body = json!({"redirect_uris": [REDIRECT]}).to_string();
    assert_eq!(
        http_request("POST", &url, &[("content-type", "application/json")], &body).status,
        403
    );
    let code = code(&authorization_server, "known", "");
    assert_eq!(redeem_code(&authorization_server, "known", &code, &[]).status, 200);
}

#[test]
fn a_client_that_publishes_a_document_needs_no_registration() {
    let config = AuthorizationConfig {
        client_metadata_documents: ClientMetadataDocuments::Supported,
        ..AuthorizationConfig::compliant()
    };
    let authorization_server = AuthorizationServer::start(config);
    let id = authorization_server.publish_client_metadata(&[REDIRECT]);
    let code = code(&authorization_server, &id, "");
    assert_eq!(redeem_code(&authorization_server, &id, &code, &[]).status, 200);
    assert_eq!(authorization_server.counters().registrations, 0);
    let other_document = format!("{}/other.json", authorization_server.origin(Site::Attacker));
    assert_eq!(get(&authorize_url(&authorization_server, &other_document, &[])).status, 400);
}

#[test]
fn unregistered_redirect_uris_are_rejected() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let client = register(&authorization_server)["client_id"].as_str().expect("an id").to_owned();
    let url = authorize_url(&authorization_server, &client, &[]);
    let another_port = url.replace("127.0.0.1%3A1%2F", "127.0.0.1%3A999%2F");
    assert_eq!(get(&another_port).status, 302, "the port of a loopback address is free");
    let another_host = url.replace("127.0.0.1%3A1%2F", "evil.example%3A1%2F");
    assert_eq!(get(&another_host).status, 400);
}

#[test]
fn the_user_responds_as_configured() {
    let respond_with = |consent: Consent| {
        let authorization_server = AuthorizationServer::start(
            AuthorizationConfig { consent, ..AuthorizationConfig::compliant() }.client("me", None),
        );
        let reply = get(&authorize_url(&authorization_server, "me", &[]));
        let is_redirect = reply.header("location").is_some_and(|it| it.starts_with(REDIRECT));
        (redirect_query(&reply), is_redirect)
    };
    let (pairs, _) = respond_with(Consent::Approves);
    assert_eq!(query_value(&pairs, "state"), Some("the-state"));
    assert_eq!(query_value(&respond_with(Consent::Denies).0, "error"), Some("access_denied"));
    assert_eq!(query_value(&respond_with(Consent::WrongState).0, "state"), Some("wrong-state"));
    assert_eq!(query_value(&respond_with(Consent::NoState).0, "state"), None);
    assert!(!respond_with(Consent::RedirectsToAttacker).1, "it redirects to the attacker");
}

#[test]
fn a_consent_page_comes_first_if_configured() {
    let config =
        AuthorizationConfig { consent: Consent::ShowsPage, ..AuthorizationConfig::compliant() };
    let authorization_server = AuthorizationServer::start(config.client("me", None));
    let mut page = get(&authorize_url(&authorization_server, "me", &[]));
    assert_eq!(page.status, 200);
    let page = String::from_utf8(page.body().expect("whole")).expect("text");
    let link = page.split('"').nth(1).expect("a link").replace("&amp;", "&");
    let pairs =
        redirect_query(&get(&format!("{}{link}", authorization_server.origin(Site::Issuer))));
    assert!(query_value(&pairs, "code").is_some());
}

#[test]
fn the_issuer_parameter_is_sent_as_configured() {
    for (issuer_parameter, announced, challenges) in [
        (IssuerParameter::Announced, true, Some(Site::Issuer)),
        (IssuerParameter::Unannounced, false, Some(Site::Issuer)),
        (IssuerParameter::Missing, true, None),
        (IssuerParameter::Wrong, true, Some(Site::Attacker)),
        (IssuerParameter::Absent, false, None),
    ] {
        let config = AuthorizationConfig { issuer_parameter, ..AuthorizationConfig::compliant() };
        let authorization_server = AuthorizationServer::start(config.client("me", None));
        let place =
            format!("{}/.well-known/oauth-authorization-server", authorization_server.issuer());
        let metadata = get(&place).json();
        let is_announced = metadata["authorization_response_iss_parameter_supported"] == true;
        assert_eq!(is_announced, announced, "{issuer_parameter:?}");
        let pairs = redirect_query(&get(&authorize_url(&authorization_server, "me", &[])));
        assert_eq!(
            query_value(&pairs, "iss"),
            challenges.map(|site| authorization_server.origin(site))
        );
    }
}

#[test]
fn a_code_is_valid_once_for_its_client_and_with_its_verifier() {
    let authorization_server = AuthorizationServer::start(
        AuthorizationConfig::compliant().client("me", None).client("eve", None),
    );
    let stolen = code(&authorization_server, "me", "");
    assert_eq!(
        redeem_code(&authorization_server, "eve", &stolen, &[]).json()["error"],
        "invalid_grant"
    );
    let used = code(&authorization_server, "me", "");
    let tokens = redeem_code(&authorization_server, "me", &used, &[]).json();
    assert_eq!(initialize_with_token(&authorization_server.url(), &tokens["access_token"]), 200);
    assert_eq!(redeem_code(&authorization_server, "me", &used, &[]).status, 400);
    assert_eq!(authorization_server.counters().codes_reused, 1);
    assert_eq!(
        initialize_with_token(&authorization_server.url(), &tokens["access_token"]),
        401,
        "the login is over"
    );

    let unproved = code(&authorization_server, "me", "");
    let (resource, wrong) = (authorization_server.url(), VERIFIER.replace('a', "b"));
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", unproved.as_str()),
        ("redirect_uri", REDIRECT),
        ("code_verifier", &wrong),
        ("client_id", "me"),
        ("resource", &resource),
    ];
    assert_eq!(
        post_form(&format!("{}/token", authorization_server.issuer()), &[], &fields).status,
        400
    );
}

#[test]
fn a_login_is_for_the_named_resource() {
    let authorization_server =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("me", None));
    let url = authorize_url(&authorization_server, "me", &[]).replace("%2Fmcp", "%2Fother");
    assert_eq!(query_value(&redirect_query(&get(&url)), "error"), Some("invalid_target"));
}

#[test]
fn a_refresh_token_is_valid_once_and_reuse_ends_the_login() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, first) = login(&authorization_server, "");
    let second = refresh(&authorization_server, &client, &first["refresh_token"]).json();
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(
        refresh(&authorization_server, &client, &first["refresh_token"]).json()["error"],
        "invalid_grant"
    );
    assert_eq!(refresh(&authorization_server, &client, &second["refresh_token"]).status, 400);
    assert_eq!(initialize_with_token(&authorization_server.url(), &second["access_token"]), 401);
    let counters = authorization_server.counters();
    assert_eq!(
        (counters.refreshes, counters.refresh_tokens_reused, counters.peak_concurrent_refreshes),
        (1, 1, 1)
    );
}

#[test]
fn revoked_tokens_are_invalid() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, tokens) = login(&authorization_server, "");
    let token = tokens["refresh_token"].as_str().expect("text");
    let url = format!("{}/revoke", authorization_server.issuer());
    assert_eq!(post_form(&url, &[], &[("token", token), ("client_id", &client)]).status, 200);
    assert_eq!(authorization_server.counters().revocations, 1);
    assert_eq!(refresh(&authorization_server, &client, &tokens["refresh_token"]).status, 400);
    assert_eq!(post_form(&url, &[], &[("token", "unknown"), ("client_id", &client)]).status, 200);
}

#[test]
fn a_tool_may_require_a_scope_and_the_challenge_names_it() {
    let authorization_server = AuthorizationServer::start(
        AuthorizationConfig::compliant().scope_requirement("echo", "tools:echo"),
    );
    let call = |token: &Value, tool: &str| {
        let params = with_modern_meta(json!({"name": tool, "arguments": {"text": "x"}}));
        let shown = format!("Bearer {}", token.as_str().expect("text"));
        let headers = [
            ("authorization", shown.as_str()),
            ("mcp-protocol-version", crate::client::MODERN_VERSION),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        post_message(&authorization_server.url(), &headers, &request(1, "tools/call", params))
    };
    let (_, poor) = login(&authorization_server, "");
    assert_eq!(call(&poor["access_token"], "count").status, 200);
    let refused = call(&poor["access_token"], "echo");
    assert_eq!(refused.status, 403);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert!(
        challenge.contains("error=\"insufficient_scope\", scope=\"tools:echo\""),
        "{challenge}"
    );
    let (_, rich) = login(&authorization_server, "tools:echo");
    assert_eq!(call(&rich["access_token"], "echo").status, 200);
    authorization_server
        .reconfigure(|config| config.quirks.push(OAuthQuirk::AlwaysInsufficientScope));
    assert_eq!(call(&rich["access_token"], "echo").status, 403);
}
