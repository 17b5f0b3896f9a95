//! The life of the browser: crashes, idle times, profiles, browsers that already run, and its end.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use switchboard_browser::{BrowserSource, Window};

use crate::site::{Site, html};
use crate::test_browser::Setup;

fn site() -> Site {
    Site::new(&[(
        "/",
        html(
            "<title>Page</title><button onclick=\"localStorage.n=(+localStorage.n||0)+1;document.title='count '+localStorage.n\">Count</button>",
        ),
    )])
}

/// The processes that have a text in their command line.
fn processes_with(text: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("a table of processes");
    let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let has_text = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(|it| *it != i32::try_from(std::process::id()).expect("a pid"))
        .filter(has_text)
        .collect()
}

fn kill(pids: &[i32]) {
    let pids = pids.iter().map(i32::to_string);
    Command::new("kill").arg("-KILL").args(pids).status().expect("kill");
}

/// The process of a page that uses the most memory, among those that this process has started.
fn largest_renderer() -> i32 {
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let own = i32::try_from(std::process::id()).expect("a pid");
    let is_ours = |pid: &i32| {
        std::iter::successors(Some(*pid), |it| parent(*it)).take(20).any(|it| it == own)
    };
    let memory = |pid: &i32| -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let renderers = processes_with("--type=renderer").into_iter().filter(is_ours);
    renderers.max_by_key(memory).expect("a process of a page")
}

/// Settings with a profile, whose path tells the browser's processes from others.
fn with_profile(setup: &mut Setup) -> String {
    setup.settings.source = BrowserSource::Own {
        window: Window::Headless,
        profile: Some("work".to_owned()),
        program: Some(PathBuf::from("/usr/bin/chromium-headless-shell")),
    };
    setup.folder.path().join("data/profiles/work").display().to_string()
}

#[tokio::test]
async fn a_browser_that_crashed_is_started_again_and_its_lost_pages_are_told() {
    let site = site();
    let mut setup = Setup::new(&site);
    let folder = with_profile(&mut setup);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    let pids = processes_with(&folder);
    assert!(!pids.is_empty());
    kill(&pids);
    // The connection ends with the process.
    let mut after = browser.call("navigate", json!({"url": site.url("/")})).await;
    if after["isError"] == true {
        after = browser.call("navigate", json!({"url": site.url("/")})).await;
    }
    let text = after["content"][0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with(
            "note: the browser had crashed and was started again; its pages are gone. tab 1: "
        ),
        "{text}"
    );
    browser.click("button", "Count").await;
    browser.shut_down().await;
}

#[tokio::test]
async fn a_page_that_crashed_is_named_and_others_go_on() {
    let site = site();
    let setup = Setup::new(&site);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.text("tabs", json!({"action": "new", "url": site.url_at("b.localhost", "/")})).await;
    // The process of the page is the one that uses much memory.
    browser.evaluate("window.a=new Uint8Array(400e6).fill(1); 1").await;
    kill(&[largest_renderer()]);
    for _ in 0..100 {
        let list = browser.text("tabs", json!({"action": "list"})).await;
        if list.contains("[crashed]") {
            break;
        }
        browser.text("wait_for", json!({"seconds": 0.1, "tab": 1})).await;
    }
    let list = browser.text("tabs", json!({"action": "list"})).await;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[1].starts_with("tab 2: ") && lines[1].contains("[crashed]"), "{list}");
    assert!(!lines[0].contains("[crashed]"), "{list}");
    let error = browser.error("read_page", json!({"tab": 2})).await;
    assert_eq!(error, "tab 2 has crashed; reload it with `navigate`, or close it with `tabs`");
    browser.text("tabs", json!({"action": "select", "tab": 1})).await;
    browser.click("button", "Count").await;
    let again = browser.text("navigate", json!({"url": site.url("/"), "tab": 2})).await;
    assert!(again.contains("\"Page\""), "{again}");
    browser.shut_down().await;
}

