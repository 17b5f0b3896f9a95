//! Runs the fuzz targets in `fuzz/` with libFuzzer, for a limited time each, and reports failing inputs.
//! The targets define the invariants; coverage instrumentation works with a stable compiler.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::failure::Failure;
use crate::install::system::SystemPackage;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// How many seconds each target runs by default.
const DEFAULT_SECONDS: u64 = 10;
/// An input that takes more seconds than this is a failure.
const INPUT_TIMEOUT: &str = "-timeout=20";
/// An input that takes more memory than this, in megabytes, is a failure.
const MEMORY_LIMIT: &str = "-rss_limit_mb=2048";
const MAX_INPUT_LENGTH: &str = "-max_len=8192";

/// The maximum number of inputs in a short run, regardless of the machine's speed.
const SHORT_RUN_INPUTS: &str = "-runs=10000";

const CORPUS: &str = "fuzz/corpus";
const PROGRAM: &str = "swb-fuzz";
/// The environment variable that selects the target.
const TARGET_VARIABLE: &str = "SWB_FUZZ_TARGET";

/// libFuzzer is written in C++.
const COMPILER: SystemPackage = SystemPackage {
    description: "a C++ compiler",
    check: &["c++", "--version"],
    packages: &["g++"],
};

/// Compiler flags for libFuzzer's coverage instrumentation. `cargo fuzz` sets the same with flags of the nightly
/// compiler, and adds a memory sanitizer, which code without `unsafe` does not need.
const FLAGS: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct FuzzOptions {
    targets: Vec<String>,
    seconds: u64,
}

/// Builds the targets once, then runs them in parallel, one per core.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let known = target_names(workspace)?;
    let options = FuzzOptions::parse(arguments, &known)?;
    COMPILER.ensure_installed(workspace)?;
    let host = host(workspace)?;
    steps::run_all(vec![Step::new(
        "instrumented build",
        build(workspace, &host),
        StepSummary::PrintsTime,
    )])?;
    let program = output_dir(workspace).join(&host).join("fuzz").join(PROGRAM);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for targets in options.targets.chunks(cores) {
        let runs: Result<Vec<TargetRun>, FuzzError> = targets
            .iter()
            .map(|target| TargetRun::start(workspace, &program, target, options.seconds))
            .collect();
        // Waits for all targets, so that one failure does not hide another.
        let ends: Vec<Result<String, FuzzError>> =
            runs?.into_iter().map(TargetRun::finish).collect();
        let (ended, mut failed): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
        ended.iter().flatten().for_each(|line| println!("{line}"));
        // The caller prints the last error.
        let last = failed.pop();
        failed.iter().filter_map(|it| it.as_ref().err()).for_each(|it| eprintln!("error: {it}"));
        last.transpose()?;
    }
    Ok(())
}

/// The names of all targets. A test ensures that every target has a corpus.
fn target_names(workspace: &Workspace) -> Result<Vec<String>, FuzzError> {
    let corpus = workspace.root.join(CORPUS);
    let unreadable = |error| FuzzError::Unreadable { path: corpus.clone(), error };
    let mut names = Vec::new();
    for entry in fs::read_dir(&corpus).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

impl FuzzOptions {
    fn parse(arguments: &[String], known: &[String]) -> Result<FuzzOptions, FuzzError> {
        let mut options = FuzzOptions { targets: Vec::new(), seconds: DEFAULT_SECONDS };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--seconds" {
                let seconds = arguments.next().and_then(|it| it.parse().ok());
                options.seconds = seconds.filter(|it| *it > 0).ok_or(FuzzError::Seconds)?;
            } else if known.contains(argument) {
                options.targets.push(argument.clone());
            } else {
                let (name, known) = (argument.clone(), known.to_vec());
                return Err(FuzzError::UnknownTarget { name, known });
            }
        }
        if options.targets.is_empty() {
            options.targets = known.to_vec();
        }
        Ok(options)
    }
}

