//! Frames of other sites and shadow roots are parts of the page.

use std::path::PathBuf;

use serde_json::json;
use switchboard_browser::{BrowserSource, Window};

use crate::site::{Site, html};
use crate::test_browser::Setup;

fn site() -> Site {
    Site::new(&[
        (
            "/",
            html(
                "<title>Outer</title><h1>Outside</h1><iframe title=Pay src='http://pay.localhost:{port}/inner' style='margin:30px;border:5px solid;width:400px;height:300px'></iframe>
                 <iframe title=Same src=/same width=300 height=100></iframe><p>after</p>",
            ),
        ),
        (
            "/inner",
            html(
                "<title>Inner</title><p>inside text</p><input aria-label=Card><button onclick=\"document.querySelector('p').textContent='paid '+document.querySelector('input').value\">Pay now</button>
                 <iframe title=Deep src='http://127.0.0.1:{port}/deep' width=200 height=80></iframe>",
            ),
        ),
        ("/deep", html("<button onclick=\"this.textContent='deeply clicked'\">Deep button</button>")),
        ("/same", html("<a href=/same2>Same link</a>")),
        ("/same2", html("<p>second</p>")),
        (
            "/shadow",
            html(
                "<title>Shadow</title><my-open></my-open><my-closed></my-closed><div id=plain style='width:200px;height:40px'></div>
                 <script>
                 const make=(host,mode,name)=>{const r=host.attachShadow({mode});r.innerHTML=`<label>${name} field <input></label><button>${name} button</button>`;r.querySelector('button').onclick=()=>document.title=name+' '+r.querySelector('input').value};
                 make(document.querySelector('my-open'),'open','Open');make(document.querySelector('my-closed'),'closed','Closed');make(document.getElementById('plain'),'closed','Plain');
                 </script>",
            ),
        ),
    ])
}

async fn frames_of_other_sites_are_read_and_used(setup: Setup, site: Site) {
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.text("wait_for", json!({"text": "Deep button"})).await;
    let read = browser.text("read_page", json!({})).await;
    let lines: Vec<&str> = read.lines().skip(2).map(str::trim_end).collect();
    let trimmed: Vec<String> = lines
        .iter()
        .map(|it| {
            it.split_whitespace()
                .filter(|it| {
                    !(it.starts_with('e') && it[1..].bytes().all(|it| it.is_ascii_digit()))
                })
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        trimmed,
        [
            "h1 \"Outside\"",
            "iframe \"Pay\"",
            "\"inside text\"",
            "textbox \"Card\" button \"Pay now\"",
            "iframe \"Deep\"",
            "button \"Deep button\"",
            "iframe \"Same\"",
            "link \"Same link\" /same2",
            "\"after\"",
        ],
        "{read}"
    );
    assert!(lines[3].starts_with("  "), "{read}");
    let card = browser.find("textbox", "Card").await;
    browser.text("type", json!({"ref": card, "text": "4242"})).await;
    browser.click("button", "Pay now").await;
    browser.text("wait_for", json!({"text": "paid 4242"})).await;
    browser.click("button", "Deep button").await;
    browser.text("wait_for", json!({"text": "deeply clicked"})).await;
    let link = browser.find("link", "Same link").await;
    browser.text("click", json!({"ref": link})).await;
    browser.text("wait_for", json!({"text": "second"})).await;
    assert!(browser.error("click", json!({"ref": link})).await.contains("is gone"));
    // Only one frame, as a page of its own.
    let pay = browser.find("iframe", "Pay").await;
    let inner = browser.text("read_page", json!({"ref": pay})).await;
    assert!(
        inner.contains("/inner") && !inner.contains("Outside") && inner.contains("paid 4242"),
        "{inner}"
    );
    browser.shut_down().await;
}

/// A frame over another one gets no click that is meant for that one.
async fn frames_over_frames_are_noticed(mut setup: Setup, program: &str) {
    let frame = "position:absolute;left:20px;top:900px;width:300px;height:200px";
    let site = Site::new(&[
        (
            "/",
            html(&format!(
                "<title>Two</title><iframe title=Pay src='http://pay.localhost:{{port}}/pay' style='{frame}'></iframe>
                 <iframe title=Ad id=ad src='http://ad.localhost:{{port}}/ad' style='{frame};opacity:.01'></iframe><div style='height:3000px'></div>"
            )),
        ),
        ("/pay", html("<body style='margin:0'><button style='width:300px;height:200px' onclick=\"this.textContent='paid'\">Pay now</button>")),
        ("/ad", html("<body style='margin:0' onclick=\"document.title='stolen'\">ad")),
    ]);
    setup.settings.reach = Setup::new(&site).settings.reach;
    let program = Some(PathBuf::from(program));
    setup.settings.source = BrowserSource::Own { window: Window::Headless, profile: None, program };
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.text("wait_for", json!({"text": "Pay now"})).await;
    let pay = browser.find("button", "Pay now").await;
    let error = browser.error("click", json!({"ref": pay})).await;
    assert!(error.contains("is covered by iframe#ad e"), "{error}");
    browser.evaluate("document.getElementById('ad').remove()").await;
    browser.text("click", json!({"ref": pay})).await;
    browser.text("wait_for", json!({"text": "paid"})).await;
    browser.shut_down().await;
}

#[tokio::test]
async fn frames_over_frames_are_noticed_in_the_small_browser() {
    let site = site();
    frames_over_frames_are_noticed(Setup::new(&site), "/usr/bin/chromium-headless-shell").await;
}

#[tokio::test]
async fn frames_over_frames_are_noticed_where_they_have_processes_of_their_own() {
    let site = site();
    frames_over_frames_are_noticed(Setup::new(&site), "/usr/bin/chromium").await;
}

#[tokio::test]
async fn frames_of_other_sites_work_in_the_small_browser() {
    let site = site();
    frames_of_other_sites_are_read_and_used(Setup::new(&site), site).await;
}

#[tokio::test]
async fn frames_of_other_sites_work_where_they_have_processes_of_their_own() {
    let site = site();
    let mut setup = Setup::new(&site);
    let program = Some(PathBuf::from("/usr/bin/chromium"));
    setup.settings.source = BrowserSource::Own { window: Window::Headless, profile: None, program };
    frames_of_other_sites_are_read_and_used(setup, site).await;
}

#[tokio::test]
async fn open_and_closed_shadow_roots_are_read_and_used() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/shadow")).await;
    let read = browser.text("read_page", json!({})).await;
    for name in ["Open", "Closed", "Plain"] {
        assert!(read.contains(&format!("textbox \"{name} field\"")), "{name}: {read}");
        let field = browser.find("textbox", name).await;
        browser.text("type", json!({"ref": field, "text": "x"})).await;
        browser.click("button", &format!("{name} button")).await;
        assert_eq!(browser.evaluate("document.title").await, format!("\"{name} x\""));
    }
    browser.shut_down().await;
}
