//! `swb serve --store`: several replicas behind a real load balancer without affinity, with a real store. Replicas and the
//! store are killed, stopped and started again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::processes::wait_until;
use testkit::scripted::read_journal;
use testkit::store_server::{StoreServer, free_port};
use testkit::tcp_relay::{Cut, TcpRelay};
use testkit::{Quirk, Sandbox, Script, ScriptedProgram};

use crate::http_gateway::HttpGateway;
use crate::support::{USER, scene};

const TIMEOUT: Duration = Duration::from_secs(30);
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const NEW_KEY: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

/// A load balancer with the configuration of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Balancer {
    HaProxy,
    Nginx,
}

/// A process that is killed on drop.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill can be run").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/replicas")
}

impl Balancer {
    /// Starts it in front of two replicas.
    fn start(self, folder: &Path, port: u16, replicas: [u16; 2]) -> Process {
        let name = match self {
            Balancer::HaProxy => "haproxy.cfg",
            Balancer::Nginx => "nginx.conf",
        };
        let text = fs::read_to_string(examples().join(name)).expect("the sample");
        let address = |port: u16| format!("127.0.0.1:{port}");
        let text = text
            // It would need more open files than a test may have.
            .replace("maxconn 20000", "maxconn 1000")
            .replace("127.0.0.1:8800", &address(port))
            .replace("127.0.0.1:8808", &address(replicas[0]))
            .replace("127.0.0.1:8809", &address(replicas[1]));
        let here = folder.display();
        // Every user can run it with folders of its own.
        let own_folders = format!(
            "access_log off; client_body_temp_path {here}/a; proxy_temp_path {here}/b; \
             fastcgi_temp_path {here}/c; uwsgi_temp_path {here}/d; scgi_temp_path {here}/e;"
        );
        let file = folder.join(name);
        fs::write(&file, text.replace("access_log off;", &own_folders)).expect("written");
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("env");
        command.arg(format!("PATH={path}"));
        match self {
            Balancer::HaProxy => command.args(["haproxy", "-db", "-f"]).arg(&file),
            Balancer::Nginx => command
                .args(["nginx", "-e", "stderr", "-p"])
                .arg(folder)
                .arg("-c")
                .arg(&file)
                .args(["-g", "daemon off; master_process off; pid nginx.pid;"]),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process(command.spawn().expect("it can be started"));
        wait_until(TIMEOUT, "the balancer listens", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        process
    }
}

/// Two replicas, their store and their balancer.
struct Fleet {
    store: StoreServer,
    scenes: [Sandbox; 2],
    replicas: [Process; 2],
    ports: [u16; 2],
    port: u16,
    _balancer: Process,
    keys: PathBuf,
    cuts: Option<Cuts>,
}

/// Relays on the ways between the parts of a fleet, by replica.
struct Cuts {
    /// From the replica to the store.
    store: [TcpRelay; 2],
    /// From the other replica.
    replica: [TcpRelay; 2],
    /// From the balancer.
    front: [TcpRelay; 2],
}

impl Fleet {
    /// A fleet in which every way can be cut.
    fn with_cuts(balancer: Balancer) -> Fleet {
        let store = StoreServer::start();
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let scenes = [scene(), scene()];
        let (ports, listen) = ([free_port(), free_port()], [free_port(), free_port()]);
        let port = free_port();
        let keys = scenes[0].path("seal.key");
        write_private(&keys, KEY);
        let cuts = Cuts {
            store: [0, 1].map(|_| TcpRelay::start(local(store.port()))),
            replica: listen.map(|it| TcpRelay::start(local(it))),
            front: ports.map(|it| TcpRelay::start(local(it))),
        };
        let replicas = [0, 1].map(|number| {
            let script = Script::legacy().journal(scenes[number].path("journal"));
            let entry = ScriptedProgram::config_entry(&script);
            scenes[number].write_servers(USER, &format!("\"s\": {entry}"));
            let url = format!("redis://{}", cuts.store[number].address());
            let address = cuts.replica[number].address().to_string();
            let listen = local(listen[number]).to_string();
            let more = ["--replica-address", &address, "--replica-listen", &listen];
            start_replica_with(&scenes[number], ports[number], (port, &url, &keys), &more)
        });
        for port in ports {
            wait_until_ready(port);
        }
        let fronts = [&cuts.front[0], &cuts.front[1]].map(|it| it.address().port());
        let balancer = balancer.start(store.folder(), port, fronts);
        let cuts = Some(cuts);
        Fleet { store, scenes, replicas, ports, port, _balancer: balancer, keys, cuts }
    }

    /// How often a call with this text has reached a server.
    fn times_called(&self, text: &str) -> usize {
        let is_it = |it: &&Json| it["params"]["arguments"]["text"] == text;
        [0, 1].map(|number| self.calls(number, "echo").iter().filter(is_it).count()).iter().sum()
    }

    fn start(balancer: Balancer) -> Fleet {
        Fleet::with_store(balancer, StoreServer::start())
    }

    fn with_store(balancer: Balancer, store: StoreServer) -> Fleet {
        let scenes = [scene(), scene()];
        let ports = [free_port(), free_port()];
        let port = free_port();
        let keys = scenes[0].path("seal.key");
        write_private(&keys, KEY);
        let replicas = [0, 1].map(|number| {
            let script =
                Script::legacy().quirk(Quirk::HasTalkTool).journal(scenes[number].path("journal"));
            let entry = ScriptedProgram::config_entry(&script);
            scenes[number].write_servers(USER, &format!("\"s\": {entry}"));
            start_replica(&scenes[number], ports[number], (port, &store.url(), &keys))
        });
        for port in ports {
            wait_until_ready(port);
        }
        let balancer = balancer.start(store.folder(), port, ports);
        let cuts = None;
        Fleet { store, scenes, replicas, ports, port, _balancer: balancer, keys, cuts }
    }

    fn restart(&mut self, number: usize) {
        self.replicas[number].kill();
        let options = (self.port, &*self.store.url(), &*self.keys);
        self.replicas[number] = start_replica(&self.scenes[number], self.ports[number], options);
        wait_until_ready(self.ports[number]);
    }

    fn client(&self) -> Client {
        Client { port: self.port, session: None }
    }

    /// The calls of a tool that a replica's server has received.
    fn calls(&self, number: usize, tool: &str) -> Vec<Json> {
        let all = read_journal(&self.scenes[number].path("journal")).into_iter();
        all.filter(|it| it["params"]["name"] == tool).collect()
    }

    /// The replica whose server has received a call with this text.
    fn replica_of(&self, text: &str) -> usize {
        let has = |number: &usize| {
            let called = self.calls(*number, "echo");
            called.iter().any(|it| it["params"]["arguments"]["text"] == text)
        };
        [0, 1].into_iter().find(has).unwrap_or_else(|| panic!("`{text}` was not called"))
    }

    fn metric(&self, number: usize, name: &str) -> f64 {
        let client = Client { port: self.ports[number], session: None };
        let page = client.get("/metrics", &[]).text();
        let line = page.lines().find_map(|it| it.strip_prefix(&format!("{name} ")));
        line.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("no {name}: {page}"))
    }

    /// Waits until both replicas know two replicas.
    fn wait_until_joined(&self) {
        for number in [0, 1] {
            wait_until(TIMEOUT, "both replicas are known", || {
                (self.metric(number, "switchboard_replicas") >= 2.0).then_some(())
            });
        }
    }
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

fn start_replica(scene: &Sandbox, port: u16, options: (u16, &str, &Path)) -> Process {
    start_replica_with(scene, port, options, &[])
}

fn start_replica_with(
    scene: &Sandbox,
    port: u16,
    (balancer, store, keys): (u16, &str, &Path),
    more: &[&str],
) -> Process {
    let (http, host) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{balancer}"));
    let keys = keys.display().to_string();
    let arguments = [
        "serve",
        "--pool",
        "--mode",
        "bypass",
        "--no-auth",
        "--metrics-open",
        "--http",
        &http,
        "--allow-host",
        &host,
        "--store",
        store,
        "--seal-key",
        &keys,
    ];
    let arguments = [&arguments, more].concat();
    let mut command = scene.command(&scene.project(), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Process(command.spawn().expect("it can be started"))
}

fn wait_until_ready(port: u16) {
    let client = Client { port, session: None };
    wait_until(TIMEOUT, "the replica is ready", || {
        let response = client.try_send("GET /readyz", &[], "").ok()?;
        (response.status == 200).then_some(())
    });
}

/// A client of the balancer, or of one replica.
#[derive(Clone)]
struct Client {
    port: u16,
    session: Option<String>,
}

/// A response whose head was read.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

/// The body of a response without the framing of chunks.
struct Body {
    stream: BufReader<TcpStream>,
    is_chunked: bool,
    /// What is left of the chunk.
    left: usize,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.is_chunked {
            return self.stream.read(buffer);
        }
        while self.left == 0 {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            match line.trim() {
                "" => continue,
                size => self.left = usize::from_str_radix(size, 16).unwrap_or(0),
            }
            if self.left == 0 {
                return Ok(0);
            }
        }
        let room = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..room])?;
        self.left -= read;
        Ok(read)
    }
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).expect("a body in time");
        text
    }

    /// The next event: its id and its message, which is null if it has none. None at the end, also at a sudden one.
    fn event(&mut self) -> Option<(Option<String>, Json)> {
        let (mut id, mut message, mut has_content) = (None, Json::Null, false);
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("id: ") {
                (id, has_content) = (Some(text.to_owned()), true);
            } else if let Some(text) = line.strip_prefix("data: ").filter(|it| !it.is_empty()) {
                (message, has_content) = (serde_json::from_str(text).ok()?, true);
            } else if line.is_empty() && has_content {
                return Some((id, message));
            }
        }
    }

    /// The JSON-RPC response: the body, or the last message of the stream.
    fn json(mut self) -> Json {
        if self.header("content-type") != Some("text/event-stream") {
            let text = self.text();
            return serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        }
        let mut last = Json::Null;
        while let Some((_, message)) = self.event() {
            if !message.is_null() {
                last = message;
            }
        }
        last
    }
}

