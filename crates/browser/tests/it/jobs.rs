//! Twelve jobs of the kind that people give a browser, each done by a sequence of calls through the tools only.

use serde_json::json;

use crate::reading::big_page;
use crate::site::{Reply, Site, html};
use crate::test_browser::{Setup, TestBrowser};

async fn begin(routes: &[(&str, Reply)]) -> (Site, Setup, TestBrowser) {
    let site = Site::new(routes);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    (site, setup, browser)
}

#[tokio::test]
async fn signing_up_with_a_form_that_checks_its_fields() {
    let (site, _setup, browser) = begin(&[
        (
            "/",
            html(
                "<title>Sign up</title><form id=f action=/welcome><label>Mail <input id=m type=email required name=mail></label><label>Password <input id=p type=password name=pw minlength=8 required></label>
                 <label>Plan <select name=plan><option>Free<option>Pro</select></label><label><input type=checkbox required> I agree</label><p id=e role=alert></p><button>Create account</button></form>
                 <script>f.noValidate=true;f.onsubmit=ev=>{if(!f.checkValidity()){ev.preventDefault();e.textContent='Please correct the fields'}}</script>",
            ),
        ),
        ("/welcome", html("<title>Welcome</title><h1>Account created</h1>")),
    ])
    .await;
    browser.click("button", "Create account").await;
    let alert = browser.text("find", json!({"text": "Please correct"})).await;
    assert!(alert.contains("alert"), "{alert}");
    let fields = json!([
        {"ref": browser.find("textbox", "Mail").await, "value": "ada@example.com"},
        {"ref": browser.find("textbox", "Password").await, "value": "long enough"},
        {"ref": browser.find("combobox", "Plan").await, "value": "Pro"},
        {"ref": browser.find("checkbox", "agree").await, "value": true},
    ]);
    let submit = browser.find("button", "Create account").await;
    let done = browser.text("fill_form", json!({"fields": fields, "submit": submit})).await;
    assert!(done.contains("\"Welcome\""), "{done}");
    let path = site.paths().into_iter().find(|it| it.starts_with("/welcome")).expect("it was sent");
    assert!(path.contains("plan=Pro") && path.contains("mail=ada%40example.com"), "{path}");
    browser.shut_down().await;
}

#[tokio::test]
async fn editing_one_row_of_a_table_of_two_thousand() {
    let page = big_page()
        + "<script>document.onclick=e=>{if(e.target.textContent.startsWith('Edit '))document.title='editing '+e.target.textContent.slice(5)}</script>";
    let (_site, _setup, browser) = begin(&[("/", html(&page))]).await;
    let found = browser.text("find", json!({"text": "customer1777@example.com"})).await;
    assert!(found.contains("in row \"1777 Customer 1777"), "{found}");
    browser.click("button", "Edit 1777").await;
    assert_eq!(browser.evaluate("document.title").await, "\"editing 1777\"");
    browser.shut_down().await;
}

#[tokio::test]
async fn collecting_something_from_every_page_of_a_list() {
    let page = |number: u32, next: &str| {
        html(&format!(
            "<title>Page {number}</title><ul><li>item {number}a<li>item {number}b</ul>{next}"
        ))
    };
    let (_site, _setup, browser) = begin(&[
        ("/", page(1, "<a href=/p2 rel=next>Next</a>")),
        ("/p2", page(2, "<a href=/p3 rel=next>Next</a>")),
        ("/p3", page(3, "<span>Next</span>")),
    ])
    .await;
    let mut items = Vec::new();
    loop {
        let text = browser.text("page_text", json!({})).await;
        items.extend(text.lines().filter(|it| it.starts_with("item ")).map(str::to_owned));
        let next = browser.text("find", json!({"role": "link", "text": "Next"})).await;
        match next.lines().nth(1).and_then(crate::test_browser::reference) {
            Some(reference) => drop(browser.text("click", json!({"ref": reference})).await),
            None => break,
        }
    }
    assert_eq!(items, ["item 1a", "item 1b", "item 2a", "item 2b", "item 3a", "item 3b"]);
    browser.shut_down().await;
}

