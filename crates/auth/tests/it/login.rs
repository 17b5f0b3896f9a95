//! Whole logins.

use switchboard_auth::challenge::{AuthChallenge, DpopRequirement};
use switchboard_auth::crypto::dpop::DpopKey;
use switchboard_auth::flow::runner::{NonInteractive, SignInError, sign_in};
use switchboard_auth::flow::{FlowError, LoginGrant, LoginPlan};
use switchboard_auth::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use switchboard_auth::secret::Secret;
use switchboard_auth::token::response::TokenType;

use crate::auth_server::{
    AuthServer, AutoApprovingUser, TokenBehavior, browser_method, http_fetcher,
};

#[tokio::test]
async fn a_user_signs_in() {
    let auth_server = AuthServer::start().await;
    let signed_in =
        sign_in(auth_server.plan(browser_method()), &http_fetcher(), &AutoApprovingUser)
            .await
            .expect("in");
    assert_eq!(signed_in.client.id, "me");
    assert!(signed_in.tokens.refresh_token.is_some());
    let book = auth_server.state();
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
    let auth_server = AuthServer::start().await;
    let demand = AuthChallenge { dpop: DpopRequirement::Required, ..AuthChallenge::default() };
    let proof = Some(DpopKey::generate());
    let plan =
        LoginPlan { challenge: demand, dpop_key: proof, ..auth_server.plan(browser_method()) };
    let signed_in = sign_in(plan, &http_fetcher(), &AutoApprovingUser).await.expect("in");
    assert_eq!(signed_in.tokens.token_type, TokenType::Dpop);
    assert_eq!(auth_server.state().token_requests(), 2);
}

#[tokio::test]
async fn without_a_user_an_interactive_login_fails() {
    let auth_server = AuthServer::start().await;
    let given_up =
        sign_in(auth_server.plan(browser_method()), &http_fetcher(), &NonInteractive).await;
    assert!(matches!(given_up, Err(SignInError::UserUnavailable(_))), "{given_up:?}");
}

#[tokio::test]
async fn a_code_that_is_refused_is_not_tried_again() {
    let auth_server = AuthServer::start().await;
    auth_server.state().behavior = TokenBehavior::Returns(400, r#"{"error":"invalid_grant"}"#);
    let refused =
        sign_in(auth_server.plan(browser_method()), &http_fetcher(), &AutoApprovingUser).await;
    assert!(matches!(refused, Err(SignInError::Failed(FlowError::Token(_)))), "{refused:?}");
    assert_eq!(auth_server.state().token_requests(), 1);
}

#[tokio::test]
async fn a_program_signs_in_by_itself() {
    let auth_server = AuthServer::start().await;
    let credential = ClientCredential::Secret(Secret::new("shh"));
    let configured = ConfiguredClient { id: "me".to_owned(), credential, issuer: None };
    let setup = ClientConfig { configured: Some(configured), metadata_document: None };
    let plan =
        LoginPlan { client_config: setup, ..auth_server.plan(LoginGrant::ClientCredentials) };
    assert!(sign_in(plan, &http_fetcher(), &NonInteractive).await.is_ok());
}
