//! The client of a shared host: finds it, starts it where that is allowed, and attaches to the programs that it runs.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use switchboard_wire::connect::{
    AttachError, Attachment, NotSharedCause, SharedExit, SharedProcess, SharedProgram,
};
use switchboard_wire::process::{Program, StartError};
use switchboard_wire::protocol::era::Era;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use crate::protocol::{
    AttachRequest, Build, HostStatus, MAX_LINE, PROTOCOL, Request, RequestLine, Response,
    ResponseLine,
};
use crate::socket::{FolderError, HostFolder, SOCKET};

/// How long a host may take to listen after it was started.
const START_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a client tries to connect meanwhile.
const START_INTERVAL: Duration = Duration::from_millis(5);
/// How long a host may take to listen before another one is started.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer may take. Attaching may have to wait for another client's handshake.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

/// How a client uses the shared host. Clones share it.
#[derive(Clone)]
pub struct SharedHostClient(Arc<ClientOptions>);

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The folder of the socket.
    pub folder: PathBuf,
    /// The build of this process.
    pub build: Build,
    /// Starts a host if none runs; `None` uses one that runs and starts none.
    pub launcher: Option<HostLauncher>,
}

/// The command that starts a host.
#[derive(Debug, Clone)]
pub struct HostLauncher {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
}

/// The shared host cannot be used.
#[derive(Debug, Error)]
pub enum ClientError {
    /// None runs, and this process starts none.
    #[error("no shared host runs")]
    NotRunning,
    /// The folder of the socket is not safe.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It did not start in time.
    #[error("the shared host did not start within {} s", START_TIMEOUT.as_secs())]
    NotStarted,
    /// It is of another version.
    #[error("the shared host is of another build ({host}); this one is {client}")]
    OtherBuild {
        /// The build of the host.
        host: Box<Build>,
        /// The build of this process.
        client: Box<Build>,
    },
    /// It did not answer.
    #[error("the shared host did not answer")]
    Io(#[from] io::Error),
}

impl fmt::Debug for SharedHostClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedHostClient({})", self.0.folder.display())
    }
}

impl SharedHostClient {
    /// A client with these options.
    pub fn new(options: ClientOptions) -> SharedHostClient {
        SharedHostClient(Arc::new(options))
    }

    /// The build of this process.
    pub fn build(&self) -> &Build {
        &self.0.build
    }

    /// The folder of the socket.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.0.folder.join(SOCKET)
    }

    /// A program that the shared host runs, for [`Address::Shared`](switchboard_wire::connect::Address::Shared).
    pub fn program(&self, request: AttachRequest) -> Arc<dyn SharedProgram> {
        Arc::new(AttachableProgram { client: self.clone(), request })
    }

    /// The build of the host and what it runs.
    pub async fn status(&self) -> Result<(Build, HostStatus), ClientError> {
        let mut stream = self.connect_running().await?;
        match self.exchange(&mut stream, Request::Status, ANSWER_TIMEOUT).await? {
            ResponseLine { build, response: Response::Status(status), .. } => Ok((build, *status)),
            ResponseLine { build, .. } => Err(self.other_build(build)),
        }
    }

    /// Ends the host with all servers, and waits until its process has ended. Returns whether it ended in time.
    pub async fn stop(&self, process: u32, limit: Duration) -> Result<bool, ClientError> {
        let folder = HostFolder::open(&self.0.folder)?;
        let mut stream = self.connect_running().await?;
        let line = self.exchange(&mut stream, Request::Stop, ANSWER_TIMEOUT).await?;
        match line.response {
            Response::Done => {
                let deadline = Instant::now() + limit;
                // It holds the lock until it has ended; another one may have taken over since.
                while folder.try_lock()?.is_none() && !self.is_replaced(process).await {
                    if Instant::now() >= deadline {
                        return Ok(false);
                    }
                    sleep(START_INTERVAL).await;
                }
                Ok(true)
            }
            Response::Attached { .. }
            | Response::NotStarted { .. }
            | Response::NotShareable { .. }
            | Response::Outdated
            | Response::Exit(_)
            | Response::Status(_)
            | Response::Invalid { .. } => Err(self.other_build(line.build)),
        }
    }

    /// Whether another process is the host now.
    async fn is_replaced(&self, process: u32) -> bool {
        self.status().await.is_ok_and(|(_, status)| status.pid != process)
    }

    fn other_build(&self, host: Build) -> ClientError {
        ClientError::OtherBuild { host: Box::new(host), client: Box::new(self.0.build.clone()) }
    }

    async fn attach(
        &self,
        request: &AttachRequest,
    ) -> Result<(HostStream, ResponseLine), ClientError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let mut stream = self.connect_or_start(deadline).await?;
            let attach = Request::Attach(Box::new(request.clone()));
            let line = match self.exchange(&mut stream, attach, ATTACH_TIMEOUT).await {
                // It ended after it had accepted the connection. Attaching again does no harm.
                Err(ClientError::NotRunning) if Instant::now() < deadline => {
                    sleep(START_INTERVAL).await;
                    continue;
                }
                answered => answered?,
            };
            if !matches!(line.response, Response::Outdated) {
                return Ok((stream, line));
            }
            // A host that is older than this process makes room for a new one; others keep a newer one.
            let may_replace = self.0.launcher.is_some() && !line.build.is_newer_than(&self.0.build);
            if !may_replace || Instant::now() >= deadline {
                return Err(self.other_build(line.build));
            }
            if self.0.build.is_newer_than(&line.build) {
                info!(host = %line.build, client = %self.0.build, "asking an older host to retire");
                let mut stream = self.connect_running().await?;
                let _answer = self.exchange(&mut stream, Request::Retire, ANSWER_TIMEOUT).await?;
            }
            sleep(START_INTERVAL).await;
        }
    }

    async fn connect_running(&self) -> Result<HostStream, ClientError> {
        if !self.0.folder.exists() {
            return Err(ClientError::NotRunning);
        }
        let folder = HostFolder::open(&self.0.folder)?;
        match folder.connect().await {
            Ok(stream) => Ok(HostStream::new(stream)),
            Err(error) if is_absent(&error) => Err(ClientError::NotRunning),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects; starts a host if none runs. Of several processes that try, the one that gets the lock starts it.
    async fn connect_or_start(&self, deadline: Instant) -> Result<HostStream, ClientError> {
        match self.connect_running().await {
            Err(ClientError::NotRunning) => {}
            other => return other,
        }
        let Some(launcher) = &self.0.launcher else { return Err(ClientError::NotRunning) };
        let folder = HostFolder::create(&self.0.folder)?;
        let mut last_start: Option<Instant> = None;
        loop {
            match folder.connect().await {
                Ok(stream) => return Ok(HostStream::new(stream)),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error.into()),
            }
            // A host that ended at once is not started again and again.
            if last_start.is_none_or(|it| it.elapsed() >= RESTART_INTERVAL)
                && let Some(lock) = folder.try_lock()?
            {
                launcher.start(lock)?;
                last_start = Some(Instant::now());
            }
            if Instant::now() >= deadline {
                return Err(ClientError::NotStarted);
            }
            sleep(START_INTERVAL).await;
        }
    }

    async fn exchange(
        &self,
        stream: &mut HostStream,
        request: Request,
        limit: Duration,
    ) -> Result<ResponseLine, ClientError> {
        let line =
            RequestLine { protocol: PROTOCOL, build: self.0.build.clone(), request: Some(request) };
        let exchanged = timeout(limit, stream.exchange(&line)).await;
        match exchanged.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Err(error) if is_gone(&error) => Err(ClientError::NotRunning),
            exchanged => Ok(exchanged?),
        }
    }

    async fn exit(&self, program: u64) -> Result<Option<SharedExit>, ClientError> {
        let mut stream = self.connect_running().await?;
        let line = self.exchange(&mut stream, Request::Exit { program }, ANSWER_TIMEOUT).await?;
        let Response::Exit(exit) = line.response else { return Ok(None) };
        Ok(exit.map(|it| SharedExit {
            status: it.status.map(SharedExit::status_from_raw),
            stderr: it.stderr.into_bytes(),
            malformed: it.malformed,
        }))
    }
}

