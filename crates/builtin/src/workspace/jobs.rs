//! Commands while they run: started in groups of their own, listened to, ended in time. Those in the background have
//! a name, and end with their client at the latest.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use switchboard_wire::process::errand::{self, Errand};
use switchboard_wire::process::{Flock, Guard, GuardProgram, Keeping, Program, StartError};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::transcript::{Excerpt, Transcript};
use crate::refusal::Stop;

/// How many commands may run in the background, and how many that ended are remembered.
const MOST_RUNNING: usize = 16;
const MOST_REMEMBERED: usize = 32;
/// How long somebody who left a command's group may keep its output open once it has ended.
const DRAIN: Duration = Duration::from_millis(200);
/// Longer than any command may run.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// Runs a command and says at the end where it stands: `$1` is the command, `$2` the file to say it in.
const FOREGROUND: &str = "__swb=$2; set -- \"$1\"; trap 'pwd -P >\"$__swb\"' EXIT; eval \"$1\"";
/// The same for a command whose folder does not matter.
const BACKGROUND: &str = "eval \"$1\"";

/// The commands of one client.
pub(super) struct Jobs {
    guard_program: Option<GuardProgram>,
    /// Started with the first command.
    guard: OnceLock<Option<Guard>>,
    environment: Vec<(String, String)>,
    flock: Flock,
    started: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    jobs: BTreeMap<String, Job>,
    tasks: JoinSet<()>,
}

/// One command in the background.
struct Job {
    number: u64,
    command: String,
    transcript: Arc<Transcript>,
    ending: watch::Receiver<Option<Ending>>,
    kill: Arc<Notify>,
    /// How much of its output was given out.
    read: u64,
}

/// What to run.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) command: String,
    /// Where the shell stands.
    pub(super) folder: PathBuf,
    /// Where outputs lie.
    pub(super) outputs: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) by: By,
}

/// Who ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Itself.
    Itself,
    /// We, for it took too long.
    Timeout,
    /// We, for somebody wanted that.
    Request,
}

/// A command that ran while somebody waited.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) ending: Ending,
    pub(super) transcript: Transcript,
    /// Where it left the shell, where it says so.
    pub(super) folder: Option<PathBuf>,
}

/// What is new of a command in the background.
#[derive(Debug)]
pub(super) struct News {
    pub(super) command: String,
    pub(super) ending: Option<Ending>,
    pub(super) excerpt: Excerpt,
    pub(super) path: PathBuf,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jobs({})", self.table().jobs.len())
    }
}

impl Jobs {
    pub(super) fn new(guard: Option<GuardProgram>, environment: Vec<(String, String)>) -> Jobs {
        Jobs {
            guard_program: guard,
            guard: OnceLock::new(),
            environment,
            flock: Flock::new(),
            started: AtomicU64::new(0),
            table: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command and waits for its end. Dropping the future kills it.
    pub(super) async fn run(&self, order: &Order, within: Duration) -> Result<Ran, Stop> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let transcript = transcript(order, number)?;
        let folder_file = order.outputs.join(format!("folder-{number}"));
        let (said, errand) = self.start(order, FOREGROUND, &folder_file)?;
        let attending = attend(said, errand, &transcript, Until { within, kill: Arc::default() });
        let ending = attending.await;
        let folder = std::fs::read(&folder_file).ok().and_then(|bytes| folder_in(&bytes));
        let _never_made = std::fs::remove_file(&folder_file);
        Ok(Ran { ending, transcript, folder })
    }

    /// Starts a command in the background; comes back with its name.
    pub(super) fn begin(&self, order: &Order, within: Option<Duration>) -> Result<String, Stop> {
        let mut table = self.table();
        while table.tasks.try_join_next().is_some() {}
        if table.jobs.values().filter(|job| job.is_running()).count() >= MOST_RUNNING {
            return Err(Stop::failed(format!(
                "{MOST_RUNNING} commands run in the background already; end one with KillBash"
            )));
        }
        table.forget();
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let transcript = Arc::new(transcript(order, number)?);
        let (said, errand) = self.start(order, BACKGROUND, Path::new(""))?;
        let (tell, ending) = watch::channel(None);
        let kill = Arc::new(Notify::new());
        let until = Until { within: within.unwrap_or(FOREVER), kill: kill.clone() };
        let kept = transcript.clone();
        table.tasks.spawn(async move {
            let ending = attend(said, errand, &kept, until).await;
            let _nobody_asks = tell.send(Some(ending));
        });
        let name = format!("bash_{number}");
        let command = order.command.clone();
        let job = Job { number, command, transcript, ending, kill, read: 0 };
        table.jobs.insert(name.clone(), job);
        Ok(name)
    }

    /// What a command said since it was asked last, at most so much, and whether it has ended. Waits for its end,
    /// but no longer than that.
    pub(super) async fn news(
        &self,
        name: &str,
        patience: Duration,
        most: u64,
    ) -> Result<News, Stop> {
        let mut ending = self.find(name, |job| job.ending.clone())?;
        // One that is over, or gone, is not waited for.
        let _over_or_time_up = timeout(patience, ending.wait_for(Option::is_some)).await;
        self.find(name, |job| {
            // Asked first: what it says after that is for the next time.
            let ending = *job.ending.borrow();
            let (excerpt, next) = job.transcript.after(job.read, most);
            job.read = next;
            let path = job.transcript.path().to_owned();
            News { command: job.command.clone(), ending, excerpt, path }
        })
    }

    /// Ends a command in the background, and everybody whom it started. One that has ended already stays so.
    pub(super) async fn kill(&self, name: &str) -> Result<Ending, Stop> {
        let (mut ending, kill) = self.find(name, |job| (job.ending.clone(), job.kill.clone()))?;
        kill.notify_one();
        let ended = timeout(Duration::from_secs(10), ending.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(ending)) => ending.ok_or_else(|| Stop::failed("it cannot be ended")),
            Ok(Err(_)) | Err(_) => Err(Stop::failed(format!("`{name}` does not end"))),
        }
    }

