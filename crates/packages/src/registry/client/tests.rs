//! Tests of the client with responses that are computed from the URL.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use switchboard_auth::fetch::FetchFuture;

use super::*;

type Respond = fn(&str, &str) -> (u16, String);

/// Responds to a path and a query, and records both.
struct FakeFetch {
    respond: Respond,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Fetch for FakeFetch {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        let path = request.url.path().to_owned();
        let query = request.url.query().unwrap_or_default().to_owned();
        self.requests.lock().expect("no holder panics").push(format!("{path}?{query}"));
        let (status, body) = (self.respond)(&path, &query);
        Box::pin(async move {
            Ok(FetchResponse { status, headers: HeaderMap::new(), body: Bytes::from(body) })
        })
    }
}

fn client(respond: Respond) -> (RegistryClient, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::default();
    let fetch = FakeFetch { respond, requests: Arc::clone(&requests) };
    let url = RegistryUrl::parse("https://registry.example/").expect("a URL");
    (RegistryClient::new(Box::new(fetch), url), requests)
}

fn page(names: &[&str], next: Option<&str>) -> (u16, String) {
    let servers: Vec<Json> =
        names.iter().map(|it| json!({"server": {"name": it, "version": "1.0.0"}})).collect();
    (200, json!({"servers": servers, "metadata": {"nextCursor": next}}).to_string())
}

fn cursor(query: &str) -> Option<usize> {
    let (_, cursor) = query.split_once("cursor=")?;
    cursor.parse().ok()
}

fn names(list: &ServerList) -> Vec<&str> {
    list.servers.iter().map(|it| it.name.as_str()).collect()
}

fn not_found() -> (u16, String) {
    (404, json!({"error": "nothing here"}).to_string())
}

#[tokio::test]
async fn pages_are_read_until_the_cursor_is_empty() {
    let (client, requests) = client(|_, query| match cursor(query) {
        None => page(&["a/one", "a/two"], Some("1")),
        Some(1) => page(&["a/two", "a/three"], Some("2")),
        Some(_) => page(&["a/four"], Some("")),
    });
    let list = client.search("a", 100).await.expect("a list");
    assert_eq!(names(&list), ["a/one", "a/two", "a/three", "a/four"]);
    assert!(matches!(list.end, ListEnd::Complete));
    let requests = requests.lock().expect("no holder panics");
    assert_eq!(
        *requests,
        [
            "/v0.1/servers?search=a&version=latest&limit=50",
            "/v0.1/servers?search=a&version=latest&limit=50&cursor=1",
            "/v0.1/servers?search=a&version=latest&limit=50&cursor=2",
        ]
    );
}

#[tokio::test]
async fn the_older_api_is_found_and_remembered() {
    let (client, requests) = client(|path, _| match path.starts_with("/v0/") {
        true if path.ends_with("/latest") => {
            (200, json!({"server": {"name": "a/one"}}).to_string())
        }
        true => page(&["a/one"], None),
        false => not_found(),
    });
    assert_eq!(names(&client.search("a", 10).await.expect("a list")), ["a/one"]);
    assert_eq!(client.server("a/one", None).await.expect("a server").name, "a/one");
    let requests = requests.lock().expect("no holder panics");
    let paths: Vec<&str> = requests.iter().map(|it| it.split('?').next().unwrap_or(it)).collect();
    assert_eq!(paths, ["/v0.1/servers", "/v0/servers", "/v0/servers/a%2Fone/versions/latest"]);
}

#[tokio::test]
async fn what_is_missing_is_told_apart() {
    let (client, _) = client(|_, _| not_found());
    let error = client.search("a", 10).await.expect_err("there is no API");
    assert!(matches!(error.kind, RegistryErrorKind::NoApi), "{error:?}");
    let error = client.server("a/b", Some("1.0.0")).await.expect_err("there is no server");
    assert!(matches!(error.kind, RegistryErrorKind::NotFound), "{error:?}");
}

#[tokio::test]
async fn another_server_than_the_requested_one_is_refused() {
    let (client, _) =
        client(|_, _| (200, json!({"server": {"name": "evil/x", "version": "9.9.9"}}).to_string()));
    let error = client.server("a/b", None).await.expect_err("it is another one");
    assert!(matches!(error.kind, RegistryErrorKind::NotFound), "{error:?}");
    let error = client.server("evil/x", Some("1.0.0")).await.expect_err("another version");
    assert!(matches!(error.kind, RegistryErrorKind::NotFound), "{error:?}");
    assert!(client.versions("a/b").await.is_err());
}

