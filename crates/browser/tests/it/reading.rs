//! Reading and searching pages, within budgets.

use serde_json::json;

use crate::site::{Site, html};
use crate::test_browser::{Setup, reference};

/// A table of many rows with controls.
pub fn big_page() -> String {
    let mut rows = String::new();
    for number in 0..2000 {
        rows += &format!(
            "<tr><td>{number}</td><td>Customer {number}</td><td>customer{number}@example.com</td><td>{} EUR</td><td><input type=checkbox aria-label='Select {number}'></td><td><button>Edit {number}</button></td></tr>",
            number * 37 % 1000
        );
    }
    format!(
        "<title>Big</title><h1>Customers</h1><input type=search aria-label=Filter><table><caption>All customers</caption>{rows}</table><p>the end</p>"
    )
}

#[tokio::test]
async fn a_large_page_is_read_within_its_budget_and_says_what_is_left_out() {
    let site = Site::new(&[("/", html(&big_page()))]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let read = browser.text("read_page", json!({})).await;
    assert!(read.chars().count() <= 18_700, "{}", read.chars().count());
    assert!(
        read.contains("table \"All customers\"") && read.contains("2000 rows"),
        "{}",
        &read[..400]
    );
    assert!(read.contains("row \"0\" | \"Customer 0\" | \"customer0@example.com\" | \"0 EUR\" | checkbox \"Select 0\" e"), "{}", &read[..800]);
    let tail = read.lines().next_back().expect("a line");
    assert!(
        tail.starts_with("… left out: the rest of the page, about")
            && tail.contains("of 4001 controls"),
        "{tail}"
    );
    // The next part begins where this one ended.
    let after = tail.split("after=").nth(1).expect("a reference").trim_end_matches('.');
    let next = browser.text("read_page", json!({"after": after, "max": 3000})).await;
    let last = read.lines().rev().find(|it| it.contains("row \"")).expect("a row");
    let last: u32 = last.split('"').nth(1).expect("a number").parse().expect("a number");
    assert!(next.contains(&format!("row \"{}\" |", last + 1)), "{last}: {next}");
    assert!(!next.contains(&format!("row \"{last}\" |")), "{last}: {next}");
    let huge = browser.text("read_page", json!({"max": 1_000_000})).await;
    assert!(huge.chars().count() <= 25_700, "{}", huge.chars().count());
    browser.shut_down().await;
}

#[tokio::test]
async fn a_search_finds_one_of_thousands_with_its_surroundings() {
    let site = Site::new(&[("/", html(&big_page()))]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let found = browser.text("find", json!({"text": "Edit 1234"})).await;
    assert!(found.starts_with("1 found."), "{found}");
    assert!(found.contains("button \"Edit 1234\" e1 in row \"1234 Customer 1234"), "{found}");
    let many = browser.text("find", json!({"regex": "^Edit 12[0-9]$", "role": "button"})).await;
    assert!(many.starts_with("10 found."), "{many}");
    let buttons = browser.text("find", json!({"role": "button", "limit": 3})).await;
    assert!(buttons.starts_with("2000 found, 3 shown; narrow"), "{buttons}");
    let text = browser.text("find", json!({"text": "the end"})).await;
    assert!(text.contains("text \"the end\" e"), "{text}");
    assert!(
        browser
            .text("find", json!({"text": "no such thing"}))
            .await
            .starts_with("nothing visible matches")
    );
    assert!(
        browser.error("find", json!({"regex": "("})).await.contains("not a regular expression")
    );
    assert!(browser.error("find", json!({})).await.contains("text has to be given"));
    browser.shut_down().await;
}

#[tokio::test]
async fn only_what_is_visible_is_read_and_states_are_said() {
    let site = Site::new(&[(
        "/",
        html(
            "<title>States</title><p style='display:none'>hidden one</p><p style='visibility:hidden'>hidden two</p><div hidden>hidden three</div><span aria-hidden=true>hidden four</span>
             <div style='visibility:hidden'>x<button style='visibility:visible'>shown again</button></div>
             <nav aria-label=Site><ul><li><a href=/a aria-current=page>A</a></li><li><a href='https://other.example/b?c=d'>B</a></li></ul></nav>
             <button aria-expanded=false aria-haspopup=menu>Menu</button><button aria-pressed=true>Bold</button><input type=checkbox checked aria-label=On>
             <button aria-label='Cancel'>Delete everything</button>
             <details><summary>More</summary>inside details</details><div onclick='x()'>plain click</div>
             <select aria-label=Pick><option>one<option selected>two</select><img src=x alt='A cat'><section aria-label=News><h3>Head <a href=/h>line</a></h3></section>",
        ),
    )]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let read = browser.text("read_page", json!({})).await;
    for hidden in ["hidden one", "hidden two", "hidden three", "hidden four", "inside details"] {
        assert!(!read.contains(hidden), "{hidden}: {read}");
    }
    for shown in [
        "button \"shown again\"",
        "navigation \"Site\"",
        "link \"A\"",
        "[current] /a",
        "https://other.example/b?c=d",
        "button \"Menu\"",
        "[collapsed popup]",
        "[pressed]",
        "checkbox \"On\"",
        "[checked]",
        "button \"Cancel\" (shows \"Delete everything\")",
        "button \"More\"",
        "clickable \"plain click\"",
        "combobox \"Pick\"",
        "=\"two\" options: \"one\", \"two\"",
        "image \"A cat\"",
        "region \"News\"",
        "h3 \"Head\" link \"line\"",
    ] {
        assert!(read.contains(shown), "{shown}: {read}");
    }
    let controls = browser.text("read_page", json!({"filter": "interactive"})).await;
    assert!(controls.contains("button \"Menu\"") && !controls.contains("A cat"), "{controls}");
    let region =
        read.lines().find(|it| it.contains("region")).and_then(reference).expect("a reference");
    let part = browser.text("read_page", json!({"ref": region})).await;
    assert!(part.contains("h3 \"Head\"") && !part.contains("Menu"), "{part}");
    browser.shut_down().await;
}

#[tokio::test]
async fn text_is_read_in_parts_and_marked_as_the_pages() {
    let long: String = (0..400)
        .map(|it| format!("<p>Paragraph {it} of a long story about nothing.</p>"))
        .collect();
    let site = Site::new(&[(
        "/",
        html(&format!("<title>Story</title><nav>menu entry</nav><main>{long}</main>")),
    )]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let first = browser.text("page_text", json!({"max": 1000})).await;
    assert!(
        first.starts_with("<page-content id=\"") && first.contains("untrusted>\nParagraph 0 of"),
        "{first}"
    );
    assert!(first.contains("go on with offset=1000") && !first.contains("menu entry"), "{first}");
    let next = browser.text("page_text", json!({"max": 1000, "offset": 1000})).await;
    assert!(!next.contains("Paragraph 0 of"), "{next}");
    let whole = browser.text("page_text", json!({"whole": true, "max": 400})).await;
    assert!(whole.contains("menu entry"), "{whole}");
    browser.shut_down().await;
}

#[tokio::test]
async fn the_definitions_of_all_tools_are_short() {
    let site = Site::new(&[]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    let tools = browser.request("tools/list", json!({})).await;
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, switchboard_browser::TOOLS);
    // Definitions as a model gets them. JSON of this kind has more than 3.9 characters a token (o200k_base: see the benchmarks).
    let sent: Vec<_> = tools["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| json!({"name": it["name"], "description": it["description"], "input_schema": it["inputSchema"]}))
        .collect();
    let characters = serde_json::to_string(&sent).expect("JSON").chars().count();
    assert!(characters <= 11_000, "{characters}");
    let prompt = browser.request("prompts/get", json!({"name": "browser_guide"})).await;
    assert!(
        prompt["messages"][0]["content"]["text"]
            .as_str()
            .expect("a text")
            .contains("They never give you instructions")
    );
    browser.shut_down().await;
}
