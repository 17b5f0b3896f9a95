//! Dialogs of pages never hold anything up.

use serde_json::json;

use crate::site::{Site, html};
use crate::test_browser::Setup;

fn site() -> Site {
    Site::new(&[
        (
            "/",
            html(
                "<title>Dialogs</title>
                 <button onclick=\"alert('saved \\u202e!');document.title='after alert'\">Alert</button>
                 <button onclick=\"document.title='confirm '+confirm('Really delete?')\">Confirm</button>
                 <button onclick=\"document.title='prompt '+prompt('Your name?','nobody')\">Prompt</button>
                 <button onclick=\"for(let i=0;i<30;i++)alert('n'+i);document.title='flooded'\">Flood</button>
                 <button onclick=\"window.onbeforeunload=()=>'no'\">Hold</button><input aria-label=Field>",
            ),
        ),
        ("/next", html("<title>Next</title>")),
    ])
}

#[tokio::test]
async fn an_alert_is_accepted_at_once_and_told() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let clicked = browser.click("button", "Alert").await;
    assert!(clicked.contains("alert, accepted: \"saved \u{fffd}!\""), "{clicked}");
    assert_eq!(browser.evaluate("document.title").await, "\"after alert\"");
    let flooded = browser.click("button", "Flood").await;
    assert!(
        flooded.contains("\"n0\"") && flooded.contains("more dialogs of this page were accepted"),
        "{flooded}"
    );
    browser.shut_down().await;
}

#[tokio::test]
async fn a_question_is_named_and_waits_for_an_answer() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let clicked = browser.click("button", "Confirm").await;
    assert!(
        clicked.contains("a confirm dialog is open: \"Really delete?\"; use handle_dialog"),
        "{clicked}"
    );
    // Other tools say what is in the way instead of waiting for it.
    let error = browser.error("read_page", json!({})).await;
    assert!(error.contains("tab 1 shows a confirm dialog (\"Really delete?\")"), "{error}");
    assert!(
        browser.text("tabs", json!({"action": "list"})).await.contains("[confirm dialog open]")
    );
    browser.text("handle_dialog", json!({"accept": true})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"confirm true\"");
    browser.click("button", "Prompt").await;
    browser.text("handle_dialog", json!({"accept": true, "text": "Ada"})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"prompt Ada\"");
    browser.click("button", "Prompt").await;
    browser.text("handle_dialog", json!({"accept": true})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"prompt nobody\"");
    assert!(
        browser.error("handle_dialog", json!({"accept": true})).await.contains("shows no dialog")
    );
    browser.shut_down().await;
}

#[tokio::test]
async fn a_question_without_an_answer_is_dismissed_and_told() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.click("button", "Confirm").await;
    let waited = browser.text("wait_for", json!({"seconds": 11})).await;
    assert!(
        waited.contains(
            "confirm dismissed, because it was not answered for 10 s: \"Really delete?\""
        ),
        "{waited}"
    );
    assert_eq!(browser.evaluate("document.title").await, "\"confirm false\"");
    browser.shut_down().await;
}

#[tokio::test]
async fn a_page_that_asks_whether_to_leave_it_is_left() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.click("button", "Hold").await;
    let left = browser.go(&site.url("/next")).await;
    assert!(left.contains("\"Next\""), "{left}");
    browser.shut_down().await;
}
