//! Fields of every kind.

use serde_json::json;

use crate::site::{Reply, Site, html};
use crate::test_browser::Setup;

fn site() -> Site {
    Site::new(&[
        (
            "/",
            html(
                "<title>Form</title><form action=/echo method=post>
                 <label>Name <input name=name required></label>
                 <label>Mail <input type=email name=mail placeholder=you@example.com></label>
                 <label>Password <input type=password name=password></label>
                 <label>Age <input type=number name=age></label>
                 <label>Day <input type=date name=day></label>
                 <label>Notes <textarea name=notes>old text</textarea></label>
                 <label>Country <select name=country><option value=no>Norway</option><option value=se>Sweden</option><option disabled value=x>Xanadu</option></select></label>
                 <label>Tags <select multiple name=tags><option>red</option><option>green</option><option>blue</option></select></label>
                 <label><input type=checkbox name=terms> Terms</label>
                 <label><input type=radio name=size value=s> Small</label><label><input type=radio name=size value=l> Large</label>
                 <input aria-label=Fixed value=constant readonly>
                 <div contenteditable aria-label=Rich id=rich>draft</div>
                 <button>Send</button></form>
                 <script>window.events=[];for(const e of ['input','change','keydown'])document.addEventListener(e,it=>events.push(e+':'+(it.target.name||it.target.id)),true)</script>",
            ),
        ),
        ("/echo", Reply::Echo),
    ])
}

#[tokio::test]
async fn a_whole_form_is_filled_in_one_call_and_sent() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let mut references = Vec::new();
    for (role, name) in [
        ("textbox", "Name"),
        ("textbox", "Mail"),
        ("textbox", "Password"),
        ("spinbutton", "Age"),
        ("textbox", "Day"),
        ("textbox", "Notes"),
        ("combobox", "Country"),
        ("listbox", "Tags"),
        ("checkbox", "Terms"),
        ("radio", "Large"),
        ("button", "Send"),
    ] {
        references.push(browser.find(role, name).await);
    }
    let values = [
        json!("Ada Lovelace"),
        json!("ada@example.com"),
        json!("s3cret!"),
        json!(36),
        json!("1815-12-10"),
        json!("line one\nline two"),
        json!("Sweden"),
        json!(["red", "blue"]),
        json!(true),
        json!(true),
    ];
    let fields: Vec<_> = references
        .iter()
        .zip(values)
        .map(|(it, value)| json!({"ref": it, "value": value}))
        .collect();
    let done = browser.text("fill_form", json!({"fields": fields, "submit": references[10]})).await;
    assert!(done.starts_with("filled 10 fields, clicked button \"Send\""), "{done}");
    assert!(!done.contains("s3cret"), "{done}");
    let sent = site.seen().into_iter().find(|it| it.path == "/echo").expect("it was sent");
    let body = String::from_utf8(sent.body).expect("text");
    assert_eq!(
        body,
        "name=Ada+Lovelace&mail=ada%40example.com&password=s3cret%21&age=36&day=1815-12-10&notes=line+one%0D%0Aline+two&country=se&tags=red&tags=blue&terms=on&size=l"
    );
    browser.shut_down().await;
}