#[tokio::test]
async fn uploading_a_file_by_its_field_and_by_a_button() {
    let (site, setup, browser) = begin(&[
        (
            "/",
            html(
                "<title>Upload</title><form action=/up method=post enctype=multipart/form-data><label>Report <input type=file name=report></label>
                 <input type=file id=many multiple hidden name=more><button type=button onclick=\"many.click()\">Add pictures</button><button>Send</button></form>
                 <script>many.onchange=()=>document.title=[...many.files].map(it=>it.name).join('+')</script>",
            ),
        ),
        ("/up", Reply::Echo),
    ])
    .await;
    for (name, text) in
        [("report.txt", "the contents of the report"), ("a.png", "A"), ("b.png", "B")]
    {
        std::fs::write(setup.work().join(name), text).expect("a file");
    }
    std::fs::write(setup.folder.path().join("private"), "secret").expect("a file");
    let field = browser.find("file", "Report").await;
    let error = browser.error("upload", json!({"ref": field, "paths": ["../private"]})).await;
    assert!(error.contains("outside the allowed folders"), "{error}");
    assert_eq!(
        browser.text("upload", json!({"ref": field, "paths": ["report.txt"]})).await,
        "uploaded \"report.txt\""
    );
    let clicked = browser.click("button", "Add pictures").await;
    assert!(clicked.contains("a file chooser is open; use upload"), "{clicked}");
    browser.text("upload", json!({"paths": ["a.png", "b.png"]})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"a.png+b.png\"");
    assert!(
        browser
            .error("upload", json!({"paths": ["a.png"]}))
            .await
            .contains("no file chooser is open")
    );
    browser.click("button", "Send").await;
    let sent = site.seen().into_iter().find(|it| it.path == "/up").expect("it was sent");
    assert!(String::from_utf8_lossy(&sent.body).contains("the contents of the report"));
    browser.shut_down().await;
}

#[tokio::test]
async fn downloading_a_file_and_saving_it() {
    let (_site, setup, browser) = begin(&[
        ("/", html("<title>Files</title><a href=/get>Get report</a><a href=/evil>Get evil</a>")),
        ("/get", Reply::File("report 2026.csv", b"a,b\n1,2\n".to_vec())),
        ("/evil", Reply::File("../../.bashrc", b"evil".to_vec())),
    ])
    .await;
    let clicked = browser.click("link", "Get report").await;
    let waited = browser.text("downloads", json!({"action": "wait"})).await;
    assert!(
        waited.starts_with("1: \"report 2026.csv\" complete, 8 bytes, from http://"),
        "{clicked} {waited}"
    );
    let saved =
        browser.text("downloads", json!({"action": "save", "id": 1, "path": "report.csv"})).await;
    assert!(saved.starts_with("saved 8 bytes as "), "{saved}");
    assert_eq!(std::fs::read(setup.work().join("report.csv")).expect("a file"), b"a,b\n1,2\n");
    let again =
        browser.error("downloads", json!({"action": "save", "id": 1, "path": "report.csv"})).await;
    assert!(again.contains("it exists already"), "{again}");
    let outside = browser
        .error("downloads", json!({"action": "save", "id": 1, "path": "../report.csv"}))
        .await;
    assert!(outside.contains("outside the allowed folders"), "{outside}");
    browser.click("link", "Get evil").await;
    browser.text("downloads", json!({"action": "wait", "id": 2})).await;
    let saved = browser.text("downloads", json!({"action": "save", "id": 2})).await;
    let path = std::path::PathBuf::from(saved.trim_start_matches("saved 4 bytes as "));
    assert_eq!(
        path.parent(),
        Some(setup.work().canonicalize().expect("a path").as_path()),
        "{saved}"
    );
    let name = path.file_name().and_then(|it| it.to_str()).expect("a name");
    assert!(!name.starts_with('.') && name.ends_with("bashrc"), "{name}");
    assert_eq!(std::fs::read(&path).expect("a file"), b"evil");
    browser.shut_down().await;
}

