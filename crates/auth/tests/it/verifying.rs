//! Checking an issuer's tokens, with keys that come over real sockets.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::{Value, json};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::verify::{
    Asked, Doorkeeper, IssuerCheck, IssuerFault, Principal, Refusal, TokenFault, TokenTerms,
};
use testkit::Authority;
use testkit::authority::{Charter, Endpoint, Habit, Housing, How, IssuerPaper, Site};

use crate::authority::online;

const RESOURCE: &str = "https://gateway.example.com/mcp";

fn door(authority: &Authority) -> Doorkeeper {
    let terms = TokenTerms {
        issuer: authority.issuer(),
        resource: RESOURCE.to_owned(),
        audiences: vec!["gateway".to_owned()],
        scopes: Scopes::parse("mcp"),
    };
    let check = IssuerCheck::new(terms, Arc::new(online()), &[]).expect("good terms");
    Doorkeeper::Issuer(Box::new(check))
}

fn shown(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a value");
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

async fn show(door: &Doorkeeper, token: &str) -> Result<Principal, Refusal> {
    let (headers, target) = (shown(token), Uri::from_static("/mcp"));
    door.verify(Asked { headers: &headers, method: &Method::POST, target: &target }).await
}

fn asked(authority: &Authority, endpoint: Endpoint) -> usize {
    authority.tally().requests.get(&endpoint).copied().unwrap_or_default()
}

#[tokio::test]
async fn keys_are_found_wherever_an_issuer_may_keep_its_metadata() {
    for (paper, path, housing) in [
        (IssuerPaper::OauthInserted, "", Housing::Apart),
        (IssuerPaper::OidcInserted, "", Housing::Apart),
        (IssuerPaper::OauthInserted, "/tenant", Housing::Apart),
        (IssuerPaper::OidcInserted, "/tenant", Housing::Together),
        (IssuerPaper::OidcAppended, "/realms/one", Housing::Apart),
    ] {
        let authority = Authority::start(Charter {
            issuer_paper: paper,
            issuer_path: path.to_owned(),
            housing,
            ..Charter::good()
        });
        let door = door(&authority);
        let token = authority.access_token(RESOURCE, &json!({}));
        let ada = show(&door, &token).await.expect("she is let in");
        assert_eq!(ada.to_string(), format!("ada@{}", authority.issuer()), "{paper:?} {path}");
        assert!(door.known(&shown(&token)).is_some());
        let other = authority.access_token("gateway", &json!({ "sub": "bob" }));
        assert!(show(&door, &other).await.is_ok());
        assert_eq!(asked(&authority, Endpoint::Keys), 1);
        assert!(authority.sites_that_saw(&token).is_empty());
        door.close().await;
    }
}

#[tokio::test]
async fn tokens_for_others_and_of_others_are_refused_over_the_wire_as_well() {
    let (authority, other) = (Authority::start(Charter::good()), Authority::start(Charter::good()));
    let door = door(&authority);
    let check = async |token: String| show(&door, &token).await.expect_err("it is refused");
    let fault = |fault| Refusal::Token(fault);
    let mine = |changes: Value| authority.access_token(RESOURCE, &changes);
    assert_eq!(
        check(authority.access_token(&authority.url(), &json!({}))).await,
        fault(TokenFault::Audience)
    );
    assert_eq!(check(other.access_token(RESOURCE, &json!({}))).await, fault(TokenFault::Signature));
    let forged = other.access_token(RESOURCE, &json!({ "iss": authority.issuer() }));
    assert_eq!(check(forged).await, fault(TokenFault::Signature));
    assert_eq!(check(mine(json!({ "exp": 1000 }))).await, fault(TokenFault::Expired));
    assert_eq!(check(mine(json!({ "iss": other.issuer() }))).await, fault(TokenFault::Issuer));
    assert!(matches!(check(mine(json!({ "scope": "other" }))).await, Refusal::Scopes(_)));
    let id_token = authority.id_token("gateway", std::time::Duration::from_secs(60));
    assert_eq!(check(id_token).await, fault(TokenFault::Issuer));
    assert_eq!(asked(&authority, Endpoint::Keys), 1);
}

#[tokio::test]
async fn an_issuer_that_is_gone_is_still_believed_where_it_was_heard() {
    let authority = Authority::start(Charter::good());
    let door = door(&authority);
    let [first, second] =
        ["ada", "bob"].map(|sub| authority.access_token(RESOURCE, &json!({ "sub": sub })));
    assert!(show(&door, &first).await.is_ok());
    drop(authority);
    assert!(show(&door, &first).await.is_ok() && show(&door, &second).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_answers_badly_is_an_outage_and_not_a_bad_token() {
    let rows = [
        Charter::good().lapse(Endpoint::Keys, How::Down),
        Charter::good().lapse(Endpoint::Keys, How::RedirectsElsewhere),
        Charter::good().lapse(Endpoint::Keys, How::Huge(2 * 1024 * 1024)),
        Charter::good().lapse(Endpoint::Keys, How::LosesTheAnswer),
        Charter::good().lapse(Endpoint::IssuerMetadata, How::Down),
        Charter::good().lapse(Endpoint::IssuerMetadata, How::RedirectsElsewhere),
        Charter::good().habit(Habit::NamesAnotherIssuer),
        Charter { issuer_paper: IssuerPaper::Absent, ..Charter::good() },
    ];
    for charter in rows {
        let shape = format!("{:?} {:?}", charter.lapses, charter.habits);
        let authority = Authority::start(charter);
        let token = authority.access_token(RESOURCE, &json!({}));
        let refusal = show(&door(&authority), &token).await.expect_err("there are no keys");
        assert!(matches!(refusal, Refusal::Unavailable(_)), "{shape} {refusal:?}");
        assert_ne!(refusal, Refusal::Unavailable(IssuerFault::Late), "{shape}");
        let seen = authority.sightings();
        assert!(seen.iter().all(|it| it.site != Site::Elsewhere), "{shape}");
    }
}
