//! The log levels of the protocol, in order of severity.

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For whoever looks for a mistake.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a second look.
    Notice,
    /// Not as it should be.
    Warning,
    /// Something did not work.
    Error,
    /// Something that others depend on did not work.
    Critical,
    /// Somebody has to act.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    const ALL: [(LogLevel, &str); 8] = [
        (LogLevel::Debug, "debug"),
        (LogLevel::Info, "info"),
        (LogLevel::Notice, "notice"),
        (LogLevel::Warning, "warning"),
        (LogLevel::Error, "error"),
        (LogLevel::Critical, "critical"),
        (LogLevel::Alert, "alert"),
        (LogLevel::Emergency, "emergency"),
    ];

    /// Reads the protocol's word.
    pub(super) fn parse(text: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|(_, name)| *name == text).map(|(level, _)| level)
    }

    pub(super) fn name(self) -> &'static str {
        LogLevel::ALL.into_iter().find(|(level, _)| *level == self).map_or("info", |(_, name)| name)
    }

    /// How many levels are below.
    pub(super) fn rank(self) -> u8 {
        LogLevel::ALL
            .into_iter()
            .zip(0..)
            .find(|((it, _), _)| *it == self)
            .map_or(0, |(_, rank)| rank)
    }
}