/// The folder of the instrumented build, the inputs found and the logs.
fn output_dir(workspace: &Workspace) -> PathBuf {
    workspace.target.join("fuzz")
}

/// The host target triple. With an explicit `--target`, build scripts are built without the flags.
fn host(workspace: &Workspace) -> Result<String, FuzzError> {
    let output = workspace.program("rustc").arg("-vV").output();
    let output =
        output.map_err(|error| FuzzError::NotStarted { program: "rustc".into(), error })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or(FuzzError::NoHost)
}

fn build(workspace: &Workspace, host: &str) -> Command {
    let mut cargo = workspace.cargo("build --locked --package");
    cargo.args([PROGRAM, "--profile", "fuzz", "--target", host, "--target-dir"]);
    cargo.arg(output_dir(workspace));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}")).env("CARGO_INCREMENTAL", "0");
    cargo
}

/// A running target.
struct TargetRun {
    target: String,
    child: Child,
    log: PathBuf,
    corpus: PathBuf,
}

impl TargetRun {
    fn start(
        workspace: &Workspace,
        program: &Path,
        target: &str,
        seconds: u64,
    ) -> Result<TargetRun, FuzzError> {
        let corpus = workspace.root.join(CORPUS).join(target);
        let finds = output_dir(workspace).join("finds").join(target);
        let failing = output_dir(workspace).join("failing");
        // Short runs are reproducible, so that a change does not fail for an input found by chance. Longer runs
        // continue from the inputs of earlier runs.
        let is_short = seconds == DEFAULT_SECONDS;
        if is_short {
            let _nothing_found_yet = fs::remove_dir_all(&finds);
        }
        for made in [&finds, &failing] {
            fs::create_dir_all(made)
                .map_err(|error| FuzzError::Unreadable { path: made.clone(), error })?;
        }
        let log = output_dir(workspace).join(format!("{target}.log"));
        let to = File::create(&log)
            .map_err(|error| FuzzError::Unreadable { path: log.clone(), error })?;
        let mut command = workspace.program(program);
        // libFuzzer writes new inputs to the first folder and only reads the second.
        command.arg(finds).arg(&corpus).args([INPUT_TIMEOUT, MEMORY_LIMIT, MAX_INPUT_LENGTH]);
        command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
        if is_short {
            command.args(["-seed=1", SHORT_RUN_INPUTS]);
        }
        command.arg(format!("-artifact_prefix={}/{target}-", failing.display()));
        command.env(TARGET_VARIABLE, target).env("RUST_BACKTRACE", "1");
        eprintln!("==> fuzz {target}: {seconds} s, log in {}", log.display());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(to).spawn();
        let child =
            child.map_err(|error| FuzzError::NotStarted { program: program.to_owned(), error })?;
        Ok(TargetRun { target: target.to_owned(), child, log, corpus })
    }

    /// Waits for the target and summarizes the run in one line.
    fn finish(self) -> Result<String, FuzzError> {
        let TargetRun { target, mut child, log, corpus } = self;
        let failed = |error| FuzzError::NotStarted { program: PROGRAM.into(), error };
        let status = child.wait().map_err(failed)?;
        let log_text =
            fs::read(&log).map_err(|error| FuzzError::Unreadable { path: log.clone(), error })?;
        // The log also prints inputs that are not valid UTF-8.
        let log_text = String::from_utf8_lossy(&log_text);
        if status.success()
            && let Some(summary) = summary(&log_text)
        {
            return Ok(format!("fuzz {target}: {summary}"));
        }
        let (reason, input) = (failure_reason(&log_text), artifact_path(&log_text));
        Err(FuzzError::InvariantBroken(Box::new(FailingInput {
            target,
            reason,
            input,
            log,
            corpus,
        })))
    }
}

