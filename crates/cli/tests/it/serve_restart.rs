//! `swb serve --http`: a restart without a lost call, sockets of the service manager, and draining.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::processes::wait_until;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::http_gateway::{GatewayClient, HttpGateway, modern_request, response_json};
use crate::support::{USER, scene};

const TIMEOUT: Duration = Duration::from_secs(60);
/// The clients of these tests call in a loop.
const POOL: [&str; 6] =
    ["--pool", "--mode", "bypass", "--no-auth", "--max-requests-per-second", "0"];

fn configured() -> Sandbox {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    scene.write(USER, &format!("{{\"mcpServers\": {{\"one\": {entry}}}}}"));
    scene
}

/// A client that keeps its connection as long as the server does.
struct KeepAliveClient {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl KeepAliveClient {
    fn new(address: &str) -> KeepAliveClient {
        KeepAliveClient { address: address.to_owned(), connection: None }
    }

    /// Calls a tool and returns the text of its result. Any failure is one of the test: nothing is sent twice.
    fn echo(&mut self, text: &str) -> String {
        let params = json!({"name": "mcp__one__echo", "arguments": {"text": text}});
        let (lines, body) = modern_request(None, "tools/call", params);
        let body = body.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\n{lines}Content-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut connection = self.connection.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(&self.address).expect("the gateway listens");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            BufReader::new(stream)
        });
        connection.get_mut().write_all(request.as_bytes()).expect("it is read");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = connection.read_line(&mut head).expect("a response");
            assert!(read > 0, "the connection was closed without a response: {head}");
        }
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            read_chunks(&mut connection)
        } else {
            let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
            let length = length.and_then(|it| it.parse().ok()).expect("a length");
            let mut bytes = vec![0; length];
            connection.read_exact(&mut bytes).expect("a body");
            String::from_utf8(bytes).expect("UTF-8")
        };
        if !head.contains("connection: close") {
            self.connection = Some(connection);
        }
        let response = response_json(&format!("{head}\r\n\r\n{body}"));
        let text = response["result"]["content"][0]["text"].as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("no text in the result: {head}{response}"))
    }
}

fn read_chunks(connection: &mut BufReader<TcpStream>) -> String {
    let mut body = String::new();
    loop {
        let mut size = String::new();
        connection.read_line(&mut size).expect("a size");
        let size = usize::from_str_radix(size.trim(), 16).expect("a number");
        let mut chunk = vec![0; size + 2];
        connection.read_exact(&mut chunk).expect("a chunk");
        if size == 0 {
            return body;
        }
        body.push_str(&String::from_utf8_lossy(&chunk[..size]));
    }
}

#[test]
fn a_gateway_that_takes_over_loses_no_call() {
    const CLIENTS: usize = 4;
    let scene = configured();
    let first = HttpGateway::start(&scene, &POOL);
    let address = first.address.clone();
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let takeover = [&POOL[..], &["--takeover"]].concat();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (address, stop, made) = (&address, &stop, &made);
            scope.spawn(move || {
                let mut client = KeepAliveClient::new(address);
                for call in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = format!("{number}-{call}");
                    assert_eq!(client.echo(&text), text);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more_calls = || {
            let before = made.load(Ordering::Relaxed);
            wait_until(TIMEOUT, "clients make more calls", || {
                (made.load(Ordering::Relaxed) > before + 5 * CLIENTS).then_some(())
            });
        };
        more_calls();
        let second = HttpGateway::start_at(&scene, &address, &takeover);
        assert_eq!(first.wait_exit(), Some(0), "the first gateway ends by itself");
        more_calls();
        let third = HttpGateway::start_at(&scene, &address, &takeover);
        assert_eq!(second.wait_exit(), Some(0), "the second gateway ends by itself");
        more_calls();
        stop.store(true, Ordering::Relaxed);
        third
    })
    .terminate();
}

