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
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

use super::tree::{TreeError, TreeLimits};

/// The timeout of one run.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How much of git's messages is kept.
const MAX_MESSAGE: u64 = 16 * 1024;
/// How long a line of git about one file may be.
const MAX_TREE_LINE: usize = 64 * 1024;
/// How often the size of a repository is checked while git runs.
const SIZE_INTERVAL: Duration = Duration::from_millis(200);
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
    /// How much a repository may contain.
    pub limits: RepositoryLimits,
}

/// How much of a repository is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepositoryLimits {
    /// The files of the commit.
    pub tree: TreeLimits,
    /// The size of everything that git writes while it fetches, in bytes.
    pub fetched: u64,
}

impl Default for RepositoryLimits {
    fn default() -> RepositoryLimits {
        RepositoryLimits { tree: TreeLimits::default(), fetched: 1024 * 1024 * 1024 }
    }
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
    /// Git wrote more than a repository may have.
    #[error("the repository is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The files of the commit are too many or too large.
    #[error("the files of the repository cannot be used")]
    Tree(#[source] TreeError),
    /// Git does not say what the commit contains.
    #[error("git does not list the files of the repository")]
    Listing,
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
        self.text("init", GitRun { config: GitConfig::None, reach, folder: None }, &words).await?;
        let of_user = GitRun { config: GitConfig::OfUser, reach, folder: Some(folder) };
        let of_none = GitRun { config: GitConfig::None, ..of_user };
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
            self.text("fetch", of_user, &words).await
        };
        let commit = match &source.sha {
            None => {
                fetch("--depth=1", wanted).await?;
                "FETCH_HEAD".to_owned()
            }
            Some(sha) => {
                match fetch("--depth=1", sha).await {
                    Ok(_) => {}
                    // Not every host serves single commits.
                    Err(GitError::Failed { .. }) => drop(fetch("", wanted).await?),
                    Err(error) => return Err(error),
                }
                sha.clone()
            }
        };
        self.check_tree(of_none, &commit).await?;
        let words = ["checkout", "--quiet", "--detach", "--no-recurse-submodules", &commit, "--"];
        self.text("checkout", of_none, &words).await?;
        let words = ["rev-parse", "--verify", "HEAD"];
        let found = self.text("rev-parse", of_none, &words).await?;
        let found = found.trim().to_owned();
        match &source.sha {
            Some(expected) if *expected != found => {
                Err(GitError::OtherCommit { expected: expected.clone(), found })
            }
            Some(_) | None => Ok(found),
        }
    }

    /// Checks how many files a commit has and how large they are, before any of them is written. A small repository can
    /// describe billions of files.
    async fn check_tree(&self, run: GitRun<'_>, commit: &str) -> Result<(), GitError> {
        let limits = self.limits.tree;
        // Folders as well: a tree of empty folders is read for a very long time.
        let words = ["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit, "--"];
        // What git cannot list, it cannot check out either, and says there why.
        match self.run("ls-tree", run, &words, async |from| count_tree(from, limits).await).await {
            Err(GitError::Failed { .. }) => Ok(()),
            listed => listed,
        }
    }

    async fn text(
        &self,
        step: &'static str,
        run: GitRun<'_>,
        words: &[&str],
    ) -> Result<String, GitError> {
        self.run(step, run, words, async |from| Ok(read_bounded(from).await)).await
    }

    async fn run<T>(
        &self,
        step: &'static str,
        GitRun { config, reach, folder }: GitRun<'_>,
        words: &[&str],
        read: impl AsyncFnOnce(Option<ChildStdout>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
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
            let (output, stderr) = tokio::join!(read(stdout), read_bounded(stderr));
            (child.wait().await, output, stderr)
        };
        // A checkout adds the files, whose size was checked.
        let limit = self.limits.fetched.saturating_add(self.limits.tree.size);
        let (status, output, stderr) = tokio::select! {
            biased;
            finished = timeout(TIMEOUT, finished) => finished.map_err(|_| GitError::TimedOut)?,
            () = outgrown(folder, limit) => return Err(GitError::TooLarge { limit }),
        };
        // It was refused, and git then fails to write more of it.
        let output = output?;
        match status.map_err(GitError::Start)?.success() {
            true => Ok(output),
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
        // Git runs in the repository's folder, whose files are no programs of the user.
        if let Some(path) = variables.get_mut("PATH") {
            let separator = if cfg!(windows) { ";" } else { ":" };
            let folders: Vec<&str> =
                path.split(separator).filter(|it| Path::new(it).is_absolute()).collect();
            *path = folders.join(separator);
        }
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

/// One run of git: whose configuration it reads, how far it may reach, and the repository.
#[derive(Debug, Clone, Copy)]
struct GitRun<'a> {
    config: GitConfig,
    reach: GitReach,
    folder: Option<&'a Path>,
}

async fn read_bounded(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut bytes = Vec::new();
    // An unreadable message is an empty one.
    let _read = (&mut from).take(MAX_MESSAGE).read_to_end(&mut bytes).await;
    let _discarded = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Counts the files and folders that git lists, and adds up their sizes. Stops at the first that is too much.
async fn count_tree(
    from: Option<impl AsyncRead + Unpin>,
    limits: TreeLimits,
) -> Result<(), GitError> {
    let Some(from) = from else { return Err(GitError::Listing) };
    let mut from = BufReader::new(from);
    let (mut count, mut total) = (0, 0u64);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_TREE_LINE as u64;
        let read = (&mut from).take(limit).read_until(0, &mut line).await;
        if read.map_err(|_| GitError::Listing)? == 0 {
            return Ok(());
        }
        if line.len() >= MAX_TREE_LINE {
            return Err(GitError::Listing);
        }
        count += 1;
        if count > limits.entries {
            return Err(GitError::Tree(TreeError::TooMany { limit: limits.entries }));
        }
        // `100644 blob 0123…  size<TAB>name`; folders have `-` for a size.
        let about = line.split(|byte| *byte == b'\t').next().unwrap_or_default();
        let size = std::str::from_utf8(about).ok().and_then(|it| it.split_whitespace().nth(3));
        let size = match size {
            Some("-") => 0,
            Some(size) => size.parse().map_err(|_| GitError::Listing)?,
            None => return Err(GitError::Listing),
        };
        total = total.saturating_add(size);
        if total > limits.size {
            return Err(GitError::Tree(TreeError::TooLarge { limit: limits.size }));
        }
    }
}

/// Waits until the files below a folder have more than `limit` bytes together; for ever, if there is no folder.
async fn outgrown(folder: Option<&Path>, limit: u64) {
    let Some(folder) = folder else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SIZE_INTERVAL).await;
        let folder = folder.to_owned();
        let size = tokio::task::spawn_blocking(move || size_of(&folder, limit)).await;
        if size.is_ok_and(|size| size > limit) {
            return;
        }
    }
}

