//! Attacks on the HTTP surface of the dashboard: no session, foreign origins, forged forms, replayed links, large forms,
//! odd paths.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use testkit::store_server::StoreServer;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::http_gateway::HttpGateway;
use crate::support::{USER, json as json_of, scene, wait_for};

const TIMEOUT: Duration = Duration::from_secs(20);
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A gateway with a dashboard, in front of one server.
pub struct DashboardScene {
    pub sandbox: Sandbox,
    pub gateway: HttpGateway,
}

/// A response.
pub struct Response {
    pub status: u16,
    headers: BTreeMap<String, String>,
    pub body: String,
}

impl DashboardScene {
    pub fn start() -> DashboardScene {
        DashboardScene::start_in(scene(), &[])
    }

    fn start_in(sandbox: Sandbox, more: &[&str]) -> DashboardScene {
        let server = ScriptedProgram::config_entry(&Script::legacy());
        sandbox.write_servers(USER, &format!("\"canary\": {server}"));
        let options = [&["--pool", "--no-auth", "--ui"], more].concat();
        let gateway = HttpGateway::start(&sandbox, &options);
        gateway.wait_until_ready();
        DashboardScene { sandbox, gateway }
    }

    /// A new login link's secret.
    pub fn secret(&self) -> String {
        let json = json_of(&self.sandbox, &["ui", "--json"]);
        let link = json["dashboards"][0]["link"].as_str().expect("a link");
        link.split_once("?link=").expect("a secret").1.to_owned()
    }

    fn origin(&self) -> String {
        format!("http://{}", self.gateway.address)
    }

    /// Sends a request, with these headers besides `Host`.
    pub fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
        send(&self.gateway.address, &self.gateway.address, line, headers, body)
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let origin = self.origin();
        let all = [&[FORM, ("Origin", &origin)], headers].concat();
        self.send(&format!("POST {path}"), &all, body)
    }

    /// Signs in, and returns the cookie.
    pub fn sign_in(&self) -> String {
        let body = format!("link={}", self.secret());
        let response = self.post("/ui/login", &[], &body);
        assert_eq!(response.status, 303, "{}", response.body);
        let cookie = response.header("set-cookie");
        cookie.split(';').next().expect("a pair").to_owned()
    }

    fn page(&self, cookie: &str, path: &str) -> Response {
        self.send(&format!("GET {path}"), &[("Cookie", cookie)], "")
    }

    fn page_token(&self, cookie: &str) -> String {
        let page = self.page(cookie, "/ui/server?name=canary").body;
        let rest = page.split_once("name=\"page-token\" value=\"").expect("a form").1;
        rest.split_once('"').expect("a value").0.to_owned()
    }
}

impl Response {
    #[track_caller]
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.headers))
    }
}

fn send(address: &str, host: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a deadline");
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // A request that is refused early may not be read to its end.
    let _refused_early = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _reset_after_response = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|it| it.split(' ').nth(1)).and_then(|it| it.parse().ok());
    let header = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    Response {
        status: status.unwrap_or_else(|| panic!("no response: {text}")),
        headers: lines.filter_map(header).collect(),
        body: body.to_owned(),
    }
}

const PAGES: [&str; 11] = [
    "/ui/",
    "/ui/tools",
    "/ui/server?name=canary",
    "/ui/tool?name=mcp__canary__echo",
    "/ui/calls",
    "/ui/approvals",
    "/ui/clients",
    "/ui/policy",
    "/ui/logins",
    "/ui/usage",
    "/ui/events?page=/ui/",
];

