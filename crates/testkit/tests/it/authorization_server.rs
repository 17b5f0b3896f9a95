//! The authority: what it publishes, how people and clients get in, and what it writes down.

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
fn somebody_signs_in_and_the_server_behind_the_gate_answers() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let refused = initialize(&authority.url(), &[]);
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    let place = challenge.split('"').nth(1).expect("it names the metadata");
    let resource = get(place).json();
    assert_eq!(resource["resource"], authority.url());
    let issuer = resource["authorization_servers"][0].as_str().expect("an issuer");
    let metadata = get(&format!("{issuer}/.well-known/oauth-authorization-server")).json();
    assert_eq!(metadata["issuer"], issuer);

    let (_, tokens) = login(&authority, "");

    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["expires_in"], 3600);
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    assert_eq!(authority.admitted_requests().len(), 1, "only the second request came through");
    let counters = authority.counters();
    assert_eq!((counters.registrations, counters.logins, counters.refreshes), (1, 1, 0));
    assert_eq!(counters.requests[&Endpoint::Resource], 2);
    let access = tokens["access_token"].as_str().expect("text");
    assert_eq!(authority.sites_that_received(access), [Site::Resource]);
    assert_eq!(authority.sites_that_received(VERIFIER), [Site::Issuer]);
}

#[track_caller]
fn metadata_found(config: AuthorizationConfig, paths: &[(Site, &str)]) -> Vec<bool> {
    let authority = AuthorizationServer::start(config);
    let there = |(site, path): &(Site, &str)| {
        get(&format!("{}{path}", authority.origin(*site))).status == 200
    };
    paths.iter().map(there).collect()
}

#[test]
fn papers_lie_where_they_should_and_nowhere_else() {
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
    let authority = AuthorizationServer::start(AuthorizationConfig {
        issuer_origin: IssuerOrigin::SameAsResource,
        resource_metadata: ResourceMetadataLocation::Absent,
        issuer_metadata: IssuerMetadataLocation::Absent,
        resource_indicator: ResourceIndicator::Ignored,
        ..AuthorizationConfig::compliant()
    });
    assert_eq!(authority.issuer(), authority.origin(Site::Resource));
    let (_, tokens) = login(&authority, "");
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    assert!(authority.requests().iter().all(|seen| seen.site == Site::Resource));
}

#[test]
fn a_challenge_is_whole_or_bare_or_one_of_several_or_not_there() {
    for (challenge, expected) in [
        (Challenge::Full, vec!["Bearer resource_metadata="]),
        (Challenge::WithoutMetadata, vec!["Bearer"]),
        (Challenge::None, vec![]),
        (Challenge::Multiple, vec!["Basic realm=", "Negotiate", "Bearer resource_metadata="]),
    ] {
        let authority = AuthorizationServer::start(AuthorizationConfig {
            challenge,
            ..AuthorizationConfig::compliant()
        });
        let reply = initialize(&authority.url(), &[]);
        assert_eq!(reply.status, 401);
        let said = reply.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let said: Vec<&str> = said.map(|(_, value)| value.as_str()).collect();
        assert_eq!(said.len(), expected.len(), "{said:?}");
        assert!(said.iter().zip(&expected).all(|(it, wanted)| it.starts_with(wanted)), "{said:?}");
    }
}