impl Client {
    fn try_send(
        &self,
        what: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Response> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut head = format!(
            "{what} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            self.port,
            body.len()
        );
        let accept = match what.starts_with("GET") {
            true => "text/event-stream",
            false => "application/json, text/event-stream",
        };
        head.push_str(&format!("Accept: {accept}\r\n"));
        if let Some(session) = &self.session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
            head.push_str("MCP-Protocol-Version: 2025-11-25\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other("no status"))?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let is_chunked = headers.iter().any(|it| it.0 == "transfer-encoding");
        let body = BufReader::new(Body { stream, is_chunked, left: 0 });
        Ok(Response { status, headers, body })
    }

    #[track_caller]
    fn post(&self, message: &Json) -> Response {
        self.try_send("POST /mcp", &[], &message.to_string()).expect("an answer")
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.try_send(&format!("GET {path}"), headers, "").expect("an answer")
    }

    fn resume(&self, after: &str) -> Response {
        self.get("/mcp", &[("Last-Event-ID", after)])
    }

    /// Opens a session.
    fn try_initialize(&self) -> Result<Client, u16> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "test", "version": "1"},
        }});
        let response = self.post(&hello);
        if response.status != 200 {
            assert_eq!(response.header("retry-after"), Some("1"));
            return Err(response.status);
        }
        let session = response.header("mcp-session-id").expect("a session").to_owned();
        let client = Client { session: Some(session), ..self.clone() };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        // The other replica may not have noticed yet that the store is back; then it asks the client to retry.
        wait_until(TIMEOUT, "the session is initialized", || {
            let response = client.post(&initialized);
            assert!(
                response.status == 202 || response.header("retry-after") == Some("1"),
                "{}",
                response.status
            );
            (response.status == 202).then_some(())
        });
        Ok(client)
    }

    #[track_caller]
    fn initialize(&self) -> Client {
        self.try_initialize().expect("a session")
    }

    fn call_request(tool: &str, arguments: Json) -> Json {
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": format!("mcp__s__{tool}"), "arguments": arguments,
            "_meta": {"progressToken": "p"},
        }})
    }

    /// The text of an `echo`.
    #[track_caller]
    fn echo(&self, text: &str) -> String {
        let answer = self.post(&Client::call_request("echo", json!({"text": text}))).json();
        let echoed = answer["result"]["content"][0]["text"].as_str();
        echoed.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// A modern request.
    fn modern(&self, mut params: Json) -> std::io::Result<Response> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", &*name),
        ];
        self.try_send("POST /mcp", &headers, &body.to_string())
    }
}

