//! Selects events by level and by the part of the program that emits them. Events of other libraries are never logged,
//! because they may contain headers and bodies.

use std::fmt;

use tracing::level_filters::LevelFilter;

/// The parts that emit events: the name in a filter, and the crate.
const PARTS: [(&str, &str); 7] = [
    ("auth", "switchboard_auth"),
    ("chat", "switchboard_chat"),
    ("cli", "swb_cli"),
    ("gateway", "switchboard_gateway"),
    ("host", "switchboard"),
    ("share", "switchboard_share"),
    ("wire", "switchboard_wire"),
];
/// The level of the parts that a filter does not name.
const UNNAMED_LEVEL: LevelFilter = LevelFilter::WARN;

/// The level of each part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    default: LevelFilter,
    /// Module paths with their levels, the longest first.
    rules: Vec<(String, LevelFilter)>,
}

/// The part of a filter that is invalid, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    text: String,
    kind: FilterErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterErrorKind {
    Empty,
    Level,
    Part,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FilterErrorKind::Empty => f.write_str("the filter has an empty part"),
            FilterErrorKind::Level => write!(f, "`{}` is not a level", self.text),
            FilterErrorKind::Part => {
                let names = PARTS.map(|(name, _)| name).join(", ");
                write!(
                    f,
                    "`{}` is not a part of this program: {names}, or a module path",
                    self.text
                )
            }
        }
    }
}

impl std::error::Error for FilterError {}

impl LogFilter {
    /// One level for all parts.
    pub fn from_level(level: LevelFilter) -> LogFilter {
        LogFilter { default: level, rules: Vec::new() }
    }

    /// Parses `LEVEL` and `PART=LEVEL`, separated by commas. Without a level of their own, parts log warnings and
    /// errors.
    pub fn parse(text: &str) -> Result<LogFilter, FilterError> {
        let mut filter = LogFilter::from_level(UNNAMED_LEVEL);
        for directive in text.split(',').map(str::trim) {
            match directive.split_once('=') {
                None => filter.default = parse_level(directive)?,
                Some((part, level)) => {
                    let level = parse_level(level.trim())?;
                    filter.rules.push((module_path(part.trim())?, level));
                }
            }
        }
        // Stable, so that the last of two equal paths is found by searching from the end of its group.
        filter.rules.reverse();
        filter.rules.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(filter)
    }

    /// The level of a module path.
    pub fn level_of(&self, target: &str) -> LevelFilter {
        if !PARTS.iter().any(|(_, name)| is_within(target, name)) {
            return LevelFilter::OFF;
        }
        let rule = self.rules.iter().find(|(path, _)| is_within(target, path));
        rule.map_or(self.default, |(_, level)| *level)
    }

    /// The most detailed level of any part.
    pub fn max_level(&self) -> LevelFilter {
        self.rules.iter().map(|(_, level)| *level).fold(self.default, LevelFilter::max)
    }
}

/// Is `target` this module or one inside it?
fn is_within(target: &str, path: &str) -> bool {
    target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn parse_level(text: &str) -> Result<LevelFilter, FilterError> {
    let levels = [
        ("off", LevelFilter::OFF),
        ("error", LevelFilter::ERROR),
        ("warn", LevelFilter::WARN),
        ("info", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("trace", LevelFilter::TRACE),
    ];
    let found = levels.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, level)| *level).ok_or_else(|| FilterError {
        text: text.to_owned(),
        kind: if text.is_empty() { FilterErrorKind::Empty } else { FilterErrorKind::Level },
    })
}

/// The module path that a part's name, a crate or a module path stands for.
fn module_path(text: &str) -> Result<String, FilterError> {
    if let Some((_, name)) = PARTS.iter().find(|(name, _)| *name == text) {
        return Ok((*name).to_owned());
    }
    match PARTS.iter().any(|(_, name)| is_within(text, name)) {
        true => Ok(text.to_owned()),
        false => Err(FilterError { text: text.to_owned(), kind: FilterErrorKind::Part }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels of a filter for a part of the gateway, the host, and another library.
    #[track_caller]
    fn check(filter: &str, gateway: &str, host: &str) {
        let filter = LogFilter::parse(filter).expect("a filter");
        let of = |target| filter.level_of(target).to_string();
        assert_eq!(of("switchboard_gateway::http::session"), gateway);
        assert_eq!(of("switchboard::connection::actor"), host);
        for other in ["h2::client", "hyper", "switchboardx", "rustls"] {
            assert_eq!(of(other), "off", "{other}");
        }
    }

    #[test]
    fn a_filter_sets_levels_for_all_parts_and_for_single_ones() {
        check("debug", "debug", "debug");
        check("TRACE", "trace", "trace");
        check("off", "off", "off");
        check("gateway=trace,info", "trace", "info");
        check("info, switchboard_gateway = trace", "trace", "info");
        check("host=debug", "warn", "debug");
        check("switchboard=debug,error", "error", "debug");
    }

    #[test]
    fn the_longest_module_path_and_then_the_last_one_counts() {
        check("debug,gateway=warn,switchboard_gateway::http=trace", "trace", "debug");
        check("switchboard_gateway::http=trace,gateway=warn,debug", "trace", "debug");
        check("host=debug,host=error", "warn", "error");
    }

    #[test]
    fn the_most_detailed_level_bounds_all() {
        let max = |text| LogFilter::parse(text).expect("a filter").max_level().to_string();
        assert_eq!(max("error,wire=debug"), "debug");
        assert_eq!(max("off"), "off");
    }

    #[track_caller]
    fn check_invalid(filter: &str, expected: &str) {
        assert_eq!(LogFilter::parse(filter).expect_err("invalid").to_string(), expected);
    }

    #[test]
    fn an_invalid_filter_names_its_bad_part() {
        check_invalid("loud", "`loud` is not a level");
        check_invalid("info,host=loud", "`loud` is not a level");
        check_invalid("info,", "the filter has an empty part");
        check_invalid(
            "gates=debug",
            "`gates` is not a part of this program: auth, chat, cli, gateway, host, share, wire, or a module path",
        );
    }
}