#[tokio::test]
async fn versions_without_the_filter_are_grouped_by_name() {
    let (client, _) = client(|_, _| {
        let row = |version: &str, latest: bool, at: &str| {
            let official = json!({"isLatest": latest, "publishedAt": at});
            let meta = json!({"io.modelcontextprotocol.registry/official": official});
            json!({"server": {"name": "a/one", "version": version}, "_meta": meta})
        };
        let other = |version: &str, at: &str| {
            let mut row = row(version, false, at);
            row["server"]["name"] = "a/two".into();
            row
        };
        let rows = json!([
            row("2.0.0", true, "2026-02-01"),
            row("1.0.0", false, "2026-03-01"),
            other("1.0.0", "2026-01-01"),
            other("1.1.0", "2026-02-01"),
            other("0.9.0", "2025-01-01"),
        ]);
        (200, json!({"servers": rows}).to_string())
    });
    let list = client.search("a", 10).await.expect("a list");
    let found: Vec<(&str, &str)> =
        list.servers.iter().map(|it| (it.name.as_str(), it.version.as_str())).collect();
    assert_eq!(found, [("a/one", "2.0.0"), ("a/two", "1.1.0")]);
}

#[tokio::test]
async fn endless_pages_end() {
    let (endless, requests) = client(|_, query| {
        let next = cursor(query).unwrap_or(0) + 1;
        page(&["a/one"], Some(&next.to_string()))
    });
    let list = endless.search("a", 10).await.expect("a list");
    assert!(matches!(list.end, ListEnd::TooLong), "{:?}", list.end);
    assert_eq!(requests.lock().expect("no holder panics").len(), 20);
    let (repeating, requests) = client(|_, _| page(&["a/one"], Some("same")));
    let list = repeating.search("a", 10).await.expect("a list");
    assert!(matches!(list.end, ListEnd::BadCursor), "{:?}", list.end);
    assert_eq!(requests.lock().expect("no holder panics").len(), 2);
    let (long, requests) = client(|_, _| page(&["a/one"], Some(&"x".repeat(5000))));
    let list = long.search("a", 10).await.expect("a list");
    assert!(matches!(list.end, ListEnd::BadCursor), "{:?}", list.end);
    assert_eq!(requests.lock().expect("no holder panics").len(), 1);
    let (many, requests) = client(|_, query| {
        let from = cursor(query).unwrap_or(0);
        let names: Vec<String> = (0..400).map(|it| format!("a/s{}", from + it)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        page(&names, Some(&(from + 400).to_string()))
    });
    assert!(matches!(many.versions("a/s1").await.expect("a list").end, ListEnd::TooLong));
    assert_eq!(requests.lock().expect("no holder panics").len(), 3);
    let list = many.search("a", 5).await.expect("a list");
    assert!(matches!(list.end, ListEnd::Enough), "{:?}", list.end);
    assert_eq!(list.servers.len(), 5);
}

#[tokio::test]
async fn responses_of_wrong_types_are_errors_and_rows_of_wrong_types_are_left_out() {
    for (body, expected) in [
        ("<html>", "its response is not JSON"),
        ("[]", "its response has no list `servers`"),
        (r#"{"servers": {}}"#, "its response has no list `servers`"),
        (r#"{"servers": "x"}"#, "its response has no list `servers`"),
    ] {
        static BODY: Mutex<String> = Mutex::new(String::new());
        body.clone_into(&mut BODY.lock().expect("no holder panics"));
        let (client, _) = client(|_, _| (200, BODY.lock().expect("no holder panics").clone()));
        let error = client.search("a", 10).await.expect_err("it is not a list");
        assert_eq!(error.kind.to_string(), expected, "{body}");
    }
    let (client, _) = client(|_, _| {
        let rows = json!([7, null, {"server": []}, {"server": {"name": "no slash"}}, {"server": {"name": "a/b"}}]);
        (200, json!({"servers": rows, "metadata": {"nextCursor": {}}}).to_string())
    });
    let list = client.search("a", 10).await.expect("a list");
    assert_eq!((names(&list), list.unreadable), (vec!["a/b"], 4));
}

#[tokio::test]
async fn an_error_of_the_registry_is_told_in_its_own_words_and_a_later_one_keeps_the_first_pages() {
    let (refusing, _) = client(|_, _| (429, json!({"error": "slow\u{1b}[2J down"}).to_string()));
    let error = refusing.search("a", 10).await.expect_err("it refuses");
    assert_eq!(error.kind.to_string(), "it responded with HTTP status 429: slow down");
    assert_eq!(error.to_string(), "the registry at `https://registry.example` could not be used");
    let (failing, _) = client(|_, query| match cursor(query) {
        None => page(&["a/one"], Some("1")),
        Some(_) => (500, String::new()),
    });
    let list = failing.search("a", 10).await.expect("the first page");
    assert_eq!(names(&list), ["a/one"]);
    let ListEnd::Failed(error) = list.end else { panic!("{:?}", list.end) };
    assert_eq!(error.kind.to_string(), "it responded with HTTP status 500");
}