#[tokio::test]
async fn fields_hear_of_what_is_typed_and_read_only_ones_refuse() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let notes = browser.find("textbox", "Notes").await;
    let added =
        browser.text("type", json!({"ref": notes, "text": " and more", "clear": false})).await;
    assert!(added.starts_with("typed \"and more\" into textbox \"Notes\""), "{added}");
    assert_eq!(
        browser.evaluate("document.querySelector('textarea').value").await,
        "\"old text and more\""
    );
    let rich = browser.find("textbox", "Rich").await;
    browser.text("type", json!({"ref": rich, "text": "final"})).await;
    assert_eq!(browser.evaluate("document.getElementById('rich').innerText").await, "\"final\"");
    let name = browser.find("textbox", "Name").await;
    browser.text("type", json!({"ref": name, "text": "ab", "slowly": true})).await;
    let events = browser.evaluate("events.join(' ')").await;
    assert!(events.contains("input:notes") && events.contains("keydown:name"), "{events}");
    assert!(
        browser
            .error("type", json!({"ref": browser.find("textbox", "Fixed").await, "text": "x"}))
            .await
            .contains("is read-only")
    );
    let country = browser.find("combobox", "Country").await;
    assert!(
        browser
            .error("type", json!({"ref": country, "text": "x"}))
            .await
            .contains("use select_option")
    );
    assert!(browser.error("click", json!({"ref": country})).await.contains("use select_option"));
    let error =
        browser.error("select_option", json!({"ref": country, "options": ["Atlantis"]})).await;
    assert!(
        error.contains("has no option \"Atlantis\"; it has \"Norway\", \"Sweden\", \"Xanadu\""),
        "{error}"
    );
    assert!(
        browser
            .error("select_option", json!({"ref": country, "options": ["Xanadu"]}))
            .await
            .contains("is disabled")
    );
    let day = browser.find("textbox", "Day").await;
    assert!(
        browser
            .error("type", json!({"ref": day, "text": "tomorrow"}))
            .await
            .contains("dates are 2026-12-31")
    );
    let read = browser.text("read_page", json!({"filter": "interactive"})).await;
    assert!(read.contains("textbox \"Password\" ") && read.contains(" [password]"), "{read}");
    assert!(read.contains("=\"ab\" [required"), "{read}");
    browser.shut_down().await;
}

#[tokio::test]
async fn keys_reach_the_page_and_a_password_never_comes_back() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let password = browser.find("textbox", "Password").await;
    let typed = browser.text("type", json!({"ref": password, "text": "hunter22"})).await;
    assert!(typed.starts_with("typed 8 characters into textbox \"Password\""), "{typed}");
    for tool in ["read_page", "page_text"] {
        assert!(!browser.text(tool, json!({})).await.contains("hunter22"));
    }
    assert!(
        browser
            .text("find", json!({"text": "hunter22"}))
            .await
            .starts_with("nothing visible matches")
    );
    let name = browser.find("textbox", "Name").await;
    browser.text("type", json!({"ref": name, "text": "abc"})).await;
    browser.text("press_key", json!({"keys": "ctrl+a Backspace"})).await;
    assert_eq!(browser.evaluate("document.querySelector('[name=name]').value").await, "\"\"");
    browser.text("press_key", json!({"keys": "x y z"})).await;
    assert_eq!(browser.evaluate("document.querySelector('[name=name]').value").await, "\"xyz\"");
    let sent = browser.text("press_key", json!({"keys": "Enter", "ref": name})).await;
    assert!(sent.contains("/echo"), "{sent}");
    assert!(
        browser
            .error("press_key", json!({"keys": "NoKey"}))
            .await
            .contains("there is no key `NoKey`")
    );
    browser.shut_down().await;
}

#[tokio::test]
async fn things_are_dragged_by_the_pointer_and_by_html() {
    let site = Site::new(&[(
        "/",
        html(
            "<title>Drag</title><div id=from draggable=true style='width:80px;height:40px;background:#9cf' role=button>Card</div>
             <div id=to style='margin-top:80px;width:200px;height:100px;background:#eee' role=button>Box</div>
             <input type=range min=0 max=100 value=0 aria-label=Level style='width:300px'>
             <script>from.ondragstart=e=>e.dataTransfer.setData('text/plain','card');to.ondragover=e=>e.preventDefault();to.ondrop=e=>document.title='dropped '+e.dataTransfer.getData('text/plain')</script>",
        ),
    )]);
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let (from, to) = (browser.find("button", "Card").await, browser.find("button", "Box").await);
    browser.text("drag", json!({"from": from, "to": to})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"dropped card\"");
    // By the pointer alone.
    let place = browser
        .evaluate("(it=>`${it.left+8},${it.top+it.height/2} ${it.left+it.width/2},${it.top+it.height/2}`)(document.querySelector('input').getBoundingClientRect())")
        .await;
    let place = place.trim_matches('"').to_owned();
    let (from, to) = place.split_once(' ').expect("two places");
    browser.text("drag", json!({"from": from, "to": to})).await;
    let value = browser.evaluate("+document.querySelector('input').value").await;
    let value: f64 = value.parse().expect("a number");
    assert!((45.0..=55.0).contains(&value), "{value}");
    let level = browser.find("slider", "Level").await;
    browser.text("type", json!({"ref": level, "text": "40"})).await;
    assert_eq!(browser.evaluate("document.querySelector('input').value").await, "\"40\"");
    browser.shut_down().await;
}