/// The answer to a question.
fn answer(question: &Json) -> Json {
    let result = json!({"action": "accept", "content": {"name": "ada"}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[test]
fn both_eras_work_through_haproxy_and_nginx_without_affinity() {
    for balancer in [Balancer::HaProxy, Balancer::Nginx] {
        let fleet = Fleet::start(balancer);
        fleet.wait_until_joined();
        let session = fleet.client().initialize();
        for number in 0..6 {
            let text = format!("{balancer:?} {number}");
            assert_eq!(session.echo(&text), text);
        }
        let forwarded: f64 =
            [0, 1].map(|it| fleet.metric(it, "switchboard_forwarded_total")).iter().sum();
        assert!(forwarded >= 2.0, "the balancer has affinity: {forwarded}");
        // The question comes before the answer: nothing holds events back.
        let arguments = json!({"text": "t", "steps": 5, "ms": 100, "ask": true});
        let mut stream = session.post(&Client::call_request("talk", arguments));
        let (mut last, mut question) = (None, Json::Null);
        while question.is_null() {
            let (id, message) = stream.event().expect("it goes on");
            last = id.or(last);
            if message["method"] == "elicitation/create" {
                question = message;
            }
        }
        drop(stream);
        assert_eq!(session.post(&answer(&question)).status, 202);
        let answered = session.resume(&last.expect("an id")).json();
        assert_eq!(answered["id"], 7, "{answered}");
        let name = &answered["result"]["structuredContent"]["answer"]["content"]["name"];
        assert_eq!(*name, "ada", "{answered}");
        // Neither is an event late. The best of several attempts, because the machine may be busy.
        let delay = |_| {
            let arguments = json!({"text": "t", "steps": 5, "ms": 50});
            let started = Instant::now();
            let mut stream = session.post(&Client::call_request("talk", arguments));
            stream.event().expect("a first event");
            let delay = started.elapsed();
            stream.json();
            delay
        };
        let shortest = (0..8).map(delay).min().expect("some");
        assert!(shortest < Duration::from_millis(150), "{balancer:?}: {shortest:?}");
        // A modern client's input reaches the replica that waits for it.
        for _ in 0..4 {
            let mut params = json!({"name": "mcp__s__ask", "arguments": {"kind": "elicitation"}});
            let asked = fleet.client().modern(params.clone()).expect("an answer").json();
            let asked = &asked["result"];
            assert_eq!(asked["resultType"], "input_required", "{asked}");
            params["requestState"] = asked["requestState"].clone();
            for name in asked["inputRequests"].as_object().expect("questions").keys() {
                let response = json!({"action": "accept", "content": {"name": "ada"}});
                params["inputResponses"][name] = response;
            }
            let done = fleet.client().modern(params).expect("an answer").json();
            assert!(done["result"].is_object(), "{done}");
            assert_ne!(done["result"]["resultType"], "input_required", "{done}");
        }
        let ended = session.try_send("DELETE /mcp", &[], "").expect("an answer");
        assert_eq!(ended.status, 200);
        assert_eq!(session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status, 404);
    }
}

#[test]
fn what_the_store_holds_is_sealed_and_expires() {
    let fleet = Fleet::start(Balancer::HaProxy);
    fleet.wait_until_joined();
    let session = fleet.client().initialize();
    let arguments = json!({"text": "canary", "steps": 3, "ms": 400});
    let mut stream = session.post(&Client::call_request("talk", arguments));
    assert_eq!(stream.status, 200);
    while stream.event().is_some() {}
    let keys = fleet.store.command(&["keys", "*"]);
    assert!(keys.lines().any(|it| it.ends_with(":ev")), "{keys}");
    for key in keys.lines() {
        let ttl: i64 = fleet.store.command(&["pttl", key]).trim().parse().expect("a number");
        assert!(ttl > 0, "{key} lives for ever");
        let held = match fleet.store.command(&["type", key]).trim() {
            "hash" => fleet.store.command(&["hgetall", key]),
            "stream" => fleet.store.command(&["xrange", key, "-", "+"]),
            "zset" => fleet.store.command(&["zrange", key, "0", "-1"]),
            _ => fleet.store.command(&["get", key]),
        };
        for secret in ["canary", "local", "elicitation", "127.0.0.1"] {
            assert!(!held.contains(secret), "{key} shows {secret}: {held}");
        }
    }
}

#[test]
fn a_killed_replica_loses_no_event_and_repeats_no_call() {
    let fleet = &mut Fleet::start(Balancer::HaProxy);
    fleet.wait_until_joined();
    let session = fleet.client().initialize();
    session.echo("who");
    let owner = fleet.replica_of("who");
    // A call that has ended: its events are there after its replica has gone.
    let arguments = json!({"text": "t", "steps": 5, "ms": 400});
    let mut stream = session.post(&Client::call_request("talk", arguments));
    let first = stream.event().expect("an event").0.expect("an id");
    let mut ended = Vec::new();
    while let Some(event) = stream.event() {
        ended.push(event);
    }
    // A call that still runs.
    let arguments = json!({"text": "t", "steps": 500, "ms": 60000});
    let mut stream = session.post(&Client::call_request("talk", arguments));
    let mut last = stream.event().expect("an event").0.expect("an id");
    for _ in 0..2 {
        last = stream.event().expect("it goes on").0.unwrap_or(last);
    }
    fleet.replicas[owner].kill();
    while let Some((id, _)) = stream.event() {
        last = id.unwrap_or(last);
    }
    // The balancer may still send a request to the replica that has gone.
    let resumed = |after: &str| {
        wait_until(TIMEOUT, "the other replica goes on", || {
            Some(session.try_send("GET /mcp", &[("Last-Event-ID", after)], "").ok()?)
                .filter(|it| it.status == 200)
        })
    };
    let lost = resumed(&last).json();
    assert_eq!(lost["id"], 7, "{lost}");
    let message = lost["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("it is not repeated"), "{lost}");
    let mut again = resumed(&first);
    let mut events = Vec::new();
    while let Some(event) = again.event() {
        events.push(event);
    }
    assert_eq!(events, ended);
    assert_eq!(session.echo("after"), "after");
    assert_eq!(fleet.replica_of("after"), 1 - owner);
    assert!(fleet.calls(1 - owner, "talk").is_empty(), "a call was repeated");
    fleet.restart(owner);
    for number in 0..4 {
        assert_eq!(session.echo(&number.to_string()), number.to_string());
    }
}

#[test]
fn a_replica_that_hangs_loses_its_sessions_and_does_not_get_them_back() {
    let fleet = Fleet::start(Balancer::HaProxy);
    fleet.wait_until_joined();
    let session = fleet.client().initialize();
    session.echo("who");
    let owner = fleet.replica_of("who");
    let other = Client { port: fleet.ports[1 - owner], ..session.clone() };
    let mut standing = Client { port: fleet.ports[owner], ..session.clone() }.get("/mcp", &[]);
    assert_eq!(standing.status, 200);
    fleet.replicas[owner].signal("-STOP");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    wait_until(TIMEOUT, "the other replica takes the session over", || {
        let answer = other.post(&ping);
        (answer.status == 200 && answer.json()["result"].is_object()).then_some(())
    });
    assert_eq!(other.echo("other"), "other");
    fleet.replicas[owner].signal("-CONT");
    // It notices with its next heartbeat, and sends requests on. A call that it still runs then may be told as lost.
    let former = Client { port: fleet.ports[owner], ..session.clone() };
    wait_until(TIMEOUT, "the first replica knows that it has lost the session", || {
        let request = Client::call_request("echo", json!({"text": "both"}));
        let _lost_or_not = former.try_send("POST /mcp", &[], &request.to_string()).ok()?.json();
        let called = fleet.calls(1 - owner, "echo");
        called.iter().any(|it| it["params"]["arguments"]["text"] == "both").then_some(())
    });
    while standing.event().is_some() {}
}

/// A replica that is started on its own.
fn start_alone(
    scene: &Sandbox,
    http: &str,
    (store, keys): (&str, &Path),
    more: &[&str],
) -> HttpGateway {
    let keys = keys.display().to_string();
    let own =
        ["--no-auth", "--max-requests-per-second", "0", "--store", store, "--seal-key", &keys];
    let pool = ["--pool", "--mode", "bypass"];
    HttpGateway::start_at(scene, http, &[&pool[..], &own, more].concat())
}

/// A home with the server `s`, and a key.
fn home_of_replica() -> (Sandbox, PathBuf) {
    let scene = scene();
    let keys = scene.path("seal.key");
    write_private(&keys, KEY);
    let script = Script::legacy().quirk(Quirk::HasTalkTool).journal(scene.path("journal"));
    let entry = ScriptedProgram::config_entry(&script);
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    (scene, keys)
}

fn port_of(gateway: &HttpGateway) -> u16 {
    gateway.address.rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port")
}

#[test]
fn a_replica_that_is_told_to_stop_leaves_the_store_and_ends() {
    let store = StoreServer::start();
    let (scene, keys) = home_of_replica();
    let gateway = start_alone(&scene, "127.0.0.1:0", (&store.url(), &keys), &[]);
    wait_until_ready(port_of(&gateway));
    let session = Client { port: port_of(&gateway), session: None }.initialize();
    assert_eq!(session.echo("before"), "before");
    gateway.terminate();
    let replicas = store.command(&["keys", "*"]);
    assert!(replicas.contains(":s\n"), "the session waits for another replica: {replicas}");
    let next = start_alone(&scene, "127.0.0.1:0", (&store.url(), &keys), &[]);
    let session = Client { port: port_of(&next), ..session };
    assert_eq!(session.echo("after"), "after");
    next.terminate();
}

#[test]
fn a_takeover_with_a_store_loses_no_session_and_no_call() {
    let store = StoreServer::start();
    let (scene, keys) = home_of_replica();
    let (other_scene, _) = home_of_replica();
    let store_url = store.url();
    let place = (&*store_url, &*keys);
    let replica_address = format!("127.0.0.1:{}", free_port());
    let fixed = ["--replica-address", &*replica_address];
    let first = start_alone(&scene, "127.0.0.1:0", place, &fixed);
    let other = start_alone(&other_scene, "127.0.0.1:0", place, &[]);
    let (address, ports) = (first.address.clone(), [port_of(&first), port_of(&other)]);
    for port in ports {
        wait_until_ready(port);
    }
    let session = Client { port: ports[0], session: None }.initialize();
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for port in ports {
            let client = Client { port, ..session.clone() };
            let (stop, made) = (&stop, &made);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("{port} {}", made.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(client.echo(&text), text);
                }
            });
        }
        let more_calls = || {
            let before = made.load(Ordering::Relaxed);
            wait_until(TIMEOUT, "clients make more calls", || {
                (made.load(Ordering::Relaxed) > before + 20).then_some(())
            });
        };
        more_calls();
        let second = start_alone(&scene, &address, place, &[&fixed[..], &["--takeover"]].concat());
        assert_eq!(first.wait_exit(), Some(0), "the first replica ends by itself");
        more_calls();
        stop.store(true, Ordering::Relaxed);
        second
    })
    .terminate();
    let texts: Vec<String> = [&scene, &other_scene]
        .iter()
        .flat_map(|it| read_journal(&it.path("journal")))
        .filter(|it| it["params"]["name"] == "echo")
        .map(|it| it["params"]["arguments"]["text"].to_string())
        .collect();
    let distinct: BTreeSet<&String> = texts.iter().collect();
    assert_eq!((texts.len(), distinct.len()), (made.load(Ordering::Relaxed), texts.len()));
}

