//! The commands of one client: run in their own process groups, with a timeout. Background commands have a name
//! and end with their client at the latest.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use switchboard_wire::process::SetDescendants;
use switchboard_wire::process::child::{
    ProcessOptions, ProcessSet, Program, StartError, Watchdog, WatchdogProgram,
};
use switchboard_wire::process::command as process_command;
use switchboard_wire::process::command::{RunningCommand, Supervision};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::command::{
    BACKGROUND_SCRIPT, CommandResult, CommandSpec, FOREGROUND_SCRIPT, JobExit, StopConditions,
    wait_for_exit,
};
use super::output_log::{Excerpt, OutputLog};
use crate::kit::handler_error::HandlerError;

/// Limits for running background commands, and for remembered ones.
const MAX_RUNNING: usize = 16;
const MAX_REMEMBERED: usize = 32;
/// Longer than any command may run.
const MAX_BACKGROUND_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// The commands of one client.
pub(crate) struct Jobs {
    watchdog_program: Option<WatchdogProgram>,
    /// Started with the first command.
    watchdog: OnceLock<Option<Watchdog>>,
    environment: Vec<(String, String)>,
    descendants: ProcessSet,
    next_number: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    jobs: BTreeMap<String, Job>,
    tasks: JoinSet<()>,
}

/// A background command.
struct Job {
    number: u64,
    command: String,
    output: Arc<OutputLog>,
    exit: watch::Receiver<Option<JobExit>>,
    kill: Arc<Notify>,
    /// How much of the output was returned.
    read_offset: u64,
}

/// New output of a background command.
#[derive(Debug)]
pub(crate) struct JobUpdate {
    pub(crate) command: String,
    pub(crate) exit: Option<JobExit>,
    pub(crate) excerpt: Excerpt,
    pub(crate) output_path: PathBuf,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jobs({})", self.table().jobs.len())
    }
}

impl Jobs {
    pub(crate) fn new(
        watchdog: Option<WatchdogProgram>,
        environment: Vec<(String, String)>,
    ) -> Jobs {
        Jobs {
            watchdog_program: watchdog,
            watchdog: OnceLock::new(),
            environment,
            descendants: ProcessSet::new(),
            next_number: AtomicU64::new(0),
            table: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command and waits for its end. Dropping the future kills it.
    pub(crate) async fn run(
        &self,
        spec: &CommandSpec,
        timeout: Duration,
    ) -> Result<CommandResult, HandlerError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed) + 1;
        let output = create_output_log(spec, number)?;
        let folder_file = spec.output_dir.join(format!("folder-{number}"));
        let (pipe, command) = self.spawn_shell(spec, FOREGROUND_SCRIPT, &folder_file)?;
        let waiting =
            wait_for_exit(pipe, command, &output, StopConditions { timeout, kill: Arc::default() });
        let exit = waiting.await;
        let folder = std::fs::read(&folder_file).ok().and_then(|bytes| parse_working_dir(&bytes));
        let _never_made = std::fs::remove_file(&folder_file);
        Ok(CommandResult { exit, output, working_dir: folder })
    }

    /// Starts a background command and returns its name.
    pub(crate) fn start_background(
        &self,
        spec: &CommandSpec,
        timeout: Option<Duration>,
    ) -> Result<String, HandlerError> {
        let mut table = self.table();
        while table.tasks.try_join_next().is_some() {}
        if table.jobs.values().filter(|job| job.is_running()).count() >= MAX_RUNNING {
            return Err(HandlerError::failed(format!(
                "{MAX_RUNNING} commands run in the background already; end one with KillBash"
            )));
        }
        table.evict_finished();
        let number = self.next_number.fetch_add(1, Ordering::Relaxed) + 1;
        let output = Arc::new(create_output_log(spec, number)?);
        let (pipe, command) = self.spawn_shell(spec, BACKGROUND_SCRIPT, Path::new(""))?;
        let (tell, exit) = watch::channel(None);
        let kill = Arc::new(Notify::new());
        let stop_conditions =
            StopConditions { timeout: timeout.unwrap_or(MAX_BACKGROUND_TIME), kill: kill.clone() };
        let log = output.clone();
        table.tasks.spawn(async move {
            let exit = wait_for_exit(pipe, command, &log, stop_conditions).await;
            let _no_receiver = tell.send(Some(exit));
        });
        let name = format!("bash_{number}");
        let command = spec.command.clone();
        let job = Job { number, command, output, exit, kill, read_offset: 0 };
        table.jobs.insert(name.clone(), job);
        Ok(name)
    }