#[test]
fn a_client_with_a_secret_has_to_show_it_in_a_way_that_is_taken() {
    let config = AuthorizationConfig {
        registration: Registration::WithSecret,
        ..AuthorizationConfig::compliant()
    };
    let authority = AuthorizationServer::start(config.auth_methods(&["client_secret_basic"]));
    let client = register(&authority);
    let id = client["client_id"].as_str().expect("an id");
    let secret = client["client_secret"].as_str().expect("a secret");
    let url = format!("{}/token", authority.issuer());
    let resource = authority.url();
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
fn a_client_that_may_not_register_is_told_so() {
    let config = AuthorizationConfig {
        registration: Registration::Refused,
        ..AuthorizationConfig::compliant()
    };
    let authority = AuthorizationServer::start(config.client("known", None));
    let url = format!("{}/register", authority.issuer());
    let body = json!({"redirect_uris": [REDIRECT]}).to_string();
    assert_eq!(
        http_request("POST", &url, &[("content-type", "application/json")], &body).status,
        403
    );
    let code = code(&authority, "known", "");
    assert_eq!(redeem_code(&authority, "known", &code, &[]).status, 200);
}

#[test]
fn a_client_that_publishes_a_document_needs_no_registration() {
    let config = AuthorizationConfig {
        client_metadata_documents: ClientMetadataDocuments::Supported,
        ..AuthorizationConfig::compliant()
    };
    let authority = AuthorizationServer::start(config);
    let id = authority.publish_client_metadata(&[REDIRECT]);
    let code = code(&authority, &id, "");
    assert_eq!(redeem_code(&authority, &id, &code, &[]).status, 200);
    assert_eq!(authority.counters().registrations, 0);
    let stranger = format!("{}/other.json", authority.origin(Site::Attacker));
    assert_eq!(get(&authorize_url(&authority, &stranger, &[])).status, 400);
}

#[test]
fn nobody_is_sent_to_an_address_that_the_client_did_not_name() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let client = register(&authority)["client_id"].as_str().expect("an id").to_owned();
    let url = authorize_url(&authority, &client, &[]);
    let another_port = url.replace("127.0.0.1%3A1%2F", "127.0.0.1%3A999%2F");
    assert_eq!(get(&another_port).status, 302, "the port of a loopback address is free");
    let another_host = url.replace("127.0.0.1%3A1%2F", "evil.example%3A1%2F");
    assert_eq!(get(&another_host).status, 400);
}

#[test]
fn the_person_does_what_the_charter_says() {
    let back = |consent: Consent| {
        let authority = AuthorizationServer::start(
            AuthorizationConfig { consent, ..AuthorizationConfig::compliant() }.client("me", None),
        );
        let reply = get(&authorize_url(&authority, "me", &[]));
        let is_ours = reply.header("location").is_some_and(|it| it.starts_with(REDIRECT));
        (redirect_query(&reply), is_ours)
    };
    let (pairs, _) = back(Consent::Approves);
    assert_eq!(query_value(&pairs, "state"), Some("the-state"));
    assert_eq!(query_value(&back(Consent::Denies).0, "error"), Some("access_denied"));
    assert_eq!(query_value(&back(Consent::WrongState).0, "state"), Some("nobody-gave-this"));
    assert_eq!(query_value(&back(Consent::NoState).0, "state"), None);
    assert!(!back(Consent::RedirectsToAttacker).1, "it leads to somebody else");
}

#[test]
fn a_page_comes_first_where_there_is_one() {
    let config =
        AuthorizationConfig { consent: Consent::ShowsPage, ..AuthorizationConfig::compliant() };
    let authority = AuthorizationServer::start(config.client("me", None));
    let mut page = get(&authorize_url(&authority, "me", &[]));
    assert_eq!(page.status, 200);
    let page = String::from_utf8(page.body().expect("whole")).expect("text");
    let link = page.split('"').nth(1).expect("a link").replace("&amp;", "&");
    let pairs = redirect_query(&get(&format!("{}{link}", authority.origin(Site::Issuer))));
    assert!(query_value(&pairs, "code").is_some());
}

#[test]
fn an_answer_says_who_sent_it_as_the_charter_wants() {
    for (issuer_parameter, announced, said) in [
        (IssuerParameter::Announced, true, Some(Site::Issuer)),
        (IssuerParameter::Unannounced, false, Some(Site::Issuer)),
        (IssuerParameter::Missing, true, None),
        (IssuerParameter::Wrong, true, Some(Site::Attacker)),
        (IssuerParameter::Absent, false, None),
    ] {
        let config = AuthorizationConfig { issuer_parameter, ..AuthorizationConfig::compliant() };
        let authority = AuthorizationServer::start(config.client("me", None));
        let place = format!("{}/.well-known/oauth-authorization-server", authority.issuer());
        let metadata = get(&place).json();
        let is_announced = metadata["authorization_response_iss_parameter_supported"] == true;
        assert_eq!(is_announced, announced, "{issuer_parameter:?}");
        let pairs = redirect_query(&get(&authorize_url(&authority, "me", &[])));
        assert_eq!(query_value(&pairs, "iss"), said.map(|site| authority.origin(site)));
    }
}

