//! Tabs, popups, and sessions beside each other.

use serde_json::json;

use crate::site::{Site, html};
use crate::test_browser::Setup;

fn site() -> Site {
    Site::new(&[
        (
            "/",
            html(
                "<title>One</title><a href=/two target=_blank>Open two</a><button onclick=\"document.cookie='who=me'\">Cookie</button>",
            ),
        ),
        ("/two", html("<title>Two</title><p>second</p>")),
    ])
}

#[tokio::test]
async fn tabs_are_opened_selected_and_closed() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let clicked = browser.click("link", "Open two").await;
    assert!(clicked.contains("opened tab 2"), "{clicked}");
    browser.text("wait_for", json!({"text": "second", "tab": 2})).await;
    let list = browser.text("tabs", json!({"action": "list"})).await;
    assert_eq!(
        list,
        format!(
            "tab 1: {} \"One\" [selected]\ntab 2: {} \"Two\" [opened by tab 1]",
            site.url("/"),
            site.url("/two")
        )
    );
    browser.text("tabs", json!({"action": "select", "tab": 2})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"Two\"");
    let new = browser.text("tabs", json!({"action": "new", "url": site.url("/two")})).await;
    assert!(new.starts_with("tab 3: "), "{new}");
    assert_eq!(
        browser.text("tabs", json!({"action": "close", "tab": 2})).await,
        "closed tab 2; open tabs: 1, 3"
    );
    assert!(
        browser
            .error("read_page", json!({"tab": 2}))
            .await
            .contains("there is no tab 2; open tabs: 1, 3")
    );
    browser.shut_down().await;
}

#[tokio::test]
async fn sessions_of_one_browser_see_nothing_of_each_other() {
    let site = site();
    let setup = Setup::new(&site);
    let (one, other) = (setup.open().await, setup.open().await);
    one.go(&site.url("/")).await;
    one.click("button", "Cookie").await;
    assert_eq!(one.evaluate("document.cookie.includes('who=me')").await, "true");
    other.go(&site.url("/")).await;
    assert_eq!(other.evaluate("document.cookie.includes('who=me')").await, "false");
    assert!(!other.text("tabs", json!({"action": "list"})).await.contains("tab 2"));
    one.shut_down().await;
    // The browser goes on for the other one.
    other.click("link", "Open two").await;
    other.shut_down().await;
}

#[tokio::test]
async fn several_steps_run_in_one_call_and_stop_at_the_first_failure() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    let steps = json!([
        {"tool": "navigate", "arguments": {"url": site.url("/")}},
        {"tool": "find", "arguments": {"role": "link"}},
        {"tool": "navigate", "arguments": {"url": site.url("/two")}},
        {"tool": "screenshot"},
    ]);
    let result = browser.call("batch", json!({"steps": steps})).await;
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("1. tab 1: ")
            && text.contains("\n3. tab 1: ")
            && text.contains("\n4. viewport"),
        "{text}"
    );
    assert_eq!(result["content"][1]["type"], "image");
    let steps = json!([{"tool": "navigate", "arguments": {"url": site.url("/")}}, {"tool": "click", "arguments": {"ref": "e99"}}, {"tool": "navigate", "arguments": {"url": site.url("/two")}}]);
    let error = browser.error("batch", json!({"steps": steps})).await;
    assert!(error.starts_with("step 2 (click): e99 belongs to a page that is gone"), "{error}");
    assert!(error.contains("done before: 1. tab 1"), "{error}");
    assert!(browser.evaluate("document.title").await.contains("One"));
    let before = site.paths().len();
    let error = browser.error("batch", json!({"steps": [{"tool": "navigate", "arguments": {"url": site.url("/two")}}, {"tool": "batch", "arguments": {"steps": []}}]})).await;
    assert!(error.starts_with("step 2 (batch): there is no such tool for a batch"), "{error}");
    assert_eq!(site.paths().len(), before, "nothing was done");
    browser.shut_down().await;
}
