//! Runs the commands of the README and of the first-steps guide in a minimal Debian root with Rust and a C linker, and
//! compares their output with the docs. `documented_commands` reads the pages, `debian_root` provides the root.
//!
//! An unprivileged user with an empty home runs the first command and the pages. Root, with a separate home, runs the
//! tests, as CI containers do, because they install system packages.

mod debian_root;
mod documented_commands;

use crate::failure::Failure;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::install::servers;
use crate::install::tools::ToolError;
use crate::workspace::Workspace;
use debian_root::{ADMINISTRATOR, DebianRoot, NEWCOMER, RootError, User};
use documented_commands::Difference;

/// The README's block of commands.
const COMMANDS_HEADING: &str = "## Two commands";
/// Pages whose `console` blocks are run, each with a separate home.
const PAGES: &[(&str, &str)] = &[
    ("README.md", "/people/newcomer/readme"),
    ("docs/guide/first-steps.md", "/people/newcomer/steps"),
];
/// The README's prerequisites as packages: a C linker, and the packages that a clone needs.
const PREREQUISITES: &str = "gcc libc6-dev git ca-certificates";
/// The path of the git bundle in the root.
const BUNDLE_PATH: &str = "/people/switchboard.bundle";
/// The expected output of the first command without a terminal.
const EXPECTED_DEMO_OUTPUT: &str = include_str!("walk/demo.txt");
/// The escape sequences that enter and leave the alternate screen.
const ALTERNATE_SCREEN: (&str, &str) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
/// The project folder's name on the pages, and the suffix in the name of its local settings.
const PROJECT_NAME: &str = "project";
const PROJECT_KEY: &str = "0123456789abcdef";

/// Which steps to run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WalkExtent {
    Full,
    WithoutTests,
}

/// Which root to use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RootReuse {
    /// A new root.
    Fresh,
    /// The root of an earlier run, with everything it built: for debugging a failure.
    Existing,
}

/// Whether to remove the root after a successful run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cleanup {
    Remove,
    Keep,
}

/// Runs all steps. The root is kept after a failure.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), WalkError> {
    let mut length = WalkExtent::Full;
    let mut place = RootReuse::Fresh;
    let mut cleanup = Cleanup::Remove;
    for argument in arguments {
        match argument.as_str() {
            "--quick" => length = WalkExtent::WithoutTests,
            "--again" => place = RootReuse::Existing,
            "--keep" => cleanup = Cleanup::Keep,
            unknown => return Err(WalkError::UnknownOption(unknown.to_owned())),
        }
    }
    let root = DebianRoot::new(workspace).map_err(|cause| WalkError::Root { cause, kept: None })?;
    servers::DEBOOTSTRAP.ensure_installed(workspace).map_err(WalkError::Tool)?;
    let kept = || root.folder().is_dir().then(|| root.folder().to_owned());
    let mut walk = Walk { workspace, root: &root, timings: Vec::new() };
    let walked = walk.run_all(place, length);
    walk.print_times(length);
    walked.map_err(|stop| match stop {
        StepFailure::Root(cause) => WalkError::Root { cause, kept: kept() },
        StepFailure::Mismatch(step, mismatch) => {
            WalkError::Mismatch { step, mismatch, kept: kept() }
        }
    })?;
    match cleanup {
        Cleanup::Keep => eprintln!("the root is kept: {}", root.folder().display()),
        Cleanup::Remove => {
            root.remove().map_err(|cause| WalkError::Root { cause, kept: kept() })?;
        }
    }
    Ok(())
}

/// A run in progress.
struct Walk<'run> {
    workspace: &'run Workspace,
    root: &'run DebianRoot,
    timings: Vec<(&'static str, Duration)>,
}