#[tokio::test]
async fn deleting_something_behind_a_confirmation() {
    let (_site, _setup, browser) = begin(&[(
        "/",
        html("<title>List</title><ul><li>keep me</li><li id=x>old entry <button onclick=\"if(confirm('Delete old entry?'))x.remove();alert('done')\">Delete</button></li></ul>"),
    )])
    .await;
    let clicked = browser.click("button", "Delete").await;
    assert!(clicked.contains("a confirm dialog is open: \"Delete old entry?\""), "{clicked}");
    let answered = browser.text("handle_dialog", json!({"accept": true})).await;
    assert!(answered.contains("alert, accepted: \"done\""), "{answered}");
    let text = browser.text("page_text", json!({})).await;
    assert!(text.contains("keep me") && !text.contains("old entry"), "{text}");
    browser.shut_down().await;
}

#[tokio::test]
async fn signing_in_through_a_popup_that_closes_itself() {
    let (_site, _setup, browser) = begin(&[
        ("/", html("<title>Shop</title><button onclick=\"window.open('http://login.localhost:{port}/login','_blank','width=400,height=300')\">Sign in</button><p id=s>signed out</p><script>onmessage=e=>s.textContent='signed in as '+e.data</script>")),
        ("/login", html("<title>Login</title><label>User <input id=u></label><button onclick=\"opener.postMessage(u.value,'*');window.close()\">Log in</button>")),
    ])
    .await;
    let clicked = browser.click("button", "Sign in").await;
    assert!(clicked.contains("opened tab 2"), "{clicked}");
    browser.text("wait_for", json!({"text": "Log in", "tab": 2})).await;
    browser.text("tabs", json!({"action": "select", "tab": 2})).await;
    browser
        .text("type", json!({"ref": browser.find("textbox", "User").await, "text": "ada"}))
        .await;
    let closed = browser.click("button", "Log in").await;
    assert!(closed.contains("tab 2 is closed"), "{closed}");
    browser.text("wait_for", json!({"text": "signed in as ada"})).await;
    browser.shut_down().await;
}

#[tokio::test]
async fn paying_in_a_frame_of_another_site() {
    let (_site, _setup, browser) = begin(&[
        ("/", html("<title>Checkout</title><p id=s>open</p><iframe title=Payment src='http://bank.localhost:{port}/pay' width=400 height=200></iframe><script>onmessage=e=>s.textContent=e.data</script>")),
        ("/pay", html("<label>Card <input id=c></label><button onclick=\"parent.postMessage('paid with '+c.value,'*')\">Pay</button>")),
    ])
    .await;
    browser.text("wait_for", json!({"text": "Pay"})).await;
    let fields = json!([{"ref": browser.find("textbox", "Card").await, "value": "4242 4242"}]);
    let pay = browser.find("button", "Pay").await;
    browser.text("fill_form", json!({"fields": fields, "submit": pay})).await;
    browser.text("wait_for", json!({"text": "paid with 4242 4242"})).await;
    browser.shut_down().await;
}

#[tokio::test]
async fn changing_a_setting_inside_web_components() {
    let (_site, _setup, browser) = begin(&[(
        "/",
        html(
            "<title>App</title><x-app></x-app><script>
             customElements.define('x-switch',class extends HTMLElement{connectedCallback(){const r=this.attachShadow({mode:'closed'});r.innerHTML='<button role=switch aria-checked=false aria-label=\"Dark mode\">o</button>';r.firstChild.onclick=e=>{const on=e.target.getAttribute('aria-checked')!=='true';e.target.setAttribute('aria-checked',on);document.title='dark '+on}}});
             customElements.define('x-app',class extends HTMLElement{connectedCallback(){this.attachShadow({mode:'open'}).innerHTML='<h2>Settings</h2><x-switch></x-switch>'}});</script>",
        ),
    )])
    .await;
    let read = browser.text("read_page", json!({})).await;
    assert!(read.contains("h2 \"Settings\"") && read.contains("switch \"Dark mode\""), "{read}");
    browser.click("switch", "Dark mode").await;
    assert_eq!(browser.evaluate("document.title").await, "\"dark true\"");
    assert!(browser.text("read_page", json!({})).await.contains("[checked"));
    browser.shut_down().await;
}

