//! The newcomer's walk: the README's commands and the first steps, in a bare Debian with Rust and a C linker, with what
//! they print compared. `guide` knows what the pages promise, `bare_root` where it happens.
//!
//! The first command and the pages are walked by somebody without rights and with an empty home. The tests are run by
//! root with a home of its own, as containers of CI do, since they install packages of the system.

mod bare_root;
mod guide;

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::servers;
use crate::tools::ToolError;
use crate::workshop::Workshop;
use bare_root::{ADMINISTRATOR, BareRoot, NEWCOMER, Person, RootError};
use guide::Difference;

/// The README's block of commands.
const HEADING: &str = "## Two commands";
/// Pages whose `console` blocks are walked, each in a home of its own.
const PAGES: &[(&str, &str)] = &[
    ("README.md", "/people/newcomer/readme"),
    ("docs/guide/first-steps.md", "/people/newcomer/steps"),
];
/// What the README asks for, as packages: a C linker, and what a clone needs.
const NEEDED: &str = "gcc libc6-dev git ca-certificates";
/// Where the commits lie in the root until they are cloned.
const BUNDLE: &str = "/people/switchboard.bundle";
/// What the first command prints where there is no terminal.
const DEMO: &str = include_str!("newcomer/demo.txt");
/// How a program takes the whole screen, and how it gives it back.
const SCREEN: (&str, &str) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
/// The project folder's name on the pages, and what follows it in the name of its local settings.
const PROJECT: &str = "project";
const PROJECT_KEY: &str = "0123456789abcdef";

/// How far to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Length {
    Whole,
    WithoutTests,
}

/// Where to walk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// In a root that is made for it.
    Fresh,
    /// In the root that an earlier walk left, with everything that it built: to look into what went wrong there.
    Left,
}

/// What becomes of the root of a walk that went well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Afterwards {
    Remove,
    Keep,
}

/// Walks. A root in which something went wrong is kept.
pub fn run(workshop: &Workshop, arguments: &[String]) -> Result<(), WalkError> {
    let mut length = Length::Whole;
    let mut place = Place::Fresh;
    let mut afterwards = Afterwards::Remove;
    for argument in arguments {
        match argument.as_str() {
            "--quick" => length = Length::WithoutTests,
            "--again" => place = Place::Left,
            "--keep" => afterwards = Afterwards::Keep,
            unknown => return Err(WalkError::UnknownOption(unknown.to_owned())),
        }
    }
    let root = BareRoot::of(workshop).map_err(|cause| WalkError::Root { cause, kept: None })?;
    servers::DEBOOTSTRAP.prepare(workshop).map_err(WalkError::Tool)?;
    let kept = || root.folder().is_dir().then(|| root.folder().to_owned());
    let mut walk = Walk { workshop, root: &root, took: Vec::new() };
    let walked = walk.all(place, length);
    walk.print_times(length);
    walked.map_err(|stop| match stop {
        Stop::Root(cause) => WalkError::Root { cause, kept: kept() },
        Stop::Otherwise(step, otherwise) => WalkError::Otherwise { step, otherwise, kept: kept() },
    })?;
    match afterwards {
        Afterwards::Keep => eprintln!("the root is kept: {}", root.folder().display()),
        Afterwards::Remove => {
            root.remove().map_err(|cause| WalkError::Root { cause, kept: kept() })?;
        }
    }
    Ok(())
}

/// A walk under way.
struct Walk<'run> {
    workshop: &'run Workshop,
    root: &'run BareRoot,
    took: Vec<(&'static str, Duration)>,
}

/// Why a walk does not go on.
enum Stop {
    Root(RootError),
    Otherwise(&'static str, Otherwise),
}

impl From<RootError> for Stop {
    fn from(error: RootError) -> Self {
        Stop::Root(error)
    }
}

impl Walk<'_> {
    fn all(&mut self, place: Place, length: Length) -> Result<(), Stop> {
        match place {
            Place::Fresh => {
                self.timed("a bare Debian", |walk| Ok(walk.root.make()?))?;
                self.timed("a C linker and git", Self::furnish)?;
            }
            Place::Left => eprintln!(
                "    note: an earlier walk was here, so times and sizes are not a newcomer's"
            ),
        }
        self.timed("clone", |walk| walk.clone_as(NEWCOMER))?;
        let readme = self.page("README.md")?;
        let commands = guide::block_below(&readme, HEADING);
        let [first, second] = commands[..] else {
            let seen = format!("{} commands below `{HEADING}`", commands.len());
            return Err(Stop::Otherwise("clone", Otherwise::Page { seen }));
        };
        let demo = first.to_owned();
        self.timed("first command, no terminal", |walk| walk.demo_in_lines(&demo))?;
        self.timed("first command, at a terminal", |walk| walk.demo_at_terminal(&demo))?;
        let Some(install) = guide::inline_command(&readme, "cargo install") else {
            let seen = "no `cargo install` on the page".to_owned();
            return Err(Stop::Otherwise("install", Otherwise::Page { seen }));
        };
        self.timed("install", |walk| walk.succeed("install", NEWCOMER, &in_clone(install)))?;
        self.timed("pages", Self::pages)?;
        if length == Length::Whole {
            let test = in_clone(second);
            self.timed("second command", |walk| walk.tests(&test))?;
        }
        Ok(())
    }