/// Why a run stopped.
enum StepFailure {
    Root(RootError),
    Mismatch(&'static str, Mismatch),
}

impl From<RootError> for StepFailure {
    fn from(error: RootError) -> Self {
        StepFailure::Root(error)
    }
}

impl Walk<'_> {
    fn run_all(&mut self, place: RootReuse, length: WalkExtent) -> Result<(), StepFailure> {
        match place {
            RootReuse::Fresh => {
                self.timed("a bare Debian", |walk| Ok(walk.root.create()?))?;
                self.timed("a C linker and git", Self::install_prerequisites)?;
            }
            RootReuse::Existing => eprintln!(
                "    note: this root was used before, so times and sizes are not those of a first run"
            ),
        }
        self.timed("clone", |walk| walk.clone_as(NEWCOMER))?;
        let readme = self.read_page("README.md")?;
        let commands = documented_commands::code_block_below(&readme, COMMANDS_HEADING);
        let [first, second] = commands[..] else {
            let seen = format!("{} commands below `{COMMANDS_HEADING}`", commands.len());
            return Err(StepFailure::Mismatch("clone", Mismatch::MissingCommands { seen }));
        };
        let demo = first.to_owned();
        self.timed("first command, no terminal", |walk| walk.check_demo_output(&demo))?;
        self.timed("first command, at a terminal", |walk| walk.check_demo_on_terminal(&demo))?;
        let Some(install) = documented_commands::inline_command(&readme, "cargo install") else {
            let seen = "no `cargo install` on the page".to_owned();
            return Err(StepFailure::Mismatch("install", Mismatch::MissingCommands { seen }));
        };
        self.timed("install", |walk| walk.run_checked("install", NEWCOMER, &in_clone(install)))?;
        self.timed("pages", Self::check_pages)?;
        if length == WalkExtent::Full {
            let test = in_clone(second);
            self.timed("second command", |walk| walk.run_tests(&test))?;
        }
        Ok(())
    }

    fn timed(
        &mut self,
        step: &'static str,
        act: impl FnOnce(&Self) -> Result<(), StepFailure>,
    ) -> Result<(), StepFailure> {
        eprintln!("==> walk: {step}");
        let start = Instant::now();
        let result = act(self);
        let elapsed = start.elapsed();
        eprintln!("    {step} took {:.1} s", elapsed.as_secs_f64());
        self.timings.push((step, elapsed));
        result
    }

    fn install_prerequisites(&self) -> Result<(), StepFailure> {
        let step = "a C linker and git";
        let User { name, home } = NEWCOMER;
        let script = format!(
            "set -e\napt-get update\napt-get install -y --no-install-recommends {PREREQUISITES}\n\
             useradd --create-home --home-dir {home} --shell /bin/bash {name}"
        );
        self.run_checked(step, ADMINISTRATOR, &script)?;
        self.root.copy_network_settings()?;
        for person in [NEWCOMER, ADMINISTRATOR] {
            self.root.copy_registry_settings(person)?;
            let own = format!("chown -R {0}:{0} {1}", person.name, person.home);
            self.run_checked(step, ADMINISTRATOR, &own)?;
        }
        Ok(())
    }

    /// Clones the committed state; uncommitted changes are not included.
    fn clone_as(&self, person: User) -> Result<(), StepFailure> {
        let mut changes = self.workspace.program("git");
        changes.args(["status", "--porcelain"]);
        if changes.output().is_ok_and(|output| !output.stdout.is_empty()) {
            eprintln!("    note: uncommitted changes are not included");
        }
        let mut bundle = self.workspace.program("git");
        bundle
            .args(["bundle", "create", "--quiet"])
            .arg(self.root.host_path(BUNDLE_PATH))
            .arg("HEAD");
        let bundled = run_visible(bundle, StandardInput::Closed).map_err(RootError::not_started)?;
        check_exit("clone", &bundled)?;
        let script = format!(
            "set -e\n[ -d switchboard ] || git clone --quiet {BUNDLE_PATH} switchboard\ncd switchboard\n\
             git fetch --quiet {BUNDLE_PATH} HEAD\ngit reset --quiet --hard FETCH_HEAD\nrustc --version"
        );
        self.run_checked("clone", person, &script)
    }

    fn read_page(&self, name: &str) -> Result<String, StepFailure> {
        let path = self.root.host_path(NEWCOMER.home).join("switchboard").join(name);
        let text = fs::read_to_string(&path);
        Ok(text.map_err(|error| RootError::File(path, error))?)
    }

    fn check_demo_output(&self, command: &str) -> Result<(), StepFailure> {
        let step = "first command, no terminal";
        let result = self.run(NEWCOMER, NEWCOMER.home, &in_clone(command))?;
        check_exit(step, &result)?;
        let seen: Vec<&str> = result.stdout.lines().collect();
        let expected: Vec<&str> = EXPECTED_DEMO_OUTPUT.lines().collect();
        documented_commands::compare(&expected, &seen)
            .map_err(|difference| StepFailure::Mismatch(step, Mismatch::demo_output(difference)))
    }

