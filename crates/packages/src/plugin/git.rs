//! Runs `git` to fetch one commit of a repository. A repository is untrusted: none of its hooks and filters runs, its
//! submodules are not fetched, and no text of it or of a marketplace is ever an option.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use switchboard_config::plugin::GitSource;
use switchboard_wire::process::child::ProcessGroupGuard;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// The timeout of one run.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How much of git's messages is kept.
const MAX_MESSAGE: u64 = 16 * 1024;
/// Variables of git that say how to reach a repository, and nothing else.
const KEPT_VARIABLES: [&str; 8] = [
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
];
/// Settings that take precedence over those of the user and of the repository.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
];
/// Allowed in addition for a repository that the user named, or that is on this machine like its marketplace.
const LOCAL_SETTINGS: [&str; 2] = ["protocol.file.allow=always", "protocol.http.allow=always"];

/// The program `git` and its environment.
#[derive(Debug, Clone)]
pub struct GitProgram {
    /// The program.
    pub program: PathBuf,
    /// Its environment.
    pub variables: BTreeMap<String, String>,
}

/// How far a repository's URL may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitReach {
    /// The user named it: redirects of its host are followed, and it may be on this machine.
    Typed,
    /// A marketplace of this machine named it: it may be on this machine too.
    LocalMarketplace,
    /// A marketplace from elsewhere named it.
    Named,
}

/// A run of git failed.
#[derive(Debug, Error)]
pub enum GitError {
    /// The program could not be started.
    #[error("the program `git` could not be started")]
    Start(#[source] io::Error),
    /// It did not end.
    #[error("git did not end within {} seconds", TIMEOUT.as_secs())]
    TimedOut,
    /// It failed. The message is git's own, and untrusted text.
    #[error("git {step} failed: {message}")]
    Failed {
        /// The command of git.
        step: &'static str,
        /// What git says.
        message: String,
    },
    /// The repository has another commit than the marketplace announced.
    #[error("the repository has the commit {found}, and not {expected}")]
    OtherCommit {
        /// The announced commit.
        expected: String,
        /// The commit that was fetched.
        found: String,
    },
}

impl GitProgram {
    /// Fetches one commit into an empty folder, and returns its hash.
    pub(super) async fn fetch(
        &self,
        source: &GitSource,
        reach: GitReach,
        folder: &Path,
    ) -> Result<String, GitError> {
        let url = source.origin.clone_url();
        let path = folder.to_string_lossy().into_owned();
        let words = ["init", "--quiet", "--template=", "--", &path];
        self.run("init", (GitConfig::None, reach), None, &words).await?;
        let wanted = source.reference.as_deref().unwrap_or("HEAD");
        let fetch = async |depth: &str, what: &str| {
            let words = [
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-recurse-submodules",
                depth,
                "--",
                &url,
                what,
            ];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            self.run("fetch", (GitConfig::OfUser, reach), Some(folder), &words).await
        };
        let commit = match &source.sha {
            None => {
                fetch("--depth=1", wanted).await?;
                "FETCH_HEAD".to_owned()
            }
            Some(sha) => {
                if fetch("--depth=1", sha).await.is_err() {
                    // Not every host serves single commits.
                    fetch("", wanted).await?;
                }
                sha.clone()
            }
        };
        let words = ["checkout", "--quiet", "--detach", "--no-recurse-submodules", &commit, "--"];
        self.run("checkout", (GitConfig::None, reach), Some(folder), &words).await?;
        let words = ["rev-parse", "--verify", "HEAD"];
        let found = self.run("rev-parse", (GitConfig::None, reach), Some(folder), &words).await?;
        let found = found.trim().to_owned();
        match &source.sha {
            Some(expected) if *expected != found => {
                Err(GitError::OtherCommit { expected: expected.clone(), found })
            }
            Some(_) | None => Ok(found),
        }
    }

    async fn run(
        &self,
        step: &'static str,
        (config, reach): (GitConfig, GitReach),
        folder: Option<&Path>,
        words: &[&str],
    ) -> Result<String, GitError> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.environment(config));
        for setting in self.settings(reach) {
            command.args(["-c", setting]);
        }
        if let Some(folder) = folder {
            command.arg("--git-dir").arg(folder.join(".git")).arg("--work-tree").arg(folder);
            command.current_dir(folder);
        }
        let mut group = ProcessGroupGuard::prepare(&mut command);
        let mut child = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(GitError::Start)?;
        group.attach(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let finished = async {
            let (stdout, stderr) = tokio::join!(read_bounded(stdout), read_bounded(stderr));
            (child.wait().await, stdout, stderr)
        };
        let Ok((status, stdout, stderr)) = timeout(TIMEOUT, finished).await else {
            return Err(GitError::TimedOut);
        };
        match status.map_err(GitError::Start)?.success() {
            true => Ok(stdout),
            false => Err(GitError::Failed { step, message: stderr.trim().to_owned() }),
        }
    }

    fn settings(&self, reach: GitReach) -> Vec<&'static str> {
        let mut settings = SETTINGS.to_vec();
        match reach {
            GitReach::Typed => {
                settings.extend(LOCAL_SETTINGS);
                settings.push("http.followRedirects=initial");
            }
            GitReach::LocalMarketplace => {
                settings.extend(LOCAL_SETTINGS);
                settings.push("http.followRedirects=false");
            }
            GitReach::Named => settings.push("http.followRedirects=false"),
        }
        settings
    }

    fn environment(&self, config: GitConfig) -> BTreeMap<String, String> {
        let is_kept = |name: &str| !name.starts_with("GIT_") || KEPT_VARIABLES.contains(&name);
        let mut variables: BTreeMap<String, String> = self.variables.clone();
        variables.retain(|name, _| is_kept(name));
        let mut set = |name: &str, value: &str| variables.insert(name.to_owned(), value.to_owned());
        set("GIT_TERMINAL_PROMPT", "0");
        set("GIT_LFS_SKIP_SMUDGE", "1");
        set("GIT_ATTR_NOSYSTEM", "1");
        // Messages are shown to users; tests and scripts need one language.
        set("LC_ALL", "C");
        match config {
            GitConfig::OfUser => {}
            GitConfig::None => {
                set("GIT_CONFIG_NOSYSTEM", "1");
                set("GIT_CONFIG_GLOBAL", "/dev/null");
            }
        }
        variables
    }
}

/// Whose configuration git reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitConfig {
    /// The user's, which knows credentials and proxies.
    OfUser,
    /// None, so that no filter is defined that a repository could name.
    None,
}

async fn read_bounded(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut bytes = Vec::new();
    // An unreadable message is an empty one.
    let _read = (&mut from).take(MAX_MESSAGE).read_to_end(&mut bytes).await;
    let _discarded = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