    /// The output of a command since the last call, up to a size, and whether it has ended. Waits for its end,
    /// up to `wait`.
    pub(crate) async fn read_update(
        &self,
        name: &str,
        wait: Duration,
        max_bytes: u64,
    ) -> Result<JobUpdate, HandlerError> {
        let mut exit = self.with_job(name, |job| job.exit.clone())?;
        // A finished or removed command is not waited for.
        let _over_or_time_up = timeout(wait, exit.wait_for(Option::is_some)).await;
        self.with_job(name, |job| {
            // Read the exit first: later output belongs to the next call.
            let exit = *job.exit.borrow();
            let (excerpt, next) = job.output.read_from(job.read_offset, max_bytes);
            job.read_offset = next;
            let path = job.output.path().to_owned();
            JobUpdate { command: job.command.clone(), exit, excerpt, output_path: path }
        })
    }

    /// Kills a background command and its descendants. A finished command stays as it is.
    pub(crate) async fn kill(&self, name: &str) -> Result<JobExit, HandlerError> {
        let (mut exit, kill) = self.with_job(name, |job| (job.exit.clone(), job.kill.clone()))?;
        kill.notify_one();
        let ended = timeout(Duration::from_secs(10), exit.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(exit)) => exit.ok_or_else(|| HandlerError::failed("it could not be ended")),
            Ok(Err(_)) | Err(_) => Err(HandlerError::failed(format!("`{name}` does not end"))),
        }
    }

    /// Kills all commands and waits for them.
    pub(crate) async fn shut_down(&self) {
        let mut tasks = {
            let mut table = self.table();
            table.jobs.clear();
            std::mem::take(&mut table.tasks)
        };
        let process_set = self.descendants;
        let has_run = self.next_number.load(Ordering::Relaxed) > 0;
        let finding = move || has_run.then(|| SetDescendants::find(process_set));
        let descendants = tokio::task::spawn_blocking(finding).await;
        tasks.shutdown().await;
        if let Ok(Some(descendants)) = descendants {
            let _panicked = tokio::task::spawn_blocking(move || descendants.kill()).await;
        }
    }

    fn with_job<T>(
        &self,
        name: &str,
        action: impl FnOnce(&mut Job) -> T,
    ) -> Result<T, HandlerError> {
        let mut table = self.table();
        if let Some(job) = table.jobs.get_mut(name) {
            return Ok(action(job));
        }
        let known: Vec<&str> = table.jobs.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        Err(HandlerError::failed(format!("there is no background command `{name}` ({known})")))
    }

    fn spawn_shell(
        &self,
        spec: &CommandSpec,
        script: &str,
        folder_file: &Path,
    ) -> Result<(Receiver, RunningCommand), HandlerError> {
        let watchdog = self.watchdog.get_or_init(|| {
            self.watchdog_program.as_ref().and_then(|program| Watchdog::start(program).ok())
        });
        let options = ProcessOptions {
            watchdog: watchdog.clone(),
            process_set: self.descendants,
            ..ProcessOptions::default()
        };
        let env = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let mut program = Program {
            command: "bash".into(),
            args: vec![
                "-c".into(),
                script.into(),
                "bash".into(),
                spec.command.as_str().into(),
                folder_file.into(),
            ],
            env: env.chain([("TERM".into(), "dumb".into())]).collect(),
            cwd: Some(spec.working_dir.clone()),
        };
        let failed = |error: &StartError| {
            HandlerError::failed(format!("the shell cannot be started: {}", error.source))
        };
        let supervision = match &self.watchdog_program {
            Some(program) => Supervision::Supervised(program),
            None => Supervision::Unsupervised,
        };
        match process_command::spawn(&program, &options, supervision) {
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                program.command = "sh".into();
                let spawned = process_command::spawn(&program, &options, supervision);
                spawned.map_err(|error| failed(&error))
            }
            spawned => spawned.map_err(|error| failed(&error)),
        }
    }
}

impl Table {
    /// Makes room for one more job: removes the oldest finished ones with their outputs.
    fn evict_finished(&mut self) {
        while self.jobs.len() >= MAX_REMEMBERED {
            let ended = self.jobs.iter().filter(|(_, job)| !job.is_running());
            let Some(name) = ended.min_by_key(|(_, job)| job.number).map(|(name, _)| name.clone())
            else {
                return;
            };
            if let Some(job) = self.jobs.remove(&name) {
                let _gone_already = std::fs::remove_file(job.output.path());
            }
        }
    }
}

impl Job {
    fn is_running(&self) -> bool {
        self.exit.borrow().is_none()
    }
}

fn create_output_log(spec: &CommandSpec, number: u64) -> Result<OutputLog, HandlerError> {
    let path = spec.output_dir.join(format!("bash_{number}.txt"));
    OutputLog::new(path)
        .map_err(|error| HandlerError::failed(format!("the output cannot be stored: {error}")))
}

fn parse_working_dir(bytes: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= 4096)?;
    let folder = PathBuf::from(text.strip_suffix('\n').unwrap_or(text));
    folder.is_absolute().then_some(folder)
}
