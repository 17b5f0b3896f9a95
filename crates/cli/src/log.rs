//! The program's own log: which events are written, and where to. Events come from all crates through `tracing`; only
//! this module installs a subscriber. `filter` selects events, `layer` formats them, `writer` and `file` write lines.

mod file;
mod filter;
mod layer;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use switchboard::config::display::printable;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use file::LogFile;
use filter::LogFilter;
use layer::LogLayer;
use writer::{LineWriter, LogSink};

/// The variable with the filter, where `--log` is not set.
pub const LOG_VARIABLE: &str = "SWB_LOG";
/// The level where only a log file is named.
const FILE_LEVEL: LevelFilter = LevelFilter::INFO;
/// The level of `swb serve` where nothing is set.
const SERVE_LEVEL: LevelFilter = LevelFilter::WARN;
/// How long the program waits at its end for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
const FILTER_HINT: &str = "for example `--log debug`, `--log gateway=trace,info` or \
     `--log switchboard::connection=debug`; the levels are off, error, warn, info, debug and trace";

/// How a run uses the terminal, which decides where its log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogContext {
    /// The screen, which output to standard error would destroy.
    Screen,
    /// `swb serve`, which reports warnings without being asked.
    Serve,
    /// Any other command.
    Command,
}

/// Where log lines go.
#[derive(Debug, PartialEq, Eq)]
enum LogDestination {
    Stderr,
    File(PathBuf),
}

/// The log of one run. Without a call of [`RunningLog::finish`] the last lines may be lost.
#[derive(Debug)]
pub struct RunningLog(Option<LineWriter>);

impl RunningLog {
    /// Waits until all lines so far are written, with a timeout.
    pub fn finish(&self) {
        if let Some(writer) = &self.0 {
            writer.flush(FLUSH_TIMEOUT);
        }
    }
}

/// Starts the log that the options and the environment ask for. Without one, events cost almost nothing.
pub fn start(invocation: &Invocation, context: LogContext) -> Result<RunningLog, Failure> {
    let variable = invocation.env.variables.get(LOG_VARIABLE).filter(|it| !it.trim().is_empty());
    let (source, text) = match (&invocation.global.log, variable) {
        (Some(text), _) => ("--log", Some(text)),
        (None, variable) => (LOG_VARIABLE, variable),
    };
    let requested = text.map(|text| LogFilter::parse(text)).transpose().map_err(|error| {
        Failure::new(Exit::Usage, &format!("{source}: {error}")).hint(FILTER_HINT)
    })?;
    let file = invocation.global.log_file.as_ref();
    let file = file.map(|it| invocation.env.working_folder.join(it));
    let Some((filter, destination)) =
        plan(requested, file, context, || invocation.env.paths.program_log())
    else {
        return Ok(RunningLog(None));
    };
    let sink = match destination {
        LogDestination::Stderr => LogSink::Stderr,
        LogDestination::File(path) => {
            let file = LogFile::open(&path).map_err(|error| {
                let message = format!("the log file {} cannot be opened", path.display());
                Failure::new(Exit::Failure, &printable(&message))
                    .caused_by(error)
                    .hint("choose a file that you may write with `--log-file PATH`")
            })?;
            LogSink::File(Box::new(file))
        }
    };
    let writer = LineWriter::start(sink).map_err(|error| {
        Failure::new(Exit::Failure, "the thread of the log cannot be started").caused_by(error)
    })?;
    let subscriber = tracing_subscriber::registry().with(LogLayer::new(filter, writer.sender()));
    // Fails only where a log was started before, which then stays in use.
    let _already_set = tracing::subscriber::set_global_default(subscriber);
    Ok(RunningLog(Some(writer)))
}

/// The filter and the destination of a run; `None` where nothing is logged.
fn plan(
    requested: Option<LogFilter>,
    file: Option<PathBuf>,
    context: LogContext,
    default_file: impl FnOnce() -> PathBuf,
) -> Option<(LogFilter, LogDestination)> {
    let filter = match (requested, &file, context) {
        (Some(filter), _, _) => filter,
        (None, Some(_), _) => LogFilter::from_level(FILE_LEVEL),
        (None, None, LogContext::Serve) => LogFilter::from_level(SERVE_LEVEL),
        (None, None, LogContext::Screen | LogContext::Command) => return None,
    };
    let destination = match (file, context) {
        (Some(path), _) => LogDestination::File(path),
        (None, LogContext::Screen) => LogDestination::File(default_file()),
        (None, LogContext::Serve | LogContext::Command) => LogDestination::Stderr,
    };
    Some((filter, destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is logged by `--log`, to `--log-file`, in a context: the level of the gateway and the destination.
    #[track_caller]
    fn check(log: &str, file: &str, context: LogContext, expected: Option<(&str, &str)>) {
        let requested =
            Some(log).filter(|it| !it.is_empty()).map(|it| LogFilter::parse(it).expect("a filter"));
        let file = Some(file).filter(|it| !it.is_empty()).map(PathBuf::from);
        let planned = plan(requested, file, context, || "default".into());
        let planned = planned.map(|(filter, destination)| {
            let destination = match destination {
                LogDestination::Stderr => "stderr".to_owned(),
                LogDestination::File(path) => path.display().to_string(),
            };
            (filter.level_of("switchboard_gateway").to_string(), destination)
        });
        let expected = expected.map(|(level, place)| (level.to_owned(), place.to_owned()));
        assert_eq!(planned, expected);
    }

    #[test]
    fn a_command_logs_only_what_is_asked_for() {
        check("", "", LogContext::Command, None);
        check("debug", "", LogContext::Command, Some(("debug", "stderr")));
        check("", "f", LogContext::Command, Some(("info", "f")));
        check("trace", "f", LogContext::Command, Some(("trace", "f")));
    }

    #[test]
    fn serve_logs_warnings_to_standard_error_by_default() {
        check("", "", LogContext::Serve, Some(("warn", "stderr")));
        check("off", "", LogContext::Serve, Some(("off", "stderr")));
        check("info", "f", LogContext::Serve, Some(("info", "f")));
    }

    #[test]
    fn the_screen_never_logs_to_standard_error() {
        check("", "", LogContext::Screen, None);
        check("debug", "", LogContext::Screen, Some(("debug", "default")));
        check("debug", "f", LogContext::Screen, Some(("debug", "f")));
    }
}