#[test]
fn without_a_session_every_page_is_the_login_page_and_no_response_may_be_stored_or_framed() {
    let scene = DashboardScene::start();
    for path in PAGES {
        for cookie in ["", "swb_dashboard_1=x", "a=b; =; ;;"] {
            let response = scene.page(cookie, path);
            assert_eq!(response.status, 401, "{path}");
            assert!(
                response.body.contains("Sign in") && !response.body.contains("canary"),
                "{path}"
            );
            let policy = response.header("content-security-policy");
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
            ] {
                assert!(policy.contains(part), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(response.header("cache-control"), "no-store");
            assert_eq!(response.header("x-content-type-options"), "nosniff");
            assert_eq!(response.header("referrer-policy"), "same-origin");
        }
    }
    let response = scene.post("/ui/server/switch", &[], "name=canary&to=disabled");
    assert_eq!(response.status, 401);
    assert_eq!(scene.page("", "/ui").status, 303);
    scene.gateway.terminate();
}

#[test]
fn a_login_link_is_used_up_by_the_form_and_not_by_looking_at_it() {
    let scene = DashboardScene::start();
    let secret = scene.secret();
    for _ in 0..2 {
        let page = scene.send(&format!("GET /ui/login?link={secret}"), &[], "");
        assert!(page.status == 200 && !page.headers.contains_key("set-cookie"), "{}", page.status);
    }
    let body = format!("link={secret}");
    let response = scene.post("/ui/login", &[], &body);
    let cookie = response.header("set-cookie").to_owned();
    assert_eq!((response.status, response.header("location")), (303, "/ui/"));
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/ui/", "; Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let again = scene.post("/ui/login", &[], &body);
    assert!(again.status == 403 && !again.headers.contains_key("set-cookie"));
    for wrong in ["", "link=", "link=x", "link=%00", "nothing=1"] {
        assert_eq!(scene.post("/ui/login", &[], wrong).status, 403, "{wrong}");
    }
    scene.gateway.terminate();
}

#[test]
fn a_change_needs_the_session_the_own_origin_and_the_token_of_the_page() {
    let scene = DashboardScene::start();
    let (cookie, address) = (scene.sign_in(), scene.gateway.address.clone());
    let token = scene.page_token(&cookie);
    let (origin, session) = (scene.origin(), ("Cookie", cookie.as_str()));
    let own = ("Origin", origin.as_str());
    let body = format!("page-token={token}&name=canary&to=disabled");
    let other_token = scene.page_token(&scene.sign_in());
    let foreign_body = format!("page-token={other_token}&name=canary&to=disabled");
    let port = address.rsplit_once(':').expect("a port").1;
    let by_name = format!("http://localhost:{port}");
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let refused: [(Headers<'_>, &str, u16); 12] = [
        (&[FORM, own], &body, 401),
        (&[FORM, session], &body, 403),
        (&[FORM, session, ("Origin", "null")], &body, 403),
        (&[FORM, session, ("Origin", "https://evil.example")], &body, 403),
        (&[FORM, session, ("Origin", "http://127.0.0.1:1")], &body, 403),
        (&[FORM, session, ("Origin", &by_name)], &body, 403),
        (&[FORM, session, own, ("Sec-Fetch-Site", "cross-site")], &body, 403),
        (&[FORM, session, own, ("Sec-Fetch-Site", "same-site")], &body, 403),
        (&[FORM, session, own], "name=canary&to=disabled", 403),
        (&[FORM, session, own], &foreign_body, 403),
        (&[("Content-Type", "text/plain"), session, own], &body, 400),
        (&[session, own], &body, 400),
    ];
    for (headers, body, status) in refused {
        let response = scene.send("POST /ui/server/switch", headers, body);
        assert_eq!(response.status, status, "{headers:?} {}", response.body);
        assert!(!response.headers.contains_key("access-control-allow-origin"), "{headers:?}");
    }
    let get = format!("/ui/server/switch?{body}");
    assert_eq!(scene.page(&cookie, &get).status, 404, "a GET changes nothing");
    for host in ["evil.example", "127.0.0.1:1", "127.0.0.1.evil.example"] {
        let response = send(&address, host, "GET /ui/", &[session], "");
        assert_eq!(response.status, 403, "{host}");
        assert!(!response.body.contains("canary"));
    }
    assert!(!scene.sandbox.read(USER).contains("disabled"), "nothing has changed");
    let done = scene.send("POST /ui/server/switch", &[FORM, session, own], &body);
    assert_eq!(
        (done.status, done.header("location")),
        (303, "/ui/server?name=canary&notice=disabled")
    );
    assert!(
        scene.sandbox.read(USER).contains("\"disabled\": true"),
        "{}",
        scene.sandbox.read(USER)
    );
    scene.gateway.terminate();
}

#[test]
fn a_session_ends_with_the_sign_out_and_does_not_hold_at_another_gateway() {
    let scene = DashboardScene::start();
    let cookie = scene.sign_in();
    assert_eq!(scene.page(&cookie, "/ui/").status, 200);
    let other = DashboardScene::start();
    assert_eq!(other.page(&cookie, "/ui/").status, 401);
    assert_ne!(
        cookie.split_once('=').expect("a pair").0,
        other.sign_in().split_once('=').expect("a pair").0,
        "cookies of two ports have two names"
    );
    let token = scene.page_token(&cookie);
    let body = format!("page-token={token}");
    let gone = scene.post("/ui/logout", &[("Cookie", &cookie)], &body);
    assert_eq!((gone.status, gone.header("location")), (303, "/ui/login"));
    assert!(gone.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(scene.page(&cookie, "/ui/").status, 401);
    // Another page of this machine may have set a cookie of the same name before ours.
    let fresh = scene.sign_in();
    let name = fresh.split_once('=').expect("a pair").0;
    assert_eq!(scene.page(&format!("{name}=planted; {fresh}"), "/ui/").status, 200);
    other.gateway.terminate();
    scene.gateway.terminate();
}

#[test]
fn large_forms_and_odd_paths_are_refused() {
    let scene = DashboardScene::start();
    let cookie = scene.sign_in();
    let token = scene.page_token(&cookie);
    let large = format!("page-token={token}&x={}", "a".repeat(300 * 1024));
    assert_eq!(scene.post("/ui/tool/call", &[("Cookie", &cookie)], &large).status, 413);
    let many = format!("page-token={token}{}", "&a=1".repeat(1000));
    assert_eq!(scene.post("/ui/tool/call", &[("Cookie", &cookie)], &many).status, 400);
    for path in [
        "/ui/../mcp",
        "/ui/..%2fmcp",
        "/ui/assets/../../etc/passwd",
        "/ui/assets/%2e%2e/dashboard.js",
        "/ui/assets/",
        "/ui//",
        "/ui/server/",
        "/ui/run?id=-1",
        "/ui/run?id=99",
        "/ui/call?id=../../x",
        "/ui/server?name=..%2F..%2Fetc%2Fpasswd",
        "/ui/tool?name=%00",
        "/ui/events?page=http://evil.example/",
        "/UI/",
        "//ui/",
    ] {
        let response = scene.page(&cookie, path);
        assert!([403, 404].contains(&response.status), "{path}: {}", response.status);
        assert!(!response.body.contains("root:"), "{path}");
    }
    for method in ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"] {
        let origin = scene.origin();
        let headers = [("Cookie", cookie.as_str()), ("Origin", origin.as_str())];
        let response = scene.send(&format!("{method} /ui/"), &headers, "");
        assert_eq!(response.status, 405, "{method}");
    }
    scene.gateway.terminate();
}

#[test]
fn only_so_many_pages_are_kept_current_at_once() {
    let scene = DashboardScene::start();
    let cookie = scene.sign_in();
    let open = || {
        let mut stream = TcpStream::connect(&scene.gateway.address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a deadline");
        let head = format!(
            "GET /ui/events?page=/ui/approvals HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
            scene.gateway.address
        );
        stream.write_all(head.as_bytes()).expect("it is read");
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("a status");
        (stream, String::from_utf8_lossy(&start).into_owned())
    };
    let mut streams = Vec::new();
    for _ in 0..32 {
        let (stream, start) = open();
        assert_eq!(start, "HTTP/1.1 200");
        streams.push(stream);
    }
    assert_eq!(open().1, "HTTP/1.1 503");
    drop(streams);
    wait_for(|| open().1 == "HTTP/1.1 200");
    scene.gateway.terminate();
}

#[test]
fn a_gateway_without_the_option_has_no_dashboard() {
    let sandbox = scene();
    let server = ScriptedProgram::config_entry(&Script::legacy());
    sandbox.write_servers(USER, &format!("\"s\": {server}"));
    let gateway = HttpGateway::start(&sandbox, &["--pool", "--no-auth"]);
    for path in ["/ui", "/ui/", "/ui/login", "/ui/assets/dashboard.js"] {
        assert!(gateway.get(path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    gateway.terminate();
}

#[test]
fn the_overview_lists_the_replicas_and_says_when_their_store_is_away() {
    let mut store = StoreServer::start();
    let url = store.url();
    let scenes = [0, 1].map(|_| {
        let sandbox = scene();
        let key = sandbox.project().join("seal.key");
        std::fs::write(&key, "00".repeat(32)).expect("it can be written");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("ours");
        DashboardScene::start_in(sandbox, &["--store", &url, "--seal-key", "seal.key"])
    });
    let cookie = scenes[0].sign_in();
    let overview = || scenes[0].page(&cookie, "/ui/").body;
    wait_for(|| overview().matches("data-key=\"replica-").count() == 2);
    let page = overview();
    let section = page.split_once("id=\"replicas-heading\"").expect("a section").1;
    assert!(section.contains("connected") && section.matches("(this one)").count() == 1);
    assert_eq!(section.matches(env!("CARGO_PKG_VERSION")).count(), 2, "{section}");
    store.kill();
    wait_for(|| overview().contains("Sessions of each replica go on"));
    let alone = DashboardScene::start();
    let cookie = alone.sign_in();
    assert!(!alone.page(&cookie, "/ui/").body.contains("replicas-heading"), "it has no store");
}