#[test]
fn the_store_is_killed_and_restarted_under_load_and_no_call_is_lost_or_doubled() {
    let fleet = &mut Fleet::start(Balancer::HaProxy);
    fleet.wait_until_joined();
    let stop = AtomicBool::new(false);
    let (calls, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sessions: Vec<Client> = (0..2).map(|_| fleet.client().initialize()).collect();
    for session in &sessions {
        // Both replicas know where it is.
        for number in 0..4 {
            session.echo(&format!("warm {number}"));
        }
    }
    let warm = sessions.len() * 4;
    let client = fleet.client();
    thread::scope(|scope| {
        for session in &sessions {
            let (stop, calls, failed) = (&stop, &calls, &failed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = calls.fetch_add(1, Ordering::Relaxed).to_string();
                    let request = Client::call_request("echo", json!({"text": number}));
                    let answer = session.post(&request).json();
                    if answer["result"]["content"][0]["text"] != number {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let (stop, calls, failed) = (&stop, &calls, &failed);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let number = calls.fetch_add(1, Ordering::Relaxed).to_string();
                let params = json!({"name": "mcp__s__echo", "arguments": {"text": number}});
                let answer = client.modern(params).expect("an answer").json();
                if answer["result"]["content"][0]["text"] != number {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let more = |count: usize| {
            let before = calls.load(Ordering::Relaxed);
            wait_until(TIMEOUT, "calls go on", || {
                (calls.load(Ordering::Relaxed) > before + count).then_some(())
            });
        };
        more(20);
        fleet.store.kill();
        more(60);
        fleet.store.restart();
        more(60);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    let texts: Vec<String> = [0, 1]
        .iter()
        .flat_map(|it| fleet.calls(*it, "echo"))
        .map(|it| it["params"]["arguments"]["text"].to_string())
        .collect();
    assert_eq!(texts.len(), calls.load(Ordering::Relaxed) + warm, "each was executed once");
    // Sessions are written again, and new ones begin.
    wait_until(TIMEOUT, "new sessions begin", || fleet.client().try_initialize().ok());
    let distinct: BTreeSet<&String> = texts.iter().filter(|it| !it.contains("warm")).collect();
    assert_eq!(distinct.len(), calls.load(Ordering::Relaxed));
}

#[test]
fn replicas_start_without_their_store_and_use_it_when_it_is_there() {
    let mut store = StoreServer::start();
    store.kill();
    let mut fleet = Fleet::with_store(Balancer::HaProxy, store);
    let params = json!({"name": "mcp__s__echo", "arguments": {"text": "modern"}});
    let answer = fleet.client().modern(params).expect("an answer").json();
    assert_eq!(answer["result"]["content"][0]["text"], "modern", "{answer}");
    assert_eq!(fleet.client().try_initialize().err(), Some(503));
    fleet.store.restart();
    let session = wait_until(TIMEOUT, "sessions begin", || fleet.client().try_initialize().ok());
    fleet.wait_until_joined();
    assert_eq!(session.echo("here"), "here");
}

#[test]
fn keys_are_replaced_without_losing_a_client() {
    let fleet = &mut Fleet::start(Balancer::HaProxy);
    fleet.wait_until_joined();
    let session = fleet.client().initialize();
    session.echo("who");
    let owner = fleet.replica_of("who");
    let record = || {
        let id = session.session.as_deref().expect("a session");
        fleet.store.command(&["hget", &format!("swb:{{{id}}}:s"), "r"])
    };
    let mut before = record();
    // First all replicas can open what the new key seals, then it seals, then the old one goes.
    write_private(&fleet.keys, &format!("{KEY}{NEW_KEY}"));
    assert_eq!(session.echo("both keys"), "both keys");
    for keys in [format!("{NEW_KEY}{KEY}"), NEW_KEY.to_owned()] {
        write_private(&fleet.keys, &keys);
        before = wait_until(TIMEOUT, "the session is sealed again", || {
            // A replica that has not read the file yet may not open what the other one seals.
            let request = Client::call_request("echo", json!({"text": "meanwhile"}));
            let answer = session.post(&request);
            assert!([200, 503].contains(&answer.status), "{}", answer.status);
            Some(record()).filter(|it| *it != before)
        });
    }
    fleet.replicas[owner].kill();
    let found = wait_until(TIMEOUT, "the other replica goes on", || {
        let request = Client::call_request("echo", json!({"text": "found"}));
        let answer = session.try_send("POST /mcp", &[], &request.to_string()).ok()?;
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(found["result"]["content"][0]["text"], "found", "{found}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let scene = scene();
    let refused = |arguments: &[&str]| {
        let all = [&["serve", "--http", "127.0.0.1:0", "--no-auth"], arguments].concat();
        let ran = scene.swb(&all);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    let keys = scene.path("seal.key");
    write_private(&keys, KEY);
    let keys = keys.display().to_string();
    let with = |store: &str| refused(&["--seal-key", &keys, "--store", store]);
    assert!(with("http://:hunter2@h").contains("must begin with `redis://`"));
    assert!(!with("http://:hunter2@h").contains("hunter2"));
    assert!(with("redis://:${NOT_SET}@h").contains("NOT_SET is not set"));
    assert!(refused(&["--store", "redis://h"]).contains("--seal-key"));
    let missing = refused(&["--seal-key", "missing"]);
    assert!(missing.contains("openssl rand -base64 32"), "{missing}");
    let everywhere =
        ["serve", "--http", "0.0.0.0:0", "--seal-key", &keys, "--oauth", "https://i.example"];
    let ran = scene.swb(&everywhere);
    assert!(ran.stderr.contains("--replica-address"), "{}", ran.stderr);
}

#[test]
fn the_samples_for_systemd_and_kubernetes_are_well_formed() {
    let unit = examples().join("switchboard@.service");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    let verified = verified.expect("systemd-analyze of Debian's package `systemd` is installed");
    let complaints = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && complaints.is_empty(), "{complaints}");
    let script =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let yaml = examples().join("kubernetes.yaml");
    let read = Command::new("python3").args(["-c", script]).arg(&yaml).output().expect("python");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let documents: Json = serde_json::from_slice(&read.stdout).expect("JSON");
    let kinds: Vec<_> =
        documents.as_array().expect("a list").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"]);
    let container = &documents[0]["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> =
        container["args"].as_array().expect("a list").iter().filter_map(Json::as_str).collect();
    let scene = scene();
    // Every option exists and has a value that it can have: the file with the key is what is missing.
    let keys = arguments.iter().find_map(|it| it.strip_prefix("--seal-key=")).expect("a key");
    let ran = scene.swb(&arguments);
    let missing = format!("caused by: `{keys}` cannot be read");
    assert!(ran.code == 2 && ran.stderr.contains(&missing), "{}", ran.stderr);
}

/// Calls `echo` until it is served, or told as lost; only a refusal that asks for another attempt may come before.
#[track_caller]
fn echo_once(client: &Client, fleet: &Fleet, text: &str) {
    let answer = wait_until(TIMEOUT, "the call is answered", || {
        let call = Client::call_request("echo", json!({"text": text}));
        let response = client.post(&call);
        if response.status == 503 {
            assert_eq!(response.header("retry-after"), Some("1"));
            return None;
        }
        assert_eq!(response.status, 200);
        Some(response.json())
    });
    let is_lost = answer["error"]["message"].to_string().contains("may have been executed");
    match is_lost {
        true => assert!(fleet.times_called(text) <= 1, "{text}"),
        false => {
            assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
            assert_eq!(fleet.times_called(text), 1, "{text}");
        }
    }
}

#[test]
fn while_any_two_parts_are_cut_off_sessions_go_on_and_no_call_is_made_twice() {
    let fleet = Fleet::with_cuts(Balancer::HaProxy);
    fleet.wait_until_joined();
    let cuts = fleet.cuts.as_ref().expect("it can be cut");
    let session = fleet.client().initialize();
    session.echo("first");
    let owner = fleet.replica_of("first");
    // The replicas cannot reach each other: some requests are refused or told as lost, and none is made twice.
    for relay in &cuts.replica {
        relay.set(Cut::Closed);
    }
    for number in 0..6 {
        echo_once(&session, &fleet, &format!("apart {number}"));
    }
    for relay in &cuts.replica {
        relay.set(Cut::Healed);
    }
    for number in 0..4 {
        echo_once(&session, &fleet, &format!("together {number}"));
    }
    // The balancer cannot reach the owner: the other replica sends it the requests.
    cuts.front[owner].set(Cut::Closed);
    let other = Client { port: fleet.ports[1 - owner], ..session.clone() };
    for number in 0..4 {
        let text = format!("behind {number}");
        assert_eq!(other.echo(&text), text);
        assert_eq!(fleet.times_called(&text), 1, "{text}");
    }
    cuts.front[owner].set(Cut::Healed);
    // The owner cannot reach the store: it and the replica that takes the session over serve each call once.
    for cut in [Cut::Closed, Cut::Silent] {
        cuts.store[owner].set(cut);
        wait_until(TIMEOUT, "it is noticed", || {
            (fleet.metric(owner, "switchboard_store_connected") == 0.0).then_some(())
        });
        for number in 0..6 {
            let at = Client { port: fleet.ports[number % 2], ..session.clone() };
            echo_once(&at, &fleet, &format!("{cut:?} {number}"));
        }
        cuts.store[owner].set(Cut::Healed);
        wait_until(TIMEOUT, "it is there again", || {
            (fleet.metric(owner, "switchboard_store_connected") == 1.0).then_some(())
        });
        fleet.wait_until_joined();
        for number in 0..4 {
            echo_once(&session, &fleet, &format!("after {cut:?} {number}"));
        }
    }
}
