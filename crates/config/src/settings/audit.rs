//! Reads `audit` of a settings file: how long calls are recorded, and whether a call may run without a record.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::AUDIT_KEYS;

/// The key of the section.
pub(crate) const KEY: &str = "audit";
const DEFAULT_KEEP_DAYS: u64 = 30;
const DEFAULT_MAX_MEGABYTES: u64 = 1024;

/// The policy for calls whose record cannot be written to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrecordedCalls {
    /// They run, and the program says that they are not recorded.
    Allow,
    /// They are refused.
    Refuse,
}

impl UnrecordedCalls {
    fn parse(word: &str) -> Option<UnrecordedCalls> {
        match word {
            "allow" => Some(UnrecordedCalls::Allow),
            "refuse" => Some(UnrecordedCalls::Refuse),
            _ => None,
        }
    }
}

/// How the audit log is kept. Absent values have defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditSettings {
    unrecorded_calls: Option<UnrecordedCalls>,
    keep_days: Option<u64>,
    max_megabytes: Option<u64>,
    minimum: Minimum,
}

/// The least that files which come later may set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Minimum {
    /// Any value.
    #[default]
    None,
    /// The defaults: an administrator who sets no value relies on them.
    Defaults,
}

impl Minimum {
    fn apply(self, value: Option<u64>, default: u64) -> Option<u64> {
        match self {
            Minimum::None => value,
            Minimum::Defaults => value.map(|it| it.max(default)),
        }
    }
}

impl AuditSettings {
    /// The policy for calls whose record cannot be written. By default they run.
    pub fn unrecorded_calls(&self) -> UnrecordedCalls {
        self.unrecorded_calls.unwrap_or(UnrecordedCalls::Allow)
    }

    /// The number of days for which a record is kept whatever the size of the log.
    pub fn keep_days(&self) -> u64 {
        self.keep_days.unwrap_or(DEFAULT_KEEP_DAYS)
    }

    /// The maximum size of all files of the log together.
    pub fn max_megabytes(&self) -> u64 {
        self.max_megabytes.unwrap_or(DEFAULT_MAX_MEGABYTES)
    }

    /// These settings, completed by those of a file that comes later. Earlier files take precedence.
    pub fn merge(self, later: AuditSettings) -> AuditSettings {
        let keep_days = self.minimum.apply(later.keep_days, DEFAULT_KEEP_DAYS);
        let max_megabytes = self.minimum.apply(later.max_megabytes, DEFAULT_MAX_MEGABYTES);
        AuditSettings {
            unrecorded_calls: self.unrecorded_calls.or(later.unrecorded_calls),
            keep_days: self.keep_days.or(keep_days),
            max_megabytes: self.max_megabytes.or(max_megabytes),
            minimum: self.minimum,
        }
    }

    /// These settings of an administrator, under whom calls without a record are refused unless they say otherwise, and
    /// users keep no less than the defaults.
    pub fn managed(self) -> AuditSettings {
        let unrecorded_calls = self.unrecorded_calls.or(Some(UnrecordedCalls::Refuse));
        AuditSettings { unrecorded_calls, minimum: Minimum::Defaults, ..self }
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> AuditSettings {
    let Some(mut section) = Section::open(members, KEY, AUDIT_KEYS, reporter) else {
        return AuditSettings::default();
    };
    AuditSettings {
        unrecorded_calls: section.optional_one_of(
            "unrecordedCalls",
            "`allow` or `refuse`",
            UnrecordedCalls::parse,
        ),
        keep_days: section.positive_integer("keepDays"),
        max_megabytes: section.positive_integer("maxMegabytes"),
        minimum: Minimum::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn values_are_read_and_absent_ones_have_defaults() {
        let all = read(
            r#"{"audit": {"unrecordedCalls": "refuse", "keepDays": 90, "maxMegabytes": 5000}}"#,
        );
        assert!(all.layer.problems.is_empty(), "{:?}", all.layer.problems);
        let audit = all.audit;
        assert_eq!(audit.unrecorded_calls(), UnrecordedCalls::Refuse);
        assert_eq!((audit.keep_days(), audit.max_megabytes()), (90, 5000));
        let none = read("{}").audit;
        assert_eq!(none.unrecorded_calls(), UnrecordedCalls::Allow);
        assert_eq!((none.keep_days(), none.max_megabytes()), (30, 1024));
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        let bad =
            read(r#"{"audit": {"unrecordedCalls": "deny", "keepDays": 0, "maxMegabyte": 1}}"#);
        let keys = problem_keys(&bad);
        assert_eq!(keys, ["audit.maxMegabyte", "audit.unrecordedCalls", "audit.keepDays"]);
        assert_eq!(bad.audit, AuditSettings::default());
    }

    #[test]
    fn an_administrators_settings_refuse_unless_they_say_otherwise_and_users_cannot_loosen_them() {
        let text = r#"{"audit": {"unrecordedCalls": "allow", "keepDays": 1, "maxMegabytes": 1}}"#;
        let users = read(text).audit;
        assert_eq!((users.keep_days(), users.max_megabytes()), (1, 1));
        let silent = AuditSettings::default().managed().merge(users);
        assert_eq!(silent.unrecorded_calls(), UnrecordedCalls::Refuse);
        assert_eq!((silent.keep_days(), silent.max_megabytes()), (30, 1024));
        let more = read(r#"{"audit": {"keepDays": 90, "maxMegabytes": 5000}}"#).audit;
        let more = AuditSettings::default().managed().merge(more).merge(users);
        assert_eq!((more.keep_days(), more.max_megabytes()), (90, 5000));
        let text = r#"{"audit": {"unrecordedCalls": "allow", "keepDays": 365}}"#;
        let allowing = read(text).audit.managed().merge(users);
        assert_eq!(allowing.unrecorded_calls(), UnrecordedCalls::Allow);
        assert_eq!(allowing.keep_days(), 365);
        let short = read(r#"{"audit": {"keepDays": 7}}"#).audit.managed().merge(users);
        assert_eq!(short.keep_days(), 7, "the administrator's own value has no minimum");
    }
}