#[test]
fn a_client_that_has_just_connected_is_served_although_the_gateway_stops() {
    let scene = configured();
    let gateway = HttpGateway::start(&scene, &POOL);
    let address = gateway.address.clone();
    let stream = TcpStream::connect(&address).expect("the gateway listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    // Connections are accepted in their order.
    assert!(gateway.get("/healthz").starts_with("HTTP/1.1 200 "));
    let connection = Some(BufReader::new(stream));
    let mut client = KeepAliveClient { address: address.clone(), connection };
    gateway.signal("-TERM");
    wait_until(TIMEOUT, "the gateway listens no more", || {
        TcpStream::connect(&address).is_err().then_some(())
    });
    assert_eq!(client.echo("on its way"), "on its way");
    assert_eq!(gateway.wait_exit(), Some(0));
}

#[test]
fn without_a_gateway_to_take_over_from_the_address_is_opened() {
    let scene = configured();
    let other = HttpGateway::start(&scene, &POOL);
    let address = other.address.clone();
    let output = scene.swb(&[&["serve", "--http", &address][..], &POOL].concat());
    assert!(output.stderr.contains("--takeover"), "{}", output.stderr);
    other.terminate();
    let gateway = HttpGateway::start_at(&scene, &address, &[&POOL[..], &["--takeover"]].concat());
    assert!(gateway.get("/healthz").starts_with("HTTP/1.1 200 "));
    gateway.terminate();
}

/// A command that gets a socket as systemd passes it: as file 3, with its number and the process in variables.
fn with_passed_socket(scene: &Sandbox, socket: &TcpListener, arguments: &[&str]) -> Command {
    let own = scene.command(&scene.project(), arguments);
    let mut command = Command::new("sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    command.arg("-c").arg(script).arg(own.get_program()).args(own.get_args());
    command.current_dir(scene.project()).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let socket = socket.try_clone().expect("a duplicate");
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn clients_that_connect_to_the_socket_of_the_service_manager_wait_for_the_gateway() {
    let scene = configured();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    let notify = scene.path("notify");
    let manager = UnixDatagram::bind(&notify).expect("a socket");
    manager.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let echoed = thread::spawn({
        let address = address.clone();
        move || KeepAliveClient::new(&address).echo("early")
    });
    let arguments = [&["serve", "--http", &address][..], &POOL].concat();
    let mut command = with_passed_socket(&scene, &socket, &arguments);
    command.env("NOTIFY_SOCKET", &notify);
    let started = |command: &mut Command| {
        let mut child = command.spawn().expect("it can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it is");
        assert!(line.contains(&address), "{line}");
        child
    };
    let received = || {
        let mut state = [0; 64];
        let count = manager.recv(&mut state).expect("it was sent");
        String::from_utf8_lossy(&state[..count]).into_owned()
    };
    let mut first = started(&mut command);
    assert_eq!(echoed.join().expect("no panic"), "early");
    assert_eq!(received(), "READY=1\n");
    let stop = Command::new("kill").args(["-TERM", &first.id().to_string()]).status();
    assert!(stop.expect("kill can be run").success());
    assert_eq!(received(), "STOPPING=1\n");
    assert_eq!(wait_until(TIMEOUT, "it ends", || first.try_wait().expect("ours")).code(), Some(0));
    // The socket is still there, so a client between two runs waits for the next one.
    let echoed = thread::spawn({
        let address = address.clone();
        move || KeepAliveClient::new(&address).echo("between")
    });
    let mut second = started(&mut with_passed_socket(&scene, &socket, &arguments));
    assert_eq!(echoed.join().expect("no panic"), "between");
    second.kill().expect("it runs");
    second.wait().expect("it ends");
}

#[test]
fn a_passed_socket_at_another_address_is_an_error() {
    let scene = configured();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let arguments = [&["serve", "--http", "127.0.0.1:1"][..], &POOL].concat();
    let output = with_passed_socket(&scene, &socket, &arguments).output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("passes no socket for 127.0.0.1:1"), "{text}");
    assert!(text.contains(&socket.local_addr().expect("an address").to_string()), "{text}");
}

#[test]
fn while_it_drains_a_gateway_serves_requests_and_is_not_ready() {
    let scene = configured();
    let gateway = HttpGateway::start(&scene, &[&POOL[..], &["--drain-delay", "3600"]].concat());
    let client = GatewayClient::Modern { gateway: &gateway, token: None };
    client.call("mcp__one__echo", json!({"text": "before"}));
    gateway.wait_until_ready();
    let parts = gateway.get("/readyz?verbose");
    assert!(
        parts.contains("[+] traffic: ok\n") && parts.contains("[+] servers: ok (1 conn"),
        "{parts}"
    );
    gateway.signal("-TERM");
    let draining = || gateway.get("/readyz").starts_with("HTTP/1.1 503 ").then_some(());
    wait_until(TIMEOUT, "it drains", draining);
    assert!(gateway.get("/readyz?verbose").contains("[-] traffic: not ready (draining)"));
    assert!(gateway.get("/healthz").starts_with("HTTP/1.1 200 "));
    let result = client.call("mcp__one__echo", json!({"text": "during"}));
    assert_eq!(result["content"][0]["text"], "during");
}