#[tokio::test]
async fn an_idle_browser_is_stopped_and_started_at_the_next_call() {
    let site = site();
    let mut setup = Setup::new(&site);
    let folder = with_profile(&mut setup);
    setup.settings.idle_limit = Some(Duration::from_millis(300));
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    for pid in processes_with(&folder) {
        // It ends when the process does.
        let mut waiting = tokio::process::Command::new("tail");
        waiting.arg(format!("--pid={pid}")).args(["-f", "/dev/null"]);
        waiting.status().await.expect("tail");
    }
    // Also a call that fails tells it, and only the first.
    let after = browser.error("click", json!({"ref": "e1"})).await;
    assert!(
        after.starts_with("note: the browser was stopped because nothing happened for a while; its pages are gone. e1 belongs to a page that is gone"),
        "{after}"
    );
    assert!(after.chars().count() < 400, "{after}");
    let after = browser.go(&site.url("/")).await;
    assert!(after.starts_with("tab "), "{after}");
    browser.shut_down().await;
}

#[tokio::test]
async fn a_profile_keeps_what_pages_store_and_is_held_by_one_browser() {
    let site = site();
    let mut setup = Setup::new(&site);
    let folder = with_profile(&mut setup);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.click("button", "Count").await;
    // Another process has its own browser.
    let mut other = Setup::new(&site);
    with_profile(&mut other);
    other.settings.data_folder = setup.settings.data_folder.clone();
    let second = other.open().await;
    let error = second.error("navigate", json!({"url": site.url("/")})).await;
    assert!(error.starts_with("the profile `work` is in use by process "), "{error}");
    second.shut_down().await;
    browser.shut_down().await;
    assert_eq!(processes_with(&folder), Vec::<i32>::new());
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.click("button", "Count").await;
    assert_eq!(browser.evaluate("localStorage.n").await, "\"2\"");
    browser.shut_down().await;
}

/// A browser of the user with a page, and its WebSocket. It ends when the folder is dropped and it is killed.
fn running_browser(folder: &Path, arguments: &[&str], url: &str) -> (Child, String) {
    let mut program = Command::new("chromium-headless-shell");
    program.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
    program.args(arguments).arg(format!("--user-data-dir={}", folder.display())).arg(url);
    let mut running =
        program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a browser");
    let stderr = BufReader::new(running.stderr.take().expect("it is piped"));
    let line = stderr.lines().map_while(Result::ok).find(|it| it.contains("DevTools listening on"));
    let socket = line.expect("an address").split(' ').next_back().expect("an address").to_owned();
    (running, socket)
}

#[tokio::test]
async fn pictures_of_a_screen_with_small_pixels_fit_models_and_their_pixels_can_be_clicked() {
    let site = Site::new(&[(
        "/",
        html(
            "<title>Fine</title><body style='margin:0;height:600px' onclick='document.title=`${event.clientX},${event.clientY}`'><h1>Text</h1>",
        ),
    )]);
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--force-device-scale-factor=2", "--window-size=1000,700"];
    let (mut running, socket) = running_browser(folder.path(), &arguments, "about:blank");
    let mut setup = Setup::new(&site);
    setup.settings.source = BrowserSource::Endpoint(socket);
    let browser = setup.open().await;
    browser.text("tabs", json!({"action": "new", "url": site.url("/")})).await;
    assert_eq!(browser.evaluate("devicePixelRatio").await, "2");
    for format in ["jpeg", "png"] {
        let taken = browser.call("screenshot", json!({"format": format})).await;
        let text = taken["content"][0]["text"].as_str().expect("a text").to_owned();
        let data = taken["content"][1]["data"].as_str().expect("a picture");
        let picture = crate::test_browser::decode_picture(data);
        let size = format!(": {}x{}", picture.width(), picture.height());
        assert!(text.ends_with(&size), "{text} {size}");
        assert!(picture.width() <= 1568, "{size}");
    }
    browser.text("click", json!({"x": 300, "y": 200})).await;
    assert_eq!(browser.evaluate("document.title").await, "\"300,200\"");
    browser.shut_down().await;
    running.kill().expect("it runs");
    running.wait().expect("it ends");
}

