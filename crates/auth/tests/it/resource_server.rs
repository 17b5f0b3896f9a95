//! Verifying an issuer's tokens, with keys fetched over real sockets.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::{Value, json};
use switchboard_auth::resource_server::{
    AccessTokenError, AuthError, Authenticator, IssuerError, JwtPolicy, JwtVerifier, Principal,
    RequestHead,
};
use switchboard_auth::scopes::Scopes;
use testkit::AuthorizationServer;
use testkit::authorization_server::{
    AuthorizationConfig, Endpoint, IssuerMetadataLocation, IssuerOrigin, OAuthQuirk, ResponseFault,
    Site,
};

use crate::auth_server::http_fetcher;

const RESOURCE: &str = "https://gateway.example.com/mcp";

fn authenticator(auth_server: &AuthorizationServer) -> Authenticator {
    let policy = JwtPolicy {
        issuer: auth_server.issuer(),
        resource: RESOURCE.to_owned(),
        audiences: vec!["gateway".to_owned()],
        scopes: Scopes::parse("mcp"),
    };
    let check = JwtVerifier::new(policy, Arc::new(http_fetcher()), &[]).expect("good terms");
    Authenticator::Jwt(Box::new(check))
}

fn bearer_headers(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a value");
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

async fn authenticate(authenticator: &Authenticator, token: &str) -> Result<Principal, AuthError> {
    let (headers, target) = (bearer_headers(token), Uri::from_static("/mcp"));
    authenticator
        .authenticate(RequestHead { headers: &headers, method: &Method::POST, uri: &target })
        .await
}

fn request_count(auth_server: &AuthorizationServer, endpoint: Endpoint) -> usize {
    auth_server.counters().requests.get(&endpoint).copied().unwrap_or_default()
}

#[tokio::test]
async fn keys_are_found_wherever_an_issuer_may_keep_its_metadata() {
    for (paper, path, housing) in [
        (IssuerMetadataLocation::OauthInserted, "", IssuerOrigin::Separate),
        (IssuerMetadataLocation::OidcInserted, "", IssuerOrigin::Separate),
        (IssuerMetadataLocation::OauthInserted, "/tenant", IssuerOrigin::Separate),
        (IssuerMetadataLocation::OidcInserted, "/tenant", IssuerOrigin::SameAsResource),
        (IssuerMetadataLocation::OidcAppended, "/realms/one", IssuerOrigin::Separate),
    ] {
        let auth_server = AuthorizationServer::start(AuthorizationConfig {
            issuer_metadata: paper,
            issuer_path: path.to_owned(),
            issuer_origin: housing,
            ..AuthorizationConfig::compliant()
        });
        let authenticator = authenticator(&auth_server);
        let token = auth_server.access_token(RESOURCE, &json!({}));
        let ada = authenticate(&authenticator, &token).await.expect("she is let in");
        assert_eq!(ada.to_string(), format!("ada@{}", auth_server.issuer()), "{paper:?} {path}");
        assert!(authenticator.cached(&bearer_headers(&token)).is_some());
        let other = auth_server.access_token("gateway", &json!({ "sub": "bob" }));
        assert!(authenticate(&authenticator, &other).await.is_ok());
        assert_eq!(request_count(&auth_server, Endpoint::Keys), 1);
        assert!(auth_server.sites_that_received(&token).is_empty());
        authenticator.close().await;
    }
}

#[tokio::test]
async fn tokens_for_others_and_of_others_are_refused_over_the_wire_as_well() {
    let (auth_server, other) = (
        AuthorizationServer::start(AuthorizationConfig::compliant()),
        AuthorizationServer::start(AuthorizationConfig::compliant()),
    );
    let authenticator = authenticator(&auth_server);
    let check = async |token: String| {
        authenticate(&authenticator, &token).await.expect_err("it is refused")
    };
    let fault = |fault| AuthError::Token(fault);
    let mine = |changes: Value| auth_server.access_token(RESOURCE, &changes);
    assert_eq!(
        check(auth_server.access_token(&auth_server.url(), &json!({}))).await,
        fault(AccessTokenError::WrongAudience)
    );
    assert_eq!(
        check(other.access_token(RESOURCE, &json!({}))).await,
        fault(AccessTokenError::Signature)
    );
    let forged = other.access_token(RESOURCE, &json!({ "iss": auth_server.issuer() }));
    assert_eq!(check(forged).await, fault(AccessTokenError::Signature));
    assert_eq!(check(mine(json!({ "exp": 1000 }))).await, fault(AccessTokenError::Expired));
    assert_eq!(
        check(mine(json!({ "iss": other.issuer() }))).await,
        fault(AccessTokenError::WrongIssuer)
    );
    assert!(matches!(
        check(mine(json!({ "scope": "other" }))).await,
        AuthError::InsufficientScope(_)
    ));
    let id_token = auth_server.id_token("gateway", std::time::Duration::from_secs(60));
    assert_eq!(check(id_token).await, fault(AccessTokenError::WrongIssuer));
    assert_eq!(request_count(&auth_server, Endpoint::Keys), 1);
}

#[tokio::test]
async fn cached_keys_survive_an_unreachable_issuer() {
    let auth_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let authenticator = authenticator(&auth_server);
    let [first, second] =
        ["ada", "bob"].map(|sub| auth_server.access_token(RESOURCE, &json!({ "sub": sub })));
    assert!(authenticate(&authenticator, &first).await.is_ok());
    drop(auth_server);
    assert!(
        authenticate(&authenticator, &first).await.is_ok()
            && authenticate(&authenticator, &second).await.is_ok()
    );
}

#[tokio::test]
async fn an_issuer_that_answers_badly_is_an_outage_and_not_a_bad_token() {
    let rows = [
        AuthorizationConfig::compliant().fault(Endpoint::Keys, ResponseFault::Unavailable),
        AuthorizationConfig::compliant().fault(Endpoint::Keys, ResponseFault::RedirectsToAttacker),
        AuthorizationConfig::compliant()
            .fault(Endpoint::Keys, ResponseFault::OversizedBody(2 * 1024 * 1024)),
        AuthorizationConfig::compliant().fault(Endpoint::Keys, ResponseFault::DropsResponse),
        AuthorizationConfig::compliant()
            .fault(Endpoint::IssuerMetadata, ResponseFault::Unavailable),
        AuthorizationConfig::compliant()
            .fault(Endpoint::IssuerMetadata, ResponseFault::RedirectsToAttacker),
        AuthorizationConfig::compliant().quirk(OAuthQuirk::WrongIssuerInMetadata),
        AuthorizationConfig {
            issuer_metadata: IssuerMetadataLocation::Absent,
            ..AuthorizationConfig::compliant()
        },
    ];
    for charter in rows {
        let shape = format!("{:?} {:?}", charter.faults, charter.quirks);
        let auth_server = AuthorizationServer::start(charter);
        let token = auth_server.access_token(RESOURCE, &json!({}));
        let refusal = authenticate(&authenticator(&auth_server), &token)
            .await
            .expect_err("there are no keys");
        assert!(matches!(refusal, AuthError::IssuerUnavailable(_)), "{shape} {refusal:?}");
        assert_ne!(refusal, AuthError::IssuerUnavailable(IssuerError::TimedOut), "{shape}");
        let seen = auth_server.requests();
        assert!(seen.iter().all(|it| it.site != Site::Attacker), "{shape}");
    }
}