    /// Ends everything that was started here, and waits until it is gone.
    pub(super) async fn end(&self) {
        let mut tasks = {
            let mut table = self.table();
            table.jobs.clear();
            std::mem::take(&mut table.tasks)
        };
        tasks.shutdown().await;
        if self.started.load(Ordering::Relaxed) > 0 {
            let flock = self.flock;
            let _found = tokio::task::spawn_blocking(move || flock.search()).await;
        }
    }

    fn find<T>(&self, name: &str, look: impl FnOnce(&mut Job) -> T) -> Result<T, Stop> {
        let mut table = self.table();
        if let Some(job) = table.jobs.get_mut(name) {
            return Ok(look(job));
        }
        let known: Vec<&str> = table.jobs.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        Err(Stop::failed(format!("there is no command `{name}` in the background ({known})")))
    }

    fn start(
        &self,
        order: &Order,
        script: &str,
        folder_file: &Path,
    ) -> Result<(Receiver, Errand), Stop> {
        let guard = self.guard.get_or_init(|| {
            self.guard_program.as_ref().and_then(|program| Guard::start(program).ok())
        });
        let keeping = Keeping { guard: guard.clone(), flock: self.flock, ..Keeping::default() };
        let env = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let mut program = Program {
            command: "bash".into(),
            args: vec![
                "-c".into(),
                script.into(),
                "bash".into(),
                order.command.as_str().into(),
                folder_file.into(),
            ],
            env: env.chain([("TERM".into(), "dumb".into())]).collect(),
            cwd: Some(order.folder.clone()),
        };
        let failed = |error: &StartError| {
            Stop::failed(format!("the shell cannot be started: {}", error.source))
        };
        match errand::send(&program, &keeping) {
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                program.command = "sh".into();
                errand::send(&program, &keeping).map_err(|error| failed(&error))
            }
            sent => sent.map_err(|error| failed(&error)),
        }
    }
}

impl Table {
    /// Makes room for one more: those that ended longest ago go, with their outputs.
    fn forget(&mut self) {
        while self.jobs.len() >= MOST_REMEMBERED {
            let ended = self.jobs.iter().filter(|(_, job)| !job.is_running());
            let Some(name) = ended.min_by_key(|(_, job)| job.number).map(|(name, _)| name.clone())
            else {
                return;
            };
            if let Some(job) = self.jobs.remove(&name) {
                let _gone_already = std::fs::remove_file(job.transcript.path());
            }
        }
    }
}

impl Job {
    fn is_running(&self) -> bool {
        self.ending.borrow().is_none()
    }
}

fn transcript(order: &Order, number: u64) -> Result<Transcript, Stop> {
    let path = order.outputs.join(format!("bash_{number}.txt"));
    Transcript::new(path)
        .map_err(|error| Stop::failed(format!("the output cannot be kept: {error}")))
}

fn folder_in(bytes: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= 4096)?;
    let folder = PathBuf::from(text.strip_suffix('\n').unwrap_or(text));
    folder.is_absolute().then_some(folder)
}

/// When a command is ended by us.
struct Until {
    within: Duration,
    kill: Arc<Notify>,
}

/// Listens to a command until it ends. Dropping the future kills it, and everybody whom it started.
async fn attend(
    mut said: Receiver,
    mut errand: Errand,
    transcript: &Transcript,
    until: Until,
) -> Ending {
    let deadline = Instant::now() + until.within;
    let mut buffer = vec![0; 64 * 1024];
    let mut is_open = true;
    let ended = loop {
        tokio::select! {
            biased;
            () = sleep_until(deadline) => break Err(By::Timeout),
            () = until.kill.notified() => break Err(By::Request),
            status = errand.ended() => break Ok(status.ok()),
            read = said.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => transcript.add(&buffer[..count]),
            },
        }
    };
    let (status, by) = match ended {
        Ok(status) => (status, By::Itself),
        Err(by) => (errand.stop().await.status, by),
    };
    let rest = async {
        while is_open {
            match said.read(&mut buffer).await {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => transcript.add(&buffer[..count]),
            }
        }
    };
    let _somebody_holds_it = timeout(DRAIN, rest).await;
    Ending {
        code: status.and_then(|it: ExitStatus| it.code()),
        signal: status.and_then(|it| it.signal()),
        by,
    }
}