#[tokio::test]
async fn a_browser_that_already_runs_is_used_and_left_running() {
    let site = site();
    let folder = tempfile::tempdir().expect("a folder");
    let (mut running, socket) = running_browser(folder.path(), &[], &site.url("/"));
    let port = socket.trim_start_matches("ws://").split('/').next().expect("an address").to_owned();
    let mut setup = Setup::new(&site);
    for endpoint in [socket, format!("http://{port}")] {
        setup.settings.source = BrowserSource::Endpoint(endpoint);
        let browser = setup.open().await;
        let list = browser.text("tabs", json!({"action": "list"})).await;
        assert!(list.contains("open in the user's browser, not used yet: 1"), "{list}");
        browser.text("tabs", json!({"action": "select", "tab": 1})).await;
        // The user's browser may still be loading it.
        browser.text("wait_for", json!({"text": "Count"})).await;
        let clicked = browser.click("button", "Count").await;
        assert!(clicked.starts_with("clicked button"), "{clicked}");
        let refused = browser.error("navigate", json!({"url": "http://127.0.0.1:9/"})).await;
        assert!(refused.contains("the user has not allowed it"), "{refused}");
        // Without our proxy, requests are checked one by one.
        let fetched = browser.evaluate("await fetch('http://127.0.0.1:9/', {mode:'no-cors'}).then(()=>'reached',()=>'stopped')").await;
        assert_eq!(fetched, "\"stopped\"");
        browser.text("tabs", json!({"action": "new", "url": site.url("/")})).await;
        browser.shut_down().await;
        assert!(running.try_wait().expect("a state").is_none(), "it still runs");
    }
    setup.settings.source = BrowserSource::Endpoint("http://127.0.0.1:1".to_owned());
    let browser = setup.open().await;
    let error = browser.error("tabs", json!({"action": "list"})).await;
    assert!(error.starts_with("no browser answers at http://127.0.0.1:1: "), "{error}");
    browser.shut_down().await;
    running.kill().expect("it runs");
    running.wait().expect("it ends");
}

#[tokio::test]
async fn without_a_browser_the_package_is_named() {
    let site = site();
    let mut setup = Setup::new(&site);
    setup.settings.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())];
    let browser = setup.open().await;
    let error = browser.error("navigate", json!({"url": site.url("/")})).await;
    assert!(error.contains("install the package chromium-headless-shell or chromium"), "{error}");
    setup.settings.source = BrowserSource::Own {
        window: Window::Windowed,
        profile: None,
        program: Some("/usr/bin/chromium".into()),
    };
    let windowed = setup.open().await;
    let error = windowed.error("navigate", json!({"url": site.url("/")})).await;
    assert!(error.contains("neither DISPLAY nor WAYLAND_DISPLAY is set"), "{error}");
    browser.shut_down().await;
    windowed.shut_down().await;
}

#[tokio::test]
async fn nothing_is_left_after_the_last_session() {
    let site = site();
    let mut setup = Setup::new(&site);
    let folder = with_profile(&mut setup);
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    assert!(!processes_with(&folder).is_empty());
    browser.shut_down().await;
    assert_eq!(processes_with(&folder), Vec::<i32>::new());
}

#[tokio::test]
async fn a_browser_with_a_window_works_on_a_screen() {
    let site = site();
    let mut screen = Command::new("setpriv");
    screen.args(["--pdeathsig", "KILL", "Xvfb", "-displayfd", "1", "-screen", "0"]);
    screen.args(["1400x1000x24", "-nolisten", "tcp", "-noreset"]);
    let mut screen = screen.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Xvfb");
    let mut number = String::new();
    let stdout = screen.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut number).expect("a number");
    let mut setup = Setup::new(&site);
    setup.settings.environment.push(("DISPLAY".to_owned(), format!(":{}", number.trim())));
    setup.settings.source = BrowserSource::Own {
        window: Window::Windowed,
        profile: None,
        program: Some("/usr/bin/chromium".into()),
    };
    let browser = setup.open().await;
    browser.go(&site.url("/")).await;
    browser.click("button", "Count").await;
    assert_eq!(browser.evaluate("document.title").await, "\"count 1\"");
    let taken = browser.call("screenshot", json!({})).await;
    let data = taken["content"][1]["data"].as_str().expect("a picture");
    let picture = crate::test_browser::decode_picture(data);
    let size = format!(": {}x{}", picture.width(), picture.height());
    let text = taken["content"][0]["text"].as_str().expect("a text");
    assert!(text.ends_with(&size), "{text} {size}");
    browser.shut_down().await;
    screen.kill().expect("it runs");
    screen.wait().expect("it ends");
}
