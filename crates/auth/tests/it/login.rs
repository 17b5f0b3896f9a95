//! Whole logins.

use switchboard_auth::challenge::{AuthChallenge, DpopRequirement};
use switchboard_auth::confidential::Secret;
use switchboard_auth::dpop::DpopKey;
use switchboard_auth::flow::{FlowError, LoginGrant, LoginPlan};
use switchboard_auth::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use switchboard_auth::runner::{NonInteractive, SignInError, sign_in};
use switchboard_auth::token::TokenType;

use crate::authority::{
    AuthServer, AutoApprovingUser, TokenBehavior, browser_method, http_fetcher,
};

#[tokio::test]
async fn a_person_signs_in() {
    let authority = AuthServer::start().await;
    let signed_in = sign_in(authority.plan(browser_method()), &http_fetcher(), &AutoApprovingUser)
        .await
        .expect("in");
    assert_eq!(signed_in.client.id, "me");
    assert!(signed_in.tokens.refresh_token.is_some());
    let book = authority.state();
    let paths: Vec<_> = book.seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-authorization-server",
            "/register",
            "/authorize",
            "/token",
        ]
    );
}

#[tokio::test]
async fn tokens_are_bound_and_the_number_is_heeded() {
    let authority = AuthServer::start().await;
    let demand = AuthChallenge { dpop: DpopRequirement::Required, ..AuthChallenge::default() };
    let proof = Some(DpopKey::generate());
    let plan = LoginPlan { challenge: demand, dpop_key: proof, ..authority.plan(browser_method()) };
    let signed_in = sign_in(plan, &http_fetcher(), &AutoApprovingUser).await.expect("in");
    assert_eq!(signed_in.tokens.token_type, TokenType::Dpop);
    assert_eq!(authority.state().token_requests(), 2);
}

#[tokio::test]
async fn without_a_person_a_login_that_needs_one_is_given_up() {
    let authority = AuthServer::start().await;
    let given_up =
        sign_in(authority.plan(browser_method()), &http_fetcher(), &NonInteractive).await;
    assert!(matches!(given_up, Err(SignInError::UserUnavailable(_))), "{given_up:?}");
}

#[tokio::test]
async fn a_code_that_is_refused_is_not_tried_again() {
    let authority = AuthServer::start().await;
    authority.state().behavior = TokenBehavior::Returns(400, r#"{"error":"invalid_grant"}"#);
    let refused =
        sign_in(authority.plan(browser_method()), &http_fetcher(), &AutoApprovingUser).await;
    assert!(matches!(refused, Err(SignInError::Failed(FlowError::Token(_)))), "{refused:?}");
    assert_eq!(authority.state().token_requests(), 1);
}

#[tokio::test]
async fn a_program_signs_in_by_itself() {
    let authority = AuthServer::start().await;
    let credential = ClientCredential::Secret(Secret::new("shh"));
    let configured = ConfiguredClient { id: "me".to_owned(), credential, issuer: None };
    let setup = ClientConfig { configured: Some(configured), metadata_document: None };
    let plan = LoginPlan { client_config: setup, ..authority.plan(LoginGrant::ClientCredentials) };
    assert!(sign_in(plan, &http_fetcher(), &NonInteractive).await.is_ok());
}
