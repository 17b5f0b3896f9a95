//! A shared host and its clients in one process, with real programs.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use switchboard_share::client::{ClientError, ClientOptions, SharedHostClient};
use switchboard_share::host::{self, HostOptions};
use switchboard_share::protocol::{AttachRequest, Build, ClientInfo, ProgramLine, Reuse};
use switchboard_share::socket::HostFolder;
use switchboard_wire::connect::{AttachError, Attachment};
use switchboard_wire::process::Program;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// A host in a temporary folder.
struct TestHost {
    folder: tempfile::TempDir,
    task: JoinHandle<std::io::Result<()>>,
    _stop: oneshot::Sender<()>,
}

impl TestHost {
    fn start(linger: Duration) -> TestHost {
        let home = tempfile::tempdir().expect("a temp folder");
        let folder = HostFolder::create(&home.path().join("host")).expect("created");
        let lock = folder.try_lock().expect("no error").expect("it is free");
        let options = HostOptions {
            folder,
            lock: OwnedFd::from(lock),
            build: build(),
            watchdog: None,
            stderr_sink: Arc::new(|_| mpsc::channel(1).0),
            linger,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(host::run(options, async move {
            let _dropped = stopped.await;
        }));
        TestHost { folder: home, task, _stop: stop }
    }

    fn client(&self) -> SharedHostClient {
        let folder = self.folder.path().join("host");
        SharedHostClient::new(ClientOptions { folder, build: build(), launcher: None })
    }

    async fn attach(&self, script: &str, idle_seconds: u64) -> Result<Attachment, AttachError> {
        // The host binds its socket when its task first runs.
        while let Err(ClientError::NotRunning) = self.client().status().await {
            tokio::task::yield_now().await;
        }
        self.client().program(request(script, idle_seconds)).attach().await
    }
}

fn build() -> Build {
    Build { version: "1.0.0".to_owned(), written: 1 }
}

fn request(script: &str, idle_seconds: u64) -> AttachRequest {
    let program = Program {
        command: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        cwd: Some("/".into()),
    };
    AttachRequest {
        key: script.to_owned(),
        server: "s".to_owned(),
        fingerprint: "f".to_owned(),
        class: "workspace".to_owned(),
        program: ProgramLine::from(&program),
        idle_seconds,
        reuse: Reuse::Running,
        client: ClientInfo {
            pid: std::process::id(),
            command: "test".to_owned(),
            folder: "/".into(),
        },
    }
}

#[tokio::test]
async fn a_server_without_clients_ends_and_the_host_after_it() {
    let host = TestHost::start(Duration::from_secs(2));
    let attached = host.attach("cat > /dev/null", 0).await.expect("it starts");
    let (_, status) = host.client().status().await.expect("it runs");
    assert_eq!(status.programs.len(), 1);
    assert_eq!(status.programs[0].clients.len(), 1);
    drop(attached);
    timeout(LIMIT, host.task).await.expect("it ends").expect("no panic").expect("no error");
}

#[tokio::test]
async fn an_idle_server_stays_for_its_time() {
    let host = TestHost::start(LIMIT);
    let first = host.attach("cat > /dev/null", 600).await.expect("it starts");
    let pid = first.process.pid();
    drop(first);
    let second = host.attach("cat > /dev/null", 600).await.expect("it runs");
    assert_eq!(second.process.pid(), pid);
}

#[tokio::test]
async fn the_end_of_a_program_is_known_to_its_clients() {
    let host = TestHost::start(LIMIT);
    let mut attached = host
        .attach("echo greeting; echo no luck >&2; read line; exit 7", 0)
        .await
        .expect("it starts");
    attached.writer.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n").await.expect("sent");
    let mut rest = String::new();
    timeout(LIMIT, attached.reader.read_to_string(&mut rest))
        .await
        .expect("it ends")
        .expect("text");
    let exit = attached.process.exit().await.expect("it ended");
    assert_eq!(exit.status.and_then(|it| it.code()), Some(7));
    assert_eq!(String::from_utf8_lossy(&exit.stderr), "no luck\n");
    assert_eq!(exit.malformed.as_deref(), Some("greeting"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_detached_and_the_others_go_on() {
    let host = TestHost::start(LIMIT);
    // After the handshake and one more message, it changes its lists without end.
    let script = r#"read a; printf '{"jsonrpc":"2.0","id":1,"result":{}}\n'; read b
        while :; do printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'; done"#;
    let mut first = host.attach(script, 600).await.expect("it starts");
    let initialize = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n";
    first.writer.write_all(initialize).await.expect("sent");
    let mut line = String::new();
    timeout(LIMIT, first.reader.read_line(&mut line)).await.expect("an answer").expect("text");
    let _silent = host.attach(script, 600).await.expect("it joins");
    let go = b"{\"jsonrpc\":\"2.0\",\"method\":\"go\"}\n";
    first.writer.write_all(go).await.expect("sent");
    let reading = async {
        let mut buffer = vec![0; 1 << 16];
        while first.reader.read(&mut buffer).await.expect("it goes on") > 0 {}
    };
    let detached = async {
        while host.client().status().await.expect("it answers").1.programs[0].clients.len() == 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = reading => panic!("the client that reads was detached"),
        ended = timeout(LIMIT, detached) => ended.expect("the silent client is detached"),
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_reported_with_its_error() {
    let host = TestHost::start(LIMIT);
    let attached = host.attach("exit", 0).await;
    assert!(attached.is_ok(), "the shell is there");
    let mut missing = request("x", 0);
    missing.program = ProgramLine::from(&Program {
        command: "no-such-program-here".into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    });
    let error = host.client().program(missing).attach().await.expect_err("it does not exist");
    let AttachError::Start(error) = error else { panic!("{error}") };
    assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_request_that_is_not_valid_gets_an_error_and_the_host_goes_on() {
    let host = TestHost::start(LIMIT);
    drop(host.attach("cat > /dev/null", 600).await.expect("it starts"));
    let folder = HostFolder::open(&host.folder.path().join("host")).expect("it is ours");
    let mut stream = folder.connect().await.expect("it listens");
    stream.write_all(b"{\"protocol\": \"x\"}\n").await.expect("sent");
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.expect("an answer").expect("text");
    assert!(answer.contains("\"invalid\""), "{answer}");
    assert!(host.client().status().await.is_ok());
}

#[tokio::test]
async fn a_newer_client_is_told_that_the_host_is_older() {
    let host = TestHost::start(LIMIT);
    drop(host.attach("cat > /dev/null", 600).await.expect("it starts"));
    let folder = host.folder.path().join("host");
    let newer = Build { version: "1.0.0".to_owned(), written: 2 };
    let client = SharedHostClient::new(ClientOptions { folder, build: newer, launcher: None });
    let error = client.program(request("cat > /dev/null", 0)).attach().await.expect_err("older");
    assert!(error.to_string().contains("another build"), "{error}");
}