    fn timed(
        &mut self,
        step: &'static str,
        act: impl FnOnce(&Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        eprintln!("==> walk: {step}");
        let start = Instant::now();
        let result = act(self);
        let took = start.elapsed();
        eprintln!("    {step} took {:.1} s", took.as_secs_f64());
        self.took.push((step, took));
        result
    }

    fn furnish(&self) -> Result<(), Stop> {
        let step = "a C linker and git";
        let Person { name, home } = NEWCOMER;
        let script = format!(
            "set -e\napt-get update\napt-get install -y --no-install-recommends {NEEDED}\n\
             useradd --create-home --home-dir {home} --shell /bin/bash {name}"
        );
        self.succeed(step, ADMINISTRATOR, &script)?;
        self.root.connect()?;
        for person in [NEWCOMER, ADMINISTRATOR] {
            self.root.settle(person)?;
            let own = format!("chown -R {0}:{0} {1}", person.name, person.home);
            self.succeed(step, ADMINISTRATOR, &own)?;
        }
        Ok(())
    }

    /// Clones what is committed; the working tree is not part of it.
    fn clone_as(&self, person: Person) -> Result<(), Stop> {
        let mut changes = self.workshop.program("git");
        changes.args(["status", "--porcelain"]);
        if changes.output().is_ok_and(|output| !output.stdout.is_empty()) {
            eprintln!("    note: what is not committed is not part of the walk");
        }
        let mut bundle = self.workshop.program("git");
        bundle.args(["bundle", "create", "--quiet"]).arg(self.root.outside(BUNDLE)).arg("HEAD");
        let bundled = watch(bundle, Input::Nothing).map_err(RootError::watching)?;
        well("clone", &bundled)?;
        let script = format!(
            "set -e\n[ -d switchboard ] || git clone --quiet {BUNDLE} switchboard\ncd switchboard\n\
             git fetch --quiet {BUNDLE} HEAD\ngit reset --quiet --hard FETCH_HEAD\nrustc --version"
        );
        self.succeed("clone", person, &script)
    }

    fn page(&self, name: &str) -> Result<String, Stop> {
        let path = self.root.outside(NEWCOMER.home).join("switchboard").join(name);
        let text = fs::read_to_string(&path);
        Ok(text.map_err(|error| RootError::Unusable(path, error))?)
    }

    fn demo_in_lines(&self, command: &str) -> Result<(), Stop> {
        let step = "first command, no terminal";
        let ran = self.run(NEWCOMER, NEWCOMER.home, &in_clone(command))?;
        well(step, &ran)?;
        let seen: Vec<&str> = ran.stdout.lines().collect();
        let expected: Vec<&str> = DEMO.lines().collect();
        guide::compare(&expected, &seen)
            .map_err(|difference| Stop::Otherwise(step, Otherwise::demo(difference)))
    }

    /// Nobody presses a key: it has to take the screen, end by itself, give the screen back and say what is next.
    fn demo_at_terminal(&self, command: &str) -> Result<(), Stop> {
        let step = "first command, at a terminal";
        let script = in_clone(&format!("stty rows 40 cols 120\n{command}"));
        let script = format!("script --quiet --return --command {} /dev/null", quoted(&script));
        let command = self.root.command(NEWCOMER, NEWCOMER.home, &script);
        let ran = watch_quietly(command, Input::Silent).map_err(RootError::watching)?;
        well(step, &ran)?;
        let (takes, gives_back) = SCREEN;
        let screen =
            ran.stdout.split_once(takes).and_then(|(_, rest)| rest.rsplit_once(gives_back));
        let Some((_, after)) = screen else {
            return Err(Stop::Otherwise(step, Otherwise::NoScreen));
        };
        let after = without_escapes(after);
        let seen: Vec<&str> = after.lines().map(str::trim_end).collect();
        let last = DEMO.lines().rev().take_while(|line| !line.is_empty()).count();
        let all: Vec<&str> = DEMO.lines().collect();
        let mut expected = vec!["..."];
        expected.extend(&all[all.len() - last..]);
        guide::compare(&expected, &seen)
            .map_err(|difference| Stop::Otherwise(step, Otherwise::demo(difference)))
    }

    fn pages(&self) -> Result<(), Stop> {
        PAGES.iter().try_for_each(|(page, home)| self.walk_page(page, home))
    }

    fn walk_page(&self, page: &'static str, home: &str) -> Result<(), Stop> {
        self.succeed("pages", NEWCOMER, &format!("rm -rf {home}\nmkdir -p {home}/{PROJECT}"))?;
        let shown = guide::console(&self.page(page)?);
        if shown.is_empty() {
            let seen = format!("no commands in {page}");
            return Err(Stop::Otherwise("pages", Otherwise::Page { seen }));
        }
        for it in &shown {
            let script = format!("exec 2>&1\ncd {PROJECT}\n{}", it.command);
            let command = self.root.command(NEWCOMER, home, &script);
            let ran = watch_quietly(command, Input::Nothing).map_err(RootError::watching)?;
            let mut text = settled(&ran.stdout, home);
            match ran.code {
                Some(0) => {}
                code => text.push_str(&format!("[exit code {}]\n", code.unwrap_or(-1))),
            }
            let expected: Vec<&str> = it.output.iter().map(String::as_str).collect();
            let seen: Vec<&str> = text.lines().collect();
            guide::compare(&expected, &seen).map_err(|difference| {
                let place = format!("{page}:{}: `{}`", it.line, it.command);
                Stop::Otherwise("pages", Otherwise::Output { place, difference })
            })?;
        }
        eprintln!("    {page}: {} commands print what it says", shown.len());
        Ok(())
    }

    fn tests(&self, command: &str) -> Result<(), Stop> {
        let step = "second command";
        self.clone_as(ADMINISTRATOR)?;
        let ran = self.run(ADMINISTRATOR, ADMINISTRATOR.home, command)?;
        well(step, &ran)?;
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        let Some(summary) = guide::summary(&printed) else {
            return Err(Stop::Otherwise(step, Otherwise::NoSummary));
        };
        eprintln!("    {summary}");
        Ok(())
    }

    fn run(&self, person: Person, home: &str, script: &str) -> Result<Ran, Stop> {
        let command = self.root.command(person, home, script);
        Ok(watch(command, Input::Nothing).map_err(RootError::watching)?)
    }

    fn succeed(&self, step: &'static str, person: Person, script: &str) -> Result<(), Stop> {
        well(step, &self.run(person, person.home, script)?)
    }

    fn print_times(&self, length: Length) {
        eprintln!("\nstep                              seconds");
        for (step, took) in &self.took {
            eprintln!("{step:<32} {:>8.1}", took.as_secs_f64());
        }
        if length == Length::WithoutTests {
            eprintln!("{:<32} {:>8}", "second command", "left out");
        }
        let weigh = |places: &[&str], people: &[Person]| {
            let below = |person: &Person, it: &&str| format!("{}/{it}", person.home);
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
            ("downloaded: crates, PyPI, npm", weigh(&caches, &people)),
            ("build folder of the program", weigh(&["switchboard/target"], &[NEWCOMER])),
            ("build folder of the tests", weigh(&["switchboard/target"], &[ADMINISTRATOR])),
            ("everything", self.root.megabytes(&[String::new()])),
        ] {
            eprintln!("{what:<32} {megabytes:>8}");
        }
    }
}

fn in_clone(command: &str) -> String {
    format!("cd switchboard && {command}")
}

/// A word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What differs from home to home is written as on the pages.
fn settled(text: &str, home: &str) -> String {
    let text = text.replace(home, "~");
    let mark = format!("{PROJECT}-");
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

/// Text without what moves and colours it.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sequence = part.strip_prefix('[').unwrap_or(part);
        let end = sequence.find(|it: char| it.is_ascii_alphabetic());
        plain.push_str(end.map_or("", |end| &sequence[end + 1..]));
    }
    plain
}

