//! The connector account: listed in pages, reached through the proxy, and only with the current token.

use testkit::ConnectorService;
use testkit::connector_account::Connector;

use crate::http_client::http_request;
use crate::oauth_client::initialize;

#[test]
fn connectors_are_listed_in_pages_with_a_valid_token() {
    let connectors = ["Mail", "Chat", "Files of Ours"].map(Connector::new);
    let account = ConnectorService::start(&connectors, 2).expect("it starts");
    assert_eq!(http_request("GET", &account.url(), &[], "").status, 401);
    let bearer = format!("Bearer {}", account.bearer_token());
    let page = |query: &str| {
        let url = format!("{}{query}", account.url());
        http_request("GET", &url, &[("authorization", &bearer)], "").json()
    };
    let first = page("");
    assert_eq!(first["connectors"][0]["name"], "Mail");
    let cursor = first["nextCursor"].as_str().expect("there is more");
    let second = page(&format!("?cursor={cursor}"));
    assert_eq!(second["connectors"][0]["name"], "Files of Ours");
    assert!(second["nextCursor"].is_null());
    let url = second["connectors"][0]["url"].as_str().expect("an address");
    assert!(url.ends_with("?mcp_url=https%3A%2F%2Fmcp.files-of-ours.example%2F"), "{url}");
}

#[test]
fn a_connector_responds_through_the_proxy_until_the_token_changes() {
    let account = ConnectorService::start(&[Connector::new("Mail")], 10).expect("it starts");
    let bearer = format!("Bearer {}", account.bearer_token());
    let mut list = http_request("GET", &account.url(), &[("authorization", &bearer)], "");
    let url = list.json()["connectors"][0]["url"].as_str().expect("an address").to_owned();
    assert_eq!(initialize(&url, &[]).status, 401);
    assert_eq!(initialize(&url, &[("authorization", &bearer)]).status, 200);
    let fresh = format!("Bearer {}", account.rotate_token());
    assert_eq!(initialize(&url, &[("authorization", &bearer)]).status, 401);
    assert_eq!(initialize(&url, &[("authorization", &fresh)]).status, 200);
    assert_eq!(account.requests().len(), 5);
}