/// Whether no process listens at the socket.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Whether the process at the other end of a stream has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}

impl HostLauncher {
    /// Starts a host, which takes over the lock as its standard input. It holds the lock for as long as it runs.
    fn start(&self, lock: std::fs::File) -> io::Result<()> {
        debug!("starting a shared host");
        let child = Command::new(&self.command)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // It outlives this process; the runtime collects it if it ends before.
        drop(child);
        Ok(())
    }
}

struct HostStream {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl HostStream {
    fn new(stream: tokio::net::UnixStream) -> HostStream {
        let (reader, writer) = stream.into_split();
        HostStream { reader: BufReader::new(reader), writer }
    }

    async fn exchange(&mut self, request: &RequestLine) -> io::Result<ResponseLine> {
        let mut line = serde_json::to_vec(request).map_err(io::Error::other)?;
        line.push(b'\n');
        self.writer.write_all(&line).await?;
        let mut answer = String::new();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        if (&mut self.reader).take(limit).read_line(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&answer).map_err(io::Error::other)
    }
}

/// A program to attach to.
struct AttachableProgram {
    client: SharedHostClient,
    request: AttachRequest,
}

impl SharedProgram for AttachableProgram {
    fn attach(&self) -> BoxFuture<'_, Result<Attachment, AttachError>> {
        Box::pin(async move {
            let not_shared = |reason: String, cause| AttachError::NotShared { reason, cause };
            let (stream, line) = self.client.attach(&self.request).await.map_err(|error| {
                let mut reason = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    reason = format!("{reason}: {error}");
                    cause = error.source();
                }
                not_shared(reason, NotSharedCause::Host)
            })?;
            match line.response {
                Response::Attached { program, pid, era } => {
                    let era = era.as_deref().and_then(Era::parse);
                    let process =
                        Arc::new(RemoteProcess { client: self.client.clone(), program, pid });
                    Ok(Attachment { reader: stream.reader, writer: stream.writer, era, process })
                }
                Response::NotStarted { errno } => {
                    let command = Program::from(self.request.program.clone()).command;
                    let source = match errno {
                        Some(errno) => io::Error::from_raw_os_error(errno),
                        None => io::ErrorKind::Other.into(),
                    };
                    Err(AttachError::Start(StartError { command, source }))
                }
                Response::NotShareable { reason } => {
                    Err(not_shared(reason, NotSharedCause::Server))
                }
                Response::Invalid { reason } => Err(not_shared(reason, NotSharedCause::Host)),
                Response::Outdated | Response::Exit(_) | Response::Status(_) | Response::Done => {
                    let reason = "the shared host gave another answer".to_owned();
                    Err(not_shared(reason, NotSharedCause::Host))
                }
            }
        })
    }
}

/// The process of an attached program.
#[derive(Debug)]
struct RemoteProcess {
    client: SharedHostClient,
    program: u64,
    pid: Option<u32>,
}

impl SharedProcess for RemoteProcess {
    fn pid(&self) -> Option<u32> {
        self.pid
    }

    fn exit(&self) -> BoxFuture<'_, Option<SharedExit>> {
        Box::pin(async move { self.client.exit(self.program).await.ok().flatten() })
    }
}
