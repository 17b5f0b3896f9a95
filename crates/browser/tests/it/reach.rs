//! What pages may reach: every way out is checked.

use serde_json::json;
use switchboard_wire::protocol::era::Era;

use crate::site::{Site, html};
use crate::test_browser::{Setup, TestBrowser};

/// A site that is allowed, and one on another port that is not.
fn sites() -> (Site, Site) {
    let private = Site::new(&[
        ("/", html("<title>Private</title>internal data")),
        ("/x.js", html("")),
        ("/ws", html("")),
    ]);
    let port = private.address.port();
    let site = Site::new(&[
        ("/", html("<title>Allowed</title><a href=/redirect>Redirected</a>")),
        ("/redirect", crate::site::Reply::Redirect(format!("http://127.0.0.1:{port}/"))),
        ("/metadata", crate::site::Reply::Redirect("http://169.254.169.254/latest/meta-data/".to_owned())),
        (
            "/parts",
            html(&format!(
                "<title>Parts</title><img src='http://127.0.0.1:{port}/x.png'><script src='http://localhost:{port}/x.js'></script><iframe src='http://127.0.0.1:{port}/'></iframe>
                 <link rel=stylesheet href='http://[::1]:{port}/x.css'><p id=p></p>
                 <script>const done=[];const t=(n,p)=>p.then(()=>done.push(n+' reached'),()=>done.push(n+' stopped'));
                 Promise.all([t('fetch',fetch('http://127.0.0.1:{port}/',{{mode:'no-cors'}})),t('meta',fetch('http://169.254.169.254/',{{mode:'no-cors'}})),
                 t('beacon',new Promise((a,b)=>{{const w=new WebSocket('ws://127.0.0.1:{port}/ws');w.onopen=a;w.onerror=b}})),
                 t('worker',new Promise((a,b)=>{{const w=new Worker(URL.createObjectURL(new Blob([\"fetch('http://127.0.0.1:{port}/worker',{{mode:'no-cors'}}).then(()=>postMessage(1),()=>postMessage(0))\"])));w.onmessage=e=>e.data?a():b()}}))]).then(()=>p.textContent='all: '+done.sort().join(', '));
                 navigator.sendBeacon('http://127.0.0.1:{port}/beacon','x')</script>"
            )),
        ),
        ("/popup", html(&format!("<title>Popup</title><button onclick=\"window.open('http://127.0.0.1:{port}/')\">Open</button>"))),
        ("/other", html("<title>Other</title><a id=a>Leave</a>")),
    ]);
    (site, private)
}

#[tokio::test]
async fn redirects_and_parts_of_pages_do_not_reach_private_addresses() {
    let (site, private) = sites();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    let direct = browser.error("navigate", json!({"url": private.url("/")})).await;
    assert!(direct.contains("is on this machine, and the user has not allowed it"), "{direct}");
    let redirected = browser.error("navigate", json!({"url": site.url("/redirect")})).await;
    assert!(
        redirected.contains("is on this machine, and the user has not allowed it"),
        "{redirected}"
    );
    let metadata = browser.error("navigate", json!({"url": site.url("/metadata")})).await;
    assert!(
        metadata.contains("169.254.169.254 is a metadata service, which is never reached"),
        "{metadata}"
    );
    browser.go(&site.url("/parts")).await;
    browser
        .text(
            "wait_for",
            json!({"text": "all: beacon stopped, fetch stopped, meta stopped, worker stopped"}),
        )
        .await;
    browser.go(&site.url("/popup")).await;
    let opened = browser.click("button", "Open").await;
    assert!(opened.contains("opened tab"), "{opened}");
    browser.text("wait_for", json!({"network_idle": true, "tab": 2})).await;
    assert!(!browser.text("page_text", json!({"tab": 2})).await.contains("internal data"));
    browser.shut_down().await;
    assert_eq!(private.paths(), Vec::<String>::new());
}

#[tokio::test]
async fn only_web_pages_are_opened() {
    let (site, _private) = sites();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    for url in [
        "file:///etc/passwd",
        "chrome://version",
        "data:text/html,x",
        "javascript:alert(1)",
        "view-source:http://a.org/",
    ] {
        let error = browser.error("navigate", json!({"url": url})).await;
        assert!(error.contains("only http and https pages can be opened"), "{url}: {error}");
        let error = browser.error("tabs", json!({"action": "new", "url": url})).await;
        assert!(error.contains("only http and https pages can be opened"), "{url}: {error}");
    }
    assert!(browser.go("about:blank").await.contains("about:blank"));
    browser.shut_down().await;
}

async fn other_origins_need_an_answer(era: Era) {
    let (site, _private) = sites();
    let setup = Setup::with_origins(&[
        &format!("127.0.0.1:{}", site.address.port()),
        &format!("b.localhost:{}", site.address.port()),
        "example.org",
    ]);
    let mut settings = setup.settings.clone();
    settings.reach.blocked =
        vec![switchboard_browser::OriginPattern::parse("b.localhost").expect("a pattern")];
    let browser = TestBrowser::open(settings, era).await;
    browser.go(&site.url("/")).await;
    assert!(browser.asked().is_empty());
    let error = browser.error("navigate", json!({"url": "https://elsewhere.example/x"})).await;
    assert!(error.contains("the user did not allow it"), "{error}");
    let asked = browser.asked();
    let message = asked.last().expect("a question")["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("https://elsewhere.example/x"), "{message}");
    // A page cannot go there by itself either.
    browser.evaluate("location.href='http://elsewhere.example/y'; 1").await;
    let list = browser.text("wait_for", json!({"seconds": 0.5})).await;
    let place = browser.text("tabs", json!({"action": "list"})).await;
    assert!(place.contains(&site.url("/")), "{list} {place}");
    // Nor can a frame of it.
    let frame = "document.body.append(Object.assign(document.createElement('iframe'),{src:'http://framed.example/y'})); 1";
    let told = browser.text("evaluate", json!({"script": frame})).await
        + &browser.text("wait_for", json!({"seconds": 0.5})).await;
    assert!(told.contains("stopped: a frame with http://framed.example/y, outside"), "{told}");
    // An allowed one is not asked about again; it fails later, because it does not exist.
    browser.user_answers(json!({"action": "accept", "content": {"allow": true}}));
    let count = browser.asked().len();
    let error = browser.error("navigate", json!({"url": "http://elsewhere.invalid/"})).await;
    assert!(error.contains("could not be loaded"), "{error}");
    browser.error("navigate", json!({"url": "http://elsewhere.invalid/z"})).await;
    assert_eq!(browser.asked().len(), count + 1);
    let blocked = browser.error("navigate", json!({"url": site.url_at("b.localhost", "/")})).await;
    assert!(blocked.contains("b.localhost is blocked by the user's settings"), "{blocked}");
    let batch = browser.error("batch", json!({"steps": [{"tool": "navigate", "arguments": {"url": "https://third.example/"}}]})).await;
    assert!(batch.contains("call navigate by itself"), "{batch}");
    browser.shut_down().await;
}

#[tokio::test]
async fn other_origins_than_the_allowed_ones_need_an_answer() {
    other_origins_need_an_answer(Era::Legacy).await;
}

#[tokio::test]
async fn other_origins_need_an_answer_in_the_modern_era_too() {
    other_origins_need_an_answer(Era::Modern).await;
}