#[tokio::test]
async fn finding_an_entry_at_the_end_of_an_endless_list() {
    let (_site, _setup, browser) = begin(&[
        (
            "/",
            html(
                "<title>Feed</title><ul id=l></ul><script>let n=0,busy=false;async function more(){if(busy||n>=90)return;busy=true;await fetch('/more?'+n);for(let i=0;i<30;i++,n++){const li=document.createElement('li');li.style.height='60px';li.innerHTML='post '+n+' <button onclick=\"document.title=\\'liked \\'+this.dataset.n\" data-n='+n+'>Like '+n+'</button>';l.append(li)}busy=false}
                 more();onscroll=()=>{if(scrollY+innerHeight>document.documentElement.scrollHeight-100)more()}</script>",
            ),
        ),
        ("/more", Reply::Json("[]".to_owned())),
    ])
    .await;
    let mut scrolls = 0;
    while browser.text("find", json!({"text": "Like 88"})).await.starts_with("nothing") {
        browser.text("scroll", json!({"to": "bottom"})).await;
        scrolls += 1;
        assert!(scrolls < 30, "the list does not grow");
    }
    browser.click("button", "Like 88").await;
    assert_eq!(browser.evaluate("document.title").await, "\"liked 88\"");
    browser.shut_down().await;
}

#[tokio::test]
async fn clicking_a_shape_in_a_canvas_that_a_picture_shows() {
    let (_site, _setup, browser) = begin(&[(
        "/",
        html(
            "<title>Chart</title><body style='margin:0'><canvas id=c width=600 height=400></canvas><script>const x=c.getContext('2d');x.fillStyle='#fff';x.fillRect(0,0,600,400);x.fillStyle='#0a0';x.fillRect(420,260,60,60);
             c.onclick=e=>{const d=x.getImageData(e.offsetX,e.offsetY,1,1).data;document.title=d[1]>100&&d[0]<50?'hit':'miss'}</script>",
        ),
    )])
    .await;
    let result = browser.call("screenshot", json!({"format": "png"})).await;
    let data = result["content"][1]["data"].as_str().expect("a picture");
    let picture = crate::test_browser::decode_picture(data);
    let green =
        picture.enumerate_pixels().find(|(_, _, it)| it[1] > 120 && it[0] < 60 && it[2] < 60);
    let (x, y, _) = green.expect("the square is in the picture");
    browser.text("click", json!({"x": x + 20, "y": y + 20})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"hit\"");
    browser.shut_down().await;
}

#[tokio::test]
async fn getting_past_a_page_that_hangs() {
    let (site, _setup, browser) = begin(&[
        ("/", html("<title>Menu</title><a href=/busy>Busy page</a><a href=/slow>Slow page</a><a href=/good>Good page</a>")),
        ("/busy", html("<title>Busy</title><button onclick='setTimeout(()=>{for(;;);})'>Compute</button>")),
        ("/slow", Reply::Never),
        ("/good", html("<title>Good</title><p>the answer is 42</p>")),
    ])
    .await;
    let late = browser.text("navigate", json!({"url": site.url("/slow"), "timeout": 1})).await;
    assert!(late.starts_with("not loaded within 1 s"), "{late}");
    browser.go(&site.url("/busy")).await;
    browser.click("button", "Compute").await;
    let error = browser.error("read_page", json!({})).await;
    assert!(error.contains("the page is busy: its scripts did not let ours run"), "{error}");
    // Another tab works, and so does this one with another page.
    let other = browser.text("tabs", json!({"action": "new", "url": site.url("/good")})).await;
    assert!(other.contains("\"Good\""), "{other}");
    let text = browser.text("page_text", json!({})).await;
    assert!(text.contains("the answer is 42"), "{text}");
    let closed = browser.text("tabs", json!({"action": "close", "tab": 1})).await;
    assert_eq!(closed, "closed tab 1; open tabs: 2");
    browser.shut_down().await;
}
