//! Fetches secrets that a configuration references: from a file, a command's output or the system keychain. Fetches
//! on use, with limits on time and size. Also stores them there. Errors never contain secrets.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use switchboard_config::problem::ReadFailure;
use switchboard_config::secret::Secret;
use switchboard_config::template::{ExpandedText, SecretReference, TextSegment};
use thiserror::Error;

use crate::sources::atomic_file;
use crate::sources::atomic_file::{FileChangeError, Privacy};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The timeout of a command that prints a secret. It may ask the user to touch a hardware key.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a secret.
const MAX_SECRET_BYTES: u64 = 65_536;

/// A secret could not be fetched.
#[derive(Debug, Error)]
#[error("could not fetch {}", .reference.masked())]
pub struct SecretError {
    /// The reference.
    pub reference: SecretReference,
    /// The reason.
    #[source]
    pub kind: SecretErrorKind,
}

/// Why a secret could not be fetched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretErrorKind {
    /// The file could not be read.
    #[error("the file {0}")]
    File(ReadFailure),
    /// The path is neither absolute nor below the home folder.
    #[error("the path must be absolute, or begin with `~/`")]
    Relative,
    /// The command could not be started.
    #[error("`{program}` could not be started")]
    Start {
        /// The program.
        program: &'static str,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// The command exited with a failure status.
    #[error("the command ended with {0}")]
    Failed(ExitStatus),
    /// The command did not exit in time.
    #[error("the command took longer than {} seconds", COMMAND_TIMEOUT.as_secs())]
    Timeout,
    /// The output is too large or not UTF-8.
    #[error("the secret is not UTF-8 text of at most {MAX_SECRET_BYTES} bytes")]
    Output,
    /// The output is empty.
    #[error("the secret is empty")]
    Empty,
    /// The file could not be written.
    #[error("the file cannot be written")]
    Write(#[source] Box<FileChangeError>),
    /// A command prints the secret, so it cannot be stored there.
    #[error("a command's output cannot be stored")]
    NotStorable,
    /// The file could not be deleted.
    #[error("the file cannot be deleted")]
    Delete(#[source] std::io::Error),
    /// What was stored is not what is there.
    #[error("it was not kept")]
    NotKept,
}

/// Replaces secret references in a text by their values.
pub fn reveal_text(text: &ExpandedText, home: &Path) -> Result<Secret, SecretError> {
    let mut revealed = String::new();
    for segment in text.segments() {
        match segment {
            TextSegment::Plain(plain) | TextSegment::Variable { value: plain, .. } => {
                revealed.push_str(plain);
            }
            TextSegment::Secret(reference) => {
                revealed.push_str(fetch_secret(reference, home)?.reveal())
            }
        }
    }
    Ok(Secret::new(revealed))
}

/// Fetches one secret, without trailing line endings.
pub fn fetch_secret(reference: &SecretReference, home: &Path) -> Result<Secret, SecretError> {
    let fetched = match reference {
        SecretReference::File(path) => read_secret_file(path, home),
        SecretReference::Command(command) => run_shell(command),
        SecretReference::Keychain(name) => read_keychain(name),
    };
    let fail = |kind| SecretError { reference: reference.clone(), kind };
    let mut value = fetched.map_err(fail)?;
    value.truncate(value.trim_end_matches(['\r', '\n']).len());
    if value.is_empty() {
        return Err(fail(SecretErrorKind::Empty));
    }
    Ok(Secret::new(value))
}

/// Stores a secret where a reference finds it, and reads it back.
pub fn store_secret(
    reference: &SecretReference,
    secret: &Secret,
    home: &Path,
) -> Result<(), SecretError> {
    let fail = |kind| SecretError { reference: reference.clone(), kind };
    let stored = match reference {
        SecretReference::File(path) => write_secret_file(path, secret, home),
        SecretReference::Keychain(name) => write_keychain(name, secret),
        SecretReference::Command(_) => Err(SecretErrorKind::NotStorable),
    };
    stored.map_err(fail)?;
    match fetch_secret(reference, home)?.reveal() == secret.reveal() {
        true => Ok(()),
        false => Err(fail(SecretErrorKind::NotKept)),
    }
}

/// Deletes a stored secret. One that is not there is no error.
pub fn delete_secret(reference: &SecretReference, home: &Path) -> Result<(), SecretError> {
    let deleted = match reference {
        SecretReference::File(path) => delete_secret_file(path, home),
        SecretReference::Keychain(name) => delete_from_keychain(name),
        SecretReference::Command(_) => Err(SecretErrorKind::NotStorable),
    };
    deleted.map_err(|kind| SecretError { reference: reference.clone(), kind })
}

fn delete_secret_file(path: &str, home: &Path) -> Result<(), SecretErrorKind> {
    let path = secret_path(path, home)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SecretErrorKind::Delete(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The platform's tool fails if there is no such entry, which is what was asked for.
fn delete_from_keychain(name: &str) -> Result<(), SecretErrorKind> {
    let outcome = match cfg!(target_os = "macos") {
        true => run_command(
            "security",
            &["delete-generic-password", "-s", "switchboard", "-a", name],
            "",
        ),
        false => run_command("secret-tool", &["clear", "service", "switchboard", "name", name], ""),
    };
    match outcome {
        Ok(_) | Err(SecretErrorKind::Failed(_)) => Ok(()),
        Err(kind) => Err(kind),
    }
}

fn write_secret_file(path: &str, secret: &Secret, home: &Path) -> Result<(), SecretErrorKind> {
    let path = secret_path(path, home)?;
    atomic_file::change(&path, Privacy::Owner, |_| Ok(format!("{}\n", secret.reveal())))
        .map_err(|error| SecretErrorKind::Write(Box::new(error)))?;
    Ok(())
}

/// The secret goes through standard input, because other users see the arguments of a process.
fn write_keychain(name: &str, secret: &Secret) -> Result<(), SecretErrorKind> {
    if cfg!(target_os = "macos") {
        let hex: String = secret.reveal().bytes().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("add-generic-password -U -s switchboard -a {name:?} -X {hex}\n");
        return run_command("security", &["-i"], &line).map(drop);
    }
    let label = format!("--label=Switchboard: {name}");
    let arguments = ["store", &label, "service", "switchboard", "name", name];
    run_command("secret-tool", &arguments, secret.reveal()).map(drop)
}

fn secret_path(path: &str, home: &Path) -> Result<PathBuf, SecretErrorKind> {
    let path = match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(path),
    };
    match path.is_absolute() {
        true => Ok(path),
        false => Err(SecretErrorKind::Relative),
    }
}

fn read_secret_file(path: &str, home: &Path) -> Result<String, SecretErrorKind> {
    let path = secret_path(path, home)?;
    match text_file::read_text(&path, AllowedFiles::RegularOnly).map_err(SecretErrorKind::File)? {
        FileContent::Absent => Err(SecretErrorKind::File(ReadFailure::NotFound)),
        FileContent::Text(text) if text.len() as u64 > MAX_SECRET_BYTES => {
            Err(SecretErrorKind::Output)
        }
        FileContent::Text(text) => Ok(text),
    }
}

fn run_shell(command: &str) -> Result<String, SecretErrorKind> {
    let (program, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    run_command(program, &[flag, command], "")
}

/// Uses the platform's own tool, so that a locked keychain prompts the user as usual.
fn read_keychain(name: &str) -> Result<String, SecretErrorKind> {
    if cfg!(target_os = "macos") {
        return run_command(
            "security",
            &["find-generic-password", "-s", "switchboard", "-w", "-a", name],
            "",
        );
    }
    run_command("secret-tool", &["lookup", "service", "switchboard", "name", name], "")
}

fn run_command(
    program: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, SecretErrorKind> {
    run_command_with_timeout(COMMAND_TIMEOUT, program, (arguments, input))
}

/// Runs a command and returns its output. Kills it and its descendants if it takes too long or prints too much.
fn run_command_with_timeout(
    timeout: Duration,
    program: &'static str,
    (arguments, input): (&[&str], &str),
) -> Result<String, SecretErrorKind> {
    let mut command = Command::new(program);
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.args(arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let start = |source| SecretErrorKind::Start { program, source };
    let deadline = Instant::now() + timeout;
    let mut child = command.spawn().map_err(start)?;
    let (stdin, input) = (child.stdin.take(), input.to_owned());
    let stdout = child.stdout.take();
    let (sender, stdout_receiver) = mpsc::sync_channel(1);
    let reader = std::thread::spawn(move || {
        // A program that does not want its input says so with its exit status.
        let _unread = stdin.map(|mut pipe| pipe.write_all(input.as_bytes()));
        let mut bytes = Vec::new();
        let read = stdout.map(|pipe| pipe.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes));
        let _receiver_timed_out = sender.send(read.and(Some(bytes)).unwrap_or_default());
    });
    let bytes = stdout_receiver.recv_timeout(timeout);
    let is_within_limit = bytes.as_ref().is_ok_and(|bytes| bytes.len() as u64 <= MAX_SECRET_BYTES);
    let exit_status =
        if is_within_limit { wait_for_exit(deadline, &mut child).map_err(start)? } else { None };
    if exit_status.is_none() {
        kill_group(&child);
    }
    let status = child.wait().map_err(start)?;
    let _ended_with_the_pipe = reader.join();
    let bytes = bytes.map_err(|_| SecretErrorKind::Timeout)?;
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return Err(SecretErrorKind::Output);
    }
    if exit_status.is_none() {
        return Err(SecretErrorKind::Timeout);
    }
    if !status.success() {
        return Err(SecretErrorKind::Failed(status));
    }
    String::from_utf8(bytes).map_err(|_| SecretErrorKind::Output)
}

/// Waits until the command exits: it may have closed its output and continue to run.
fn wait_for_exit(deadline: Instant, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    loop {
        let exit_status = child.try_wait()?;
        if exit_status.is_some() || Instant::now() >= deadline {
            return Ok(exit_status);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(unix)]
fn kill_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _already_gone = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: &Child) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reference: SecretReference, home: &Path, expected: Result<&str, &str>) {
        let found = fetch_secret(&reference, home);
        let found = found.as_ref().map(Secret::reveal).map_err(|error| error.kind.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_secret_file_is_read_below_home_or_by_its_full_path() {
        let home = tempfile::tempdir().expect("a temp folder");
        std::fs::write(home.path().join("token"), "canary\n").expect("a file");
        std::fs::write(home.path().join("empty"), "\n").expect("a file");
        let file = |path: &str| SecretReference::File(path.to_owned());
        check(file("~/token"), home.path(), Ok("canary"));
        check(file(&home.path().join("token").to_string_lossy()), home.path(), Ok("canary"));
        check(file("token"), home.path(), Err("the path must be absolute, or begin with `~/`"));
        check(file("~/none"), home.path(), Err("the file does not exist"));
        check(file("~/"), home.path(), Err("the file is a folder, not a file"));
        check(file("~/empty"), home.path(), Err("the secret is empty"));
    }

    #[test]
    fn a_command_prints_the_secret_and_its_failures_are_told_apart() {
        let home = Path::new("/");
        let command = |text: &str| SecretReference::Command(text.to_owned());
        check(command("printf 'can'; printf 'ary\n\n'"), home, Ok("canary"));
        check(
            command("echo canary >&2; exit 3"),
            home,
            Err("the command ended with exit status: 3"),
        );
        check(command("true"), home, Err("the secret is empty"));
        check(command("yes"), home, Err("the secret is not UTF-8 text of at most 65536 bytes"));
        check(
            command("printf '\\377'"),
            home,
            Err("the secret is not UTF-8 text of at most 65536 bytes"),
        );
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_whether_it_still_prints_or_not() {
        let timeout = Duration::from_millis(200);
        for script in
            ["sleep 1000", "sleep 1000 & echo canary", "echo canary; exec >&-; sleep 1000"]
        {
            let result = run_command_with_timeout(timeout, "sh", (&["-c", script], ""));
            assert!(matches!(result, Err(SecretErrorKind::Timeout)), "{script}: {result:?}");
        }
        assert!(matches!(
            run_command("no-such-program-anywhere", &[], ""),
            Err(SecretErrorKind::Start { .. })
        ));
    }

    #[test]
    fn an_error_shows_no_secret_of_the_command_either() {
        let reference = SecretReference::Command("false --password canary".to_owned());
        let error = fetch_secret(&reference, Path::new("/")).expect_err("it fails");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error} {error:?}");
    }

    #[test]
    fn secrets_are_put_into_the_text_around_them_and_do_not_print() {
        use std::collections::BTreeSet;
        use switchboard_config::template::{Environment, Template};
        let template = Template::parse("Bearer ${cmd:echo canary}!");
        let expanded = template.expand(&Environment::default(), &mut BTreeSet::new());
        let secret = reveal_text(&expanded, Path::new("/")).expect("it prints");
        assert_eq!(secret.reveal(), "Bearer canary!");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_stored_secret_is_read_back_and_only_its_owner_can_read_it() {
        let home = tempfile::tempdir().expect("a temp folder");
        let reference = SecretReference::File("~/secrets/s.KEY".to_owned());
        for value in ["canary", "another canary with $ and \"quotes\""] {
            store_secret(&reference, &Secret::new(value.to_owned()), home.path()).expect("stored");
            check(reference.clone(), home.path(), Ok(value));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &str| {
                let metadata = home.path().join(path).metadata().expect("it is there");
                metadata.permissions().mode() & 0o777
            };
            assert_eq!((mode("secrets"), mode("secrets/s.KEY")), (0o700, 0o600));
        }
        let command = SecretReference::Command("true".to_owned());
        let refused = store_secret(&command, &Secret::new("canary".to_owned()), home.path());
        assert!(matches!(refused.map_err(|it| it.kind), Err(SecretErrorKind::NotStorable)));
        let two_lines = store_secret(&reference, &Secret::new("canary\n".to_owned()), home.path());
        assert!(matches!(two_lines.map_err(|it| it.kind), Err(SecretErrorKind::NotKept)));
    }
}
