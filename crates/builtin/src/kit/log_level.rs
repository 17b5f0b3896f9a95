//! The log levels of the protocol, in order of severity.

/// The severity of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// A possible problem.
    Warning,
    /// A failed operation.
    Error,
    /// A failed component.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
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

    /// Parses the protocol's name.
    pub(super) fn parse(text: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|(_, name)| *name == text).map(|(level, _)| level)
    }

    pub(super) fn name(self) -> &'static str {
        LogLevel::ALL.into_iter().find(|(level, _)| *level == self).map_or("info", |(_, name)| name)
    }

    /// The number of less severe levels.
    pub(super) fn rank(self) -> u8 {
        LogLevel::ALL
            .into_iter()
            .zip(0..)
            .find(|((it, _), _)| *it == self)
            .map_or(0, |(_, rank)| rank)
    }
}