/// What a command has on its standard input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Input {
    Nothing,
    /// Somebody who is there and says nothing: `script` takes an end for a key.
    Silent,
}

/// What a command did.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn well(step: &'static str, ran: &Ran) -> Result<(), Stop> {
    match ran.code {
        Some(0) => Ok(()),
        code => {
            let printed = format!("{}{}", ran.stdout, ran.stderr);
            let lines: Vec<&str> = printed.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n  | ");
            Err(Stop::Otherwise(step, Otherwise::Ended { code, last }))
        }
    }
}

/// Runs a command to its end; the person sees what it says while it runs.
fn watch(command: Command, input: Input) -> io::Result<Ran> {
    follow(command, input, io::stderr)
}

/// The same without the person seeing it.
fn watch_quietly(command: Command, input: Input) -> io::Result<Ran> {
    follow(command, input, io::sink)
}

/// The command itself ends in time: it runs under `timeout`, or only reads the repository.
fn follow<Shown: Write>(
    mut command: Command,
    input: Input,
    shown: fn() -> Shown,
) -> io::Result<Ran> {
    command.stdin(match input {
        Input::Nothing => Stdio::null(),
        Input::Silent => Stdio::piped(),
    });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let silence = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let other = scope.spawn(|| copy(stderr, shown()));
        let stdout = copy(stdout, shown());
        (stdout, other.join().unwrap_or_default())
    });
    let code = child.wait()?.code();
    drop(silence);
    Ok(Ran { code, stdout, stderr })
}

