//! Whole logins.

use switchboard_auth::challenge::{Binding, Demand};
use switchboard_auth::confidential::Secret;
use switchboard_auth::dpop::ProofKey;
use switchboard_auth::flow::{Plan, Way, Why};
use switchboard_auth::registration::{Configured, Credential, Setup};
use switchboard_auth::runner::{Nobody, SignInError, sign_in};
use switchboard_auth::token::Kind;

use crate::authority::{Authority, Clicker, Mood, browser, online};

#[tokio::test]
async fn a_person_signs_in() {
    let authority = Authority::start().await;
    let signed_in = sign_in(authority.plan(browser()), &online(), &Clicker).await.expect("in");
    assert_eq!(signed_in.client.id, "me");
    assert!(signed_in.tokens.refresh.is_some());
    let book = authority.book();
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
    let authority = Authority::start().await;
    let demand = Demand { binding: Binding::Demanded, ..Demand::default() };
    let proof = Some(ProofKey::generate());
    let plan = Plan { demand, proof, ..authority.plan(browser()) };
    let signed_in = sign_in(plan, &online(), &Clicker).await.expect("in");
    assert_eq!(signed_in.tokens.kind, Kind::Dpop);
    assert_eq!(authority.book().tokens_asked(), 2);
}

#[tokio::test]
async fn without_a_person_a_login_that_needs_one_is_given_up() {
    let authority = Authority::start().await;
    let given_up = sign_in(authority.plan(browser()), &online(), &Nobody).await;
    assert!(matches!(given_up, Err(SignInError::Gone(_))), "{given_up:?}");
}

#[tokio::test]
async fn a_code_that_is_refused_is_not_tried_again() {
    let authority = Authority::start().await;
    authority.book().mood = Mood::Says(400, r#"{"error":"invalid_grant"}"#);
    let refused = sign_in(authority.plan(browser()), &online(), &Clicker).await;
    assert!(matches!(refused, Err(SignInError::Failed(Why::Token(_)))), "{refused:?}");
    assert_eq!(authority.book().tokens_asked(), 1);
}

#[tokio::test]
async fn a_program_signs_in_by_itself() {
    let authority = Authority::start().await;
    let credential = Credential::Secret(Secret::new("shh"));
    let configured = Configured { id: "me".to_owned(), credential, issuer: None };
    let setup = Setup { configured: Some(configured), document: None };
    let plan = Plan { setup, ..authority.plan(Way::ClientCredentials) };
    assert!(sign_in(plan, &online(), &Nobody).await.is_ok());
}