    /// Without input, the demo enters the alternate screen, ends, leaves the screen and prints the next steps.
    fn check_demo_on_terminal(&self, command: &str) -> Result<(), StepFailure> {
        let step = "first command, at a terminal";
        let script = in_clone(&format!("stty rows 40 cols 120\n{command}"));
        let script =
            format!("script --quiet --return --command {} /dev/null", shell_quoted(&script));
        let command = self.root.command(NEWCOMER, NEWCOMER.home, &script);
        let result = run_captured(command, StandardInput::Open).map_err(RootError::not_started)?;
        check_exit(step, &result)?;
        let (takes, gives_back) = ALTERNATE_SCREEN;
        let screen =
            result.stdout.split_once(takes).and_then(|(_, rest)| rest.rsplit_once(gives_back));
        let Some((_, after)) = screen else {
            return Err(StepFailure::Mismatch(step, Mismatch::NoScreen));
        };
        let after = strip_escapes(after);
        let seen: Vec<&str> = after.lines().map(str::trim_end).collect();
        let last = EXPECTED_DEMO_OUTPUT.lines().rev().take_while(|line| !line.is_empty()).count();
        let all: Vec<&str> = EXPECTED_DEMO_OUTPUT.lines().collect();
        let mut expected = vec!["..."];
        expected.extend(&all[all.len() - last..]);
        documented_commands::compare(&expected, &seen)
            .map_err(|difference| StepFailure::Mismatch(step, Mismatch::demo_output(difference)))
    }

    fn check_pages(&self) -> Result<(), StepFailure> {
        PAGES.iter().try_for_each(|(page, home)| self.check_page(page, home))
    }

    fn check_page(&self, page: &'static str, home: &str) -> Result<(), StepFailure> {
        self.run_checked(
            "pages",
            NEWCOMER,
            &format!("rm -rf {home}\nmkdir -p {home}/{PROJECT_NAME}"),
        )?;
        let documented = documented_commands::console_commands(&self.read_page(page)?);
        if documented.is_empty() {
            let seen = format!("no commands in {page}");
            return Err(StepFailure::Mismatch("pages", Mismatch::MissingCommands { seen }));
        }
        for it in &documented {
            let script = format!("exec 2>&1\ncd {PROJECT_NAME}\n{}", it.command);
            let command = self.root.command(NEWCOMER, home, &script);
            let result =
                run_captured(command, StandardInput::Closed).map_err(RootError::not_started)?;
            let mut text = normalized(&result.stdout, home);
            match result.code {
                Some(0) => {}
                code => text.push_str(&format!("[exit code {}]\n", code.unwrap_or(-1))),
            }
            let expected: Vec<&str> = it.output.iter().map(String::as_str).collect();
            let seen: Vec<&str> = text.lines().collect();
            documented_commands::compare(&expected, &seen).map_err(|difference| {
                let place = format!("{page}:{}: `{}`", it.line, it.command);
                StepFailure::Mismatch("pages", Mismatch::Output { place, difference })
            })?;
        }
        eprintln!("    {page}: {} commands print the documented output", documented.len());
        Ok(())
    }

    fn run_tests(&self, command: &str) -> Result<(), StepFailure> {
        let step = "second command";
        self.clone_as(ADMINISTRATOR)?;
        let result = self.run(ADMINISTRATOR, ADMINISTRATOR.home, command)?;
        check_exit(step, &result)?;
        let printed = format!("{}{}", result.stdout, result.stderr);
        let Some(summary) = documented_commands::passing_summary(&printed) else {
            return Err(StepFailure::Mismatch(step, Mismatch::NoSummary));
        };
        eprintln!("    {summary}");
        Ok(())
    }

    fn run(&self, person: User, home: &str, script: &str) -> Result<CommandResult, StepFailure> {
        let command = self.root.command(person, home, script);
        Ok(run_visible(command, StandardInput::Closed).map_err(RootError::not_started)?)
    }

    fn run_checked(
        &self,
        step: &'static str,
        person: User,
        script: &str,
    ) -> Result<(), StepFailure> {
        check_exit(step, &self.run(person, person.home, script)?)
    }