#[test]
fn a_code_is_good_once_for_its_client_and_with_its_verifier() {
    let authority = AuthorizationServer::start(
        AuthorizationConfig::compliant().client("me", None).client("eve", None),
    );
    let stolen = code(&authority, "me", "");
    assert_eq!(redeem_code(&authority, "eve", &stolen, &[]).json()["error"], "invalid_grant");
    let used = code(&authority, "me", "");
    let tokens = redeem_code(&authority, "me", &used, &[]).json();
    assert_eq!(initialize_with_token(&authority.url(), &tokens["access_token"]), 200);
    assert_eq!(redeem_code(&authority, "me", &used, &[]).status, 400);
    assert_eq!(authority.counters().codes_reused, 1);
    assert_eq!(
        initialize_with_token(&authority.url(), &tokens["access_token"]),
        401,
        "the login is over"
    );

    let unproved = code(&authority, "me", "");
    let (resource, wrong) = (authority.url(), VERIFIER.replace('a', "b"));
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", unproved.as_str()),
        ("redirect_uri", REDIRECT),
        ("code_verifier", &wrong),
        ("client_id", "me"),
        ("resource", &resource),
    ];
    assert_eq!(post_form(&format!("{}/token", authority.issuer()), &[], &fields).status, 400);
}

#[test]
fn a_login_is_for_the_resource_that_was_named() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant().client("me", None));
    let url = authorize_url(&authority, "me", &[]).replace("%2Fmcp", "%2Fother");
    assert_eq!(query_value(&redirect_query(&get(&url)), "error"), Some("invalid_target"));
}

#[test]
fn a_refresh_token_is_good_once_and_a_thief_ends_the_login() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, first) = login(&authority, "");
    let second = refresh(&authority, &client, &first["refresh_token"]).json();
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(
        refresh(&authority, &client, &first["refresh_token"]).json()["error"],
        "invalid_grant"
    );
    assert_eq!(refresh(&authority, &client, &second["refresh_token"]).status, 400);
    assert_eq!(initialize_with_token(&authority.url(), &second["access_token"]), 401);
    let counters = authority.counters();
    assert_eq!(
        (counters.refreshes, counters.refresh_tokens_reused, counters.peak_concurrent_refreshes),
        (1, 1, 1)
    );
}

#[test]
fn tokens_that_are_given_back_are_good_no_more() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let (client, tokens) = login(&authority, "");
    let token = tokens["refresh_token"].as_str().expect("text");
    let url = format!("{}/revoke", authority.issuer());
    assert_eq!(post_form(&url, &[], &[("token", token), ("client_id", &client)]).status, 200);
    assert_eq!(authority.counters().revocations, 1);
    assert_eq!(refresh(&authority, &client, &tokens["refresh_token"]).status, 400);
    assert_eq!(post_form(&url, &[], &[("token", "unknown"), ("client_id", &client)]).status, 200);
}

#[test]
fn a_tool_may_need_a_scope_and_the_answer_names_it() {
    let authority = AuthorizationServer::start(
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
        post_message(&authority.url(), &headers, &request(1, "tools/call", params))
    };
    let (_, poor) = login(&authority, "");
    assert_eq!(call(&poor["access_token"], "count").status, 200);
    let refused = call(&poor["access_token"], "echo");
    assert_eq!(refused.status, 403);
    let challenge = refused.header("www-authenticate").expect("a challenge");
    assert!(
        challenge.contains("error=\"insufficient_scope\", scope=\"tools:echo\""),
        "{challenge}"
    );
    let (_, rich) = login(&authority, "tools:echo");
    assert_eq!(call(&rich["access_token"], "echo").status, 200);
    authority.reconfigure(|config| config.quirks.push(OAuthQuirk::AlwaysInsufficientScope));
    assert_eq!(call(&rich["access_token"], "echo").status, 403);
}