fn copy(stream: Option<impl Read>, mut shown: impl Write) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    let Some(mut stream) = stream else { return String::new() };
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        kept.extend_from_slice(&piece[..length]);
        let _nobody_reads = shown.write_all(&piece[..length]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The walk was stopped.
#[derive(Debug)]
pub enum WalkError {
    /// There is no such option.
    UnknownOption(String),
    /// debootstrap is missing.
    Tool(ToolError),
    /// The bare root could not be used.
    Root {
        /// Why.
        cause: RootError,
        /// Where what there is of it lies.
        kept: Option<PathBuf>,
    },
    /// Something was not as the pages say.
    Otherwise {
        /// When.
        step: &'static str,
        /// What was expected and what was seen.
        otherwise: Otherwise,
        /// Where to look.
        kept: Option<PathBuf>,
    },
}

/// What was not as the pages say.
#[derive(Debug)]
pub enum Otherwise {
    /// A command did not end well.
    Ended {
        /// How it ended; a signal has no code.
        code: Option<i32>,
        /// Its last lines.
        last: String,
    },
    /// A page has not the commands that were looked for.
    Page {
        /// What it has.
        seen: String,
    },
    /// A command printed something else.
    Output {
        /// The page, the line and the command.
        place: String,
        /// What.
        difference: Difference,
    },
    /// The terminal's screen was not taken and given back.
    NoScreen,
    /// No line says that every test ran and passed.
    NoSummary,
}

impl Otherwise {
    fn demo(difference: Difference) -> Self {
        Otherwise::Output { place: "the demo".to_owned(), difference }
    }
}

impl RootError {
    fn watching(error: io::Error) -> Self {
        RootError::NotStarted("setpriv or git".to_owned(), error)
    }
}

impl fmt::Display for Otherwise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Otherwise::Ended { code, last } => {
                let code = code.map_or("a signal".to_owned(), |it| it.to_string());
                write!(
                    out,
                    "expected: exit code 0\nseen: {code}, after these last lines\n  | {last}"
                )
            }
            Otherwise::Page { seen } => {
                write!(out, "expected: commands to type\nseen: {seen}")
            }
            Otherwise::Output { place, difference } => write!(out, "{place}\n{difference}"),
            Otherwise::NoScreen => out.write_str(
                "expected: it takes the terminal's screen and gives it back\nseen: no such thing",
            ),
            Otherwise::NoSummary => out.write_str(
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
                    "a walk has no option `{option}`; there are --again, --keep and --quick"
                );
            }
            WalkError::Tool(error) => return error.fmt(out),
            WalkError::Root { cause, kept } => {
                cause.fmt(out)?;
                kept
            }
            WalkError::Otherwise { step, otherwise, kept } => {
                write!(out, "the walk's step `{step}` went otherwise\n{otherwise}")?;
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
            WalkError::UnknownOption(_) | WalkError::Otherwise { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_home_to_home_is_settled() {
        let text =
            "in /people/a/.config/projects/project-00ff00ff00ff00ff/settings.json, project-x";

        assert_eq!(
            settled(text, "/people/a"),
            "in ~/.config/projects/project-0123456789abcdef/settings.json, project-x"
        );
    }

    #[test]
    fn escapes_are_taken_out() {
        assert_eq!(without_escapes("\u{1b}[?25h\u{1b}[1mNext\u{1b}[0m:\u{1b}[K end"), "Next: end");
    }

    #[test]
    fn a_command_that_ended_badly_says_so_with_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);

        let ran = watch_quietly(command, Input::Nothing).unwrap();
        let Err(Stop::Otherwise("install", otherwise)) = well("install", &ran) else {
            panic!("it ended badly")
        };

        assert_eq!(
            otherwise.to_string(),
            "expected: exit code 0\nseen: 3, after these last lines\n  | one\n  | two"
        );
    }

    #[test]
    fn an_option_that_is_not_there_is_an_error() {
        let error =
            run(&Workshop::at(std::path::Path::new(".")), &["--fast".to_owned()]).unwrap_err();

        assert_eq!(
            error.to_string(),
            "a walk has no option `--fast`; there are --again, --keep and --quick"
        );
    }
}
