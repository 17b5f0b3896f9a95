//! Random response sequences: a login ends, never panics, and sends each secret only to its own endpoint.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::crypto::dpop::DpopKey;

/// Checks that each secret of the login is sent only to its own endpoint.
fn check_secrets(run: &FlowRun) {
    for request in &run.requests {
        let headers: Vec<_> = request
            .headers
            .values()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        let body = String::from_utf8_lossy(&request.body);
        let sent = format!("{} {body} {}", request.url, headers.join(" "));
        // Base64 as in Basic authentication.
        let contains = |secret: &str, basic: &str| sent.contains(secret) || sent.contains(basic);
        let target = request.url.as_str();
        if contains("as-secret", "bWluZTphcy1zZWNyZXQ") {
            assert_eq!(target, "https://as.example.com/token");
        }
        if contains("idp-secret", "YXQtaWRwOmlkcC1zZWNyZXQ") || sent.contains("id-token") {
            assert_eq!(target, "https://idp.corp.example/token");
        }
        if sent.contains("the-code") {
            assert_eq!(target, "https://as.example.com/token");
        }
    }
}

/// A random response; `None` is an unreachable server.
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

/// For each request, whether it is answered properly, and a random response otherwise.
fn arbitrary_turns() -> impl Strategy<Value = Vec<(bool, Option<(u16, String)>)>> {
    prop::collection::vec((prop::bool::weighted(0.7), arbitrary_response()), 1..12)
}

fn arbitrary_method() -> impl Strategy<Value = usize> {
    0usize..5
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_sequence_of_responses_panics_loops_or_leaks_a_secret(turns in arbitrary_turns(), method in arbitrary_method()) {
        let base = enterprise(None);
        let method = match method {
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
        let plan = LoginPlan { method, client_config: setup, dpop_key: Some(DpopKey::generate()), ..base };
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