    fn print_times(&self, length: WalkExtent) {
        eprintln!("\nstep                              seconds");
        for (step, elapsed) in &self.timings {
            eprintln!("{step:<32} {:>8.1}", elapsed.as_secs_f64());
        }
        if length == WalkExtent::WithoutTests {
            eprintln!("{:<32} {:>8}", "second command", "skipped");
        }
        let size_of = |places: &[&str], people: &[User]| {
            let below = |person: &User, it: &&str| format!("{}/{it}", person.home);
            let places: Vec<String> = people
                .iter()
                .flat_map(|person| places.iter().map(move |it| below(person, it)))
                .collect();
            self.root.megabytes(&places)
        };
        let people = [NEWCOMER, ADMINISTRATOR];
        let caches = [".cargo/registry/cache", ".cargo/registry/index", ".cache/pip", ".npm"];
        let packages = self.root.megabytes(&["/var/cache/apt/archives".to_owned()]);
        eprintln!("\nwhat                                   MB");
        for (what, megabytes) in [
            ("downloaded: packages of Debian", packages),
            ("downloaded: crates, PyPI, npm", size_of(&caches, &people)),
            ("build folder of the program", size_of(&["switchboard/target"], &[NEWCOMER])),
            ("build folder of the tests", size_of(&["switchboard/target"], &[ADMINISTRATOR])),
            ("everything", self.root.megabytes(&[String::new()])),
        ] {
            eprintln!("{what:<32} {megabytes:>8}");
        }
    }
}

fn in_clone(command: &str) -> String {
    format!("cd switchboard && {command}")
}

/// Quotes a word for the shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Replaces parts of the output that depend on the home folder with the values on the pages.
fn normalized(text: &str, home: &str) -> String {
    let text = text.replace(home, "~");
    let mark = format!("{PROJECT_NAME}-");
    let mut parts = text.split(&mark);
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        settled.push_str(&mark);
        match digits == PROJECT_KEY.len() {
            true => settled.push_str(&format!("{PROJECT_KEY}{}", &part[digits..])),
            false => settled.push_str(part),
        }
    }
    settled
}

/// Removes escape sequences.
fn strip_escapes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sequence = part.strip_prefix('[').unwrap_or(part);
        let end = sequence.find(|it: char| it.is_ascii_alphabetic());
        plain.push_str(end.map_or("", |end| &sequence[end + 1..]));
    }
    plain
}

/// The standard input of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StandardInput {
    Closed,
    /// Open without data: `script` would treat end of file as a key press.
    Open,
}

/// The result of a command.
struct CommandResult {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn check_exit(step: &'static str, result: &CommandResult) -> Result<(), StepFailure> {
    match result.code {
        Some(0) => Ok(()),
        code => {
            let printed = format!("{}{}", result.stdout, result.stderr);
            let lines: Vec<&str> = printed.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n  | ");
            Err(StepFailure::Mismatch(step, Mismatch::ExitStatus { code, last }))
        }
    }
}

/// Runs a command to its end and shows its output while it runs.
fn run_visible(command: Command, input: StandardInput) -> io::Result<CommandResult> {
    run_streaming(command, input, io::stderr)
}

/// Runs a command to its end without showing its output.
fn run_captured(command: Command, input: StandardInput) -> io::Result<CommandResult> {
    run_streaming(command, input, io::sink)
}

/// Needs no timeout of its own: the command runs under `timeout`, or only reads the repository.
fn run_streaming<Shown: Write>(
    mut command: Command,
    input: StandardInput,
    documented: fn() -> Shown,
) -> io::Result<CommandResult> {
    command.stdin(match input {
        StandardInput::Closed => Stdio::null(),
        StandardInput::Open => Stdio::piped(),
    });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let open_stdin = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let other = scope.spawn(|| tee(stderr, documented()));
        let stdout = tee(stdout, documented());
        (stdout, other.join().unwrap_or_default())
    });
    let code = child.wait()?.code();
    drop(open_stdin);
    Ok(CommandResult { code, stdout, stderr })
}