/// libFuzzer's statistics in one line; `None` if the log has no coverage.
fn summary(log_text: &str) -> Option<String> {
    let number = |name: &str| {
        let line = log_text.lines().rev().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().parse::<u64>().ok()
    };
    let runs = number("stat::number_of_executed_units")?;
    let speed = number("stat::average_exec_per_sec")?;
    let finds = number("stat::new_units_added")?;
    let line = log_text.lines().rev().find(|line| line.contains(" cov: "))?;
    let coverage = line.split(" cov: ").nth(1)?.split_whitespace().next()?;
    Some(format!("{runs} inputs, {speed} a second, coverage {coverage}, {finds} new finds"))
}

/// The file to which libFuzzer wrote the failing input.
fn artifact_path(log_text: &str) -> Option<PathBuf> {
    let line =
        log_text.lines().rev().find_map(|line| line.split("Test unit written to ").nth(1))?;
    Some(PathBuf::from(line.trim()))
}

/// A second panic that aborts because libFuzzer's C++ frames cannot unwind; the first has the reason.
const NOUNWIND_PANIC: &str = "/library/core/src/panicking.rs";

/// The reason of a failure: the last panic's message (earlier panics were caught), otherwise libFuzzer's error.
fn failure_reason(log_text: &str) -> String {
    let lines: Vec<&str> = log_text.lines().collect();
    let begins = |line: &&str| line.contains("panicked at ") && !line.contains(NOUNWIND_PANIC);
    if let Some(at) = lines.iter().rposition(begins) {
        let is_over = |line: &&str| line.starts_with("stack backtrace") || line.starts_with("==");
        let end = lines[at..].iter().position(is_over).unwrap_or(lines.len() - at);
        return lines[at..at + end.min(8)].join("\n  ");
    }
    let error = lines.iter().find(|line| line.contains("ERROR: ") || line.contains("error: "));
    error.or(lines.last()).copied().unwrap_or("the log is empty").to_owned()
}

/// Why fuzzing stopped.
#[derive(Debug)]
pub enum FuzzError {
    /// No target has this name.
    UnknownTarget {
        /// The name.
        name: String,
        /// The names of all targets.
        known: Vec<String>,
    },
    /// `--seconds` without a number.
    Seconds,
    /// `rustc` does not print its host.
    NoHost,
    /// A file or folder could not be read or written.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A program could not be started or waited for.
    NotStarted {
        /// Which.
        program: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An input broke an invariant.
    InvariantBroken(Box<FailingInput>),
}

/// An input that broke an invariant.
#[derive(Debug)]
pub struct FailingInput {
    target: String,
    reason: String,
    input: Option<PathBuf>,
    log: PathBuf,
    corpus: PathBuf,
}

impl fmt::Display for FuzzError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FuzzError::UnknownTarget { name, known } => {
                write!(out, "unknown fuzz target `{name}`; the targets are {}", known.join(", "))
            }
            FuzzError::Seconds => {
                out.write_str("`--seconds` takes a whole number of seconds, at least 1")
            }
            FuzzError::NoHost => out.write_str("`rustc -vV` does not name its host"),
            FuzzError::Unreadable { path, .. } => {
                write!(out, "could not read or write `{}`", path.display())
            }
            FuzzError::NotStarted { program, .. } => {
                write!(out, "could not run `{}`", program.display())
            }
            FuzzError::InvariantBroken(find) => find.fmt(out),
        }
    }
}

impl fmt::Display for FailingInput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailingInput { target, reason, input, log, corpus } = self;
        writeln!(out, "the fuzz target `{target}` failed: {reason}")?;
        match input {
            Some(input) => {
                let input = input.display();
                writeln!(out, "  the input is saved in {input}")?;
                writeln!(out, "  to reproduce: cargo run --package {PROGRAM} -- {target} {input}")?;
                write!(out, "  after the fix, move it to {}", corpus.display())
            }
            None => write!(out, "  no input was saved; the log is in {}", log.display()),
        }
    }
}

impl Error for FuzzError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FuzzError::Unreadable { error, .. } | FuzzError::NotStarted { error, .. } => {
                Some(error)
            }
            FuzzError::UnknownTarget { .. }
            | FuzzError::Seconds
            | FuzzError::NoHost
            | FuzzError::InvariantBroken(_) => None,
        }
    }
}