/// The size of the files below a folder. Stops counting above `limit`.
fn size_of(folder: &Path, limit: u64) -> u64 {
    let mut folders = vec![folder.to_owned()];
    let mut size = 0u64;
    while let Some(folder) = folders.pop() {
        // Git moves its files while they are counted.
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                size = size.saturating_add(about.len());
            }
            if size > limit {
                return size;
            }
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use switchboard_config::plugin::GitOrigin;

    use super::*;

    /// Fetches with a program that does this for `fetch`, and nothing for everything else.
    async fn fetched_by(script: &str, limits: RepositoryLimits) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("fake-git");
        let script = format!("#!/bin/sh\ncase \"$*\" in\n{script}\nesac\n");
        std::fs::write(&program, script).expect("a file");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, executable).expect("permissions");
        let checkout = folder.path().join("repository");
        std::fs::create_dir(&checkout).expect("a folder");
        let variables = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let git = GitProgram { program, variables, limits };
        let origin = GitOrigin::url("https://h/r.git").expect("a URL");
        let source = GitSource { origin, path: None, reference: None, sha: None };
        match git.fetch(&source, GitReach::Named, &checkout).await {
            Ok(commit) => format!("fetched {commit}"),
            Err(error) => match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
        }
    }

    fn limits(entries: usize, size: u64, fetched: u64) -> RepositoryLimits {
        RepositoryLimits { tree: TreeLimits { entries, size }, fetched }
    }

    #[tokio::test]
    async fn a_fetch_that_never_ends_writing_is_stopped() {
        let endless = "*\" fetch \"*) while :; do echo 0123456789 >> endless; done;;";
        assert_eq!(
            fetched_by(endless, limits(10, 1000, 1000)).await,
            "the repository is larger than 2000 bytes"
        );
    }

    #[tokio::test]
    async fn the_files_of_a_commit_are_counted_before_they_are_written() {
        let list = |lines: &str| format!("*ls-tree*) printf '{lines}';;\n*rev-parse*) echo abc;;");
        let line = "100644 blob 0123abcd     400\\tname\\000";
        for (lines, expected) in [
            (line.repeat(2), "fetched abc"),
            (
                line.repeat(3),
                "the files of the repository cannot be used: the files have more than 1000 bytes together",
            ),
            (
                "040000 tree 0123abcd       -\\ta\\000".repeat(4),
                "the files of the repository cannot be used: there are more than 3 files",
            ),
            (
                "100644 blob 0123abcd\\tname\\000".to_owned(),
                "git does not list the files of the repository",
            ),
            (
                format!("100644 blob 0123 1\\t{}\\000", "x".repeat(70_000)),
                "git does not list the files of the repository",
            ),
        ] {
            let found = fetched_by(&list(&lines), limits(3, 1000, 1_000_000)).await;
            assert_eq!(found, expected, "{}", &lines[..lines.len().min(100)]);
        }
    }

    #[test]
    fn relative_folders_of_the_search_path_do_not_count() {
        let git = GitProgram {
            program: PathBuf::from("git"),
            variables: BTreeMap::from([("PATH".to_owned(), ".:/usr/bin::bin:/bin".to_owned())]),
            limits: RepositoryLimits::default(),
        };
        assert_eq!(git.environment(GitConfig::None)["PATH"], "/usr/bin:/bin");
    }
}