fn tee(stream: Option<impl Read>, mut documented: impl Write) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    let Some(mut stream) = stream else { return String::new() };
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        kept.extend_from_slice(&piece[..length]);
        let _nobody_reads = documented.write_all(&piece[..length]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Why the command failed.
#[derive(Debug)]
pub enum WalkError {
    /// The option is unknown.
    UnknownOption(String),
    /// debootstrap is missing.
    Tool(ToolError),
    /// The Debian root could not be used.
    Root {
        /// Why.
        cause: RootError,
        /// The folder of the root, if it exists.
        kept: Option<PathBuf>,
    },
    /// The result differs from the pages.
    Mismatch {
        /// The step.
        step: &'static str,
        /// The expected and the actual result.
        mismatch: Mismatch,
        /// The folder of the root, if it exists.
        kept: Option<PathBuf>,
    },
}

/// A difference from the pages.
#[derive(Debug)]
pub enum Mismatch {
    /// A command failed.
    ExitStatus {
        /// Its exit code; `None` after a signal.
        code: Option<i32>,
        /// Its last lines.
        last: String,
    },
    /// A page lacks the expected commands.
    MissingCommands {
        /// What the page contains.
        seen: String,
    },
    /// A command printed different output.
    Output {
        /// The page, the line and the command.
        place: String,
        /// The difference.
        difference: Difference,
    },
    /// The program did not enter and leave the alternate screen.
    NoScreen,
    /// No summary line states that every test ran and passed.
    NoSummary,
}

impl Mismatch {
    fn demo_output(difference: Difference) -> Self {
        Mismatch::Output { place: "the demo".to_owned(), difference }
    }
}

impl RootError {
    fn not_started(error: io::Error) -> Self {
        RootError::NotStarted("setpriv or git".to_owned(), error)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::ExitStatus { code, last } => {
                let code = code.map_or("a signal".to_owned(), |it| it.to_string());
                write!(
                    out,
                    "expected: exit code 0\nseen: {code}, after these last lines\n  | {last}"
                )
            }
            Mismatch::MissingCommands { seen } => {
                write!(out, "expected: commands to type\nseen: {seen}")
            }
            Mismatch::Output { place, difference } => write!(out, "{place}\n{difference}"),
            Mismatch::NoScreen => out.write_str(
                "expected: the program enters and leaves the alternate screen\nseen: no such escape sequences",
            ),
            Mismatch::NoSummary => out.write_str(
                "expected: a summary with every test passed and none skipped\nseen: no such line",
            ),
        }
    }
}

impl fmt::Display for WalkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self {
            WalkError::UnknownOption(option) => {
                return write!(
                    out,
                    "`walk` has no option `{option}`; the options are --again, --keep and --quick"
                );
            }
            WalkError::Tool(error) => return error.fmt(out),
            WalkError::Root { cause, kept } => {
                cause.fmt(out)?;
                kept
            }
            WalkError::Mismatch { step, mismatch, kept } => {
                write!(out, "the walk's step `{step}` went otherwise\n{mismatch}")?;
                kept
            }
        };
        match kept {
            Some(folder) => write!(out, "\nthe root is kept: {}", folder.display()),
            None => Ok(()),
        }
    }
}

impl Error for WalkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WalkError::Root { cause, .. } => cause.source(),
            WalkError::Tool(error) => error.source(),
            WalkError::UnknownOption(_) | WalkError::Mismatch { .. } => None,
        }
    }
}

impl From<WalkError> for Failure {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::UnknownOption(_) => Failure::Usage(Box::new(error)),
            WalkError::Tool(_) | WalkError::Root { .. } | WalkError::Mismatch { .. } => {
                Failure::Command(Box::new(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_depends_on_the_home_folder_is_normalized() {
        let text =
            "in /people/a/.config/projects/project-00ff00ff00ff00ff/settings.json, project-x";

        assert_eq!(
            normalized(text, "/people/a"),
            "in ~/.config/projects/project-0123456789abcdef/settings.json, project-x"
        );
    }

    #[test]
    fn escape_sequences_are_removed() {
        assert_eq!(strip_escapes("\u{1b}[?25h\u{1b}[1mNext\u{1b}[0m:\u{1b}[K end"), "Next: end");
    }

    #[test]
    fn a_failed_command_is_reported_with_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);

        let result = run_captured(command, StandardInput::Closed).unwrap();
        let Err(StepFailure::Mismatch("install", mismatch)) = check_exit("install", &result) else {
            panic!("it ended badly")
        };

        assert_eq!(
            mismatch.to_string(),
            "expected: exit code 0\nseen: 3, after these last lines\n  | one\n  | two"
        );
    }

    #[test]
    fn an_unknown_option_is_an_error() {
        let error = run(&Workspace::for_test(std::path::Path::new(".")), &["--fast".to_owned()])
            .unwrap_err();

        assert_eq!(
            error.to_string(),
            "`walk` has no option `--fast`; the options are --again, --keep and --quick"
        );
    }
}