impl From<FuzzError> for Failure {
    fn from(error: FuzzError) -> Self {
        match error {
            FuzzError::UnknownTarget { .. } | FuzzError::Seconds => Failure::Usage(Box::new(error)),
            FuzzError::NoHost
            | FuzzError::Unreadable { .. }
            | FuzzError::NotStarted { .. }
            | FuzzError::InvariantBroken(_) => Failure::Command(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<FuzzOptions, String> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let known = ["frames".to_owned(), "rules".to_owned()];
        FuzzOptions::parse(&arguments, &known).map_err(|error| error.to_string())
    }

    #[test]
    fn all_targets_run_unless_some_are_named() {
        let all = vec!["frames".to_owned(), "rules".to_owned()];
        assert_eq!(options(&[]), Ok(FuzzOptions { targets: all, seconds: 10 }));
        let rules = FuzzOptions { targets: vec!["rules".to_owned()], seconds: 300 };
        assert_eq!(options(&["rules", "--seconds", "300"]), Ok(rules));
    }

    #[test]
    fn unknown_targets_and_invalid_durations_are_usage_errors() {
        let unknown = "unknown fuzz target `frame`; the targets are frames, rules";
        assert_eq!(options(&["frame"]), Err(unknown.to_owned()));
        let seconds = "`--seconds` takes a whole number of seconds, at least 1";
        assert_eq!(options(&["--seconds"]), Err(seconds.to_owned()));
        assert_eq!(options(&["--seconds", "0"]), Err(seconds.to_owned()));
    }

    #[test]
    fn a_successful_run_is_summarized_in_one_line() {
        let log_text = "#2\tINITED cov: 10 ft: 12 corp: 1/1b\n\
                    #99\tDONE   cov: 4711 ft: 12 corp: 1/1b lim: 4 exec/s: 9 rss: 9Mb\n\
                    stat::number_of_executed_units: 99\n\
                    stat::average_exec_per_sec:     9\n\
                    stat::new_units_added:          3\n";
        let expected = "99 inputs, 9 a second, coverage 4711, 3 new finds";
        assert_eq!(summary(log_text).as_deref(), Some(expected));
        assert_eq!(summary("WARNING: no interesting inputs were found"), None);
    }

    #[test]
    fn a_failing_input_is_reported_with_its_reason_and_a_command_to_reproduce_it() {
        let log_text = "\nthread 'main' panicked at fuzz/src/rules.rs:7:9:\nit loosens\nstack backtrace:\n   0: x\n\
                    thread 'main' panicked at /rustc/1/library/core/src/panicking.rs:225:5:\nno unwinding\n\
                    ==1== ERROR: libFuzzer: deadly signal\n\
                    artifact_prefix='f/'; Test unit written to f/rules-crash-1\nBase64: AA==\n";
        let find = FailingInput {
            target: "rules".to_owned(),
            reason: failure_reason(log_text),
            input: artifact_path(log_text),
            log: "rules.log".into(),
            corpus: "fuzz/corpus/rules".into(),
        };
        assert_eq!(
            find.to_string(),
            "the fuzz target `rules` failed: thread 'main' panicked at fuzz/src/rules.rs:7:9:\n  it loosens\n  \
             the input is saved in f/rules-crash-1\n  \
             to reproduce: cargo run --package swb-fuzz -- rules f/rules-crash-1\n  \
             after the fix, move it to fuzz/corpus/rules"
        );
    }

    #[test]
    fn a_run_without_a_panic_reports_its_error_line() {
        let log_text = "INFO: x\n==1== ERROR: libFuzzer: timeout after 20 seconds\nSUMMARY: y";
        assert_eq!(failure_reason(log_text), "==1== ERROR: libFuzzer: timeout after 20 seconds");
        assert_eq!(artifact_path(log_text), None);
    }
}
