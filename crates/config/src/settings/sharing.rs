//! Reads `shareHost` and `sharing` of a settings file: whether servers are shared with other sessions, and which.

use std::collections::BTreeMap;
use std::time::Duration;

use super::section::Section;
use crate::document::{Member, Value, find_member};
use crate::entry::sharing::SharingClass;
use crate::problem::{ProblemSubject, Reporter};
pub use crate::schema::SHARING_KEYS;
use crate::source::Authority;

/// The key that turns sharing off.
const SHARE_HOST: &str = "shareHost";
/// The key of the section.
const KEY: &str = "sharing";
/// How long a program stays without a client by default.
const DEFAULT_IDLE: Duration = Duration::from_secs(600);

/// How servers are shared. Absent values have defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharingSettings {
    share_host: Option<bool>,
    /// Classes that an administrator set. They precede the entries of the servers.
    managed_classes: BTreeMap<String, SharingClass>,
    /// Classes that the user set. The entries of the servers precede them.
    classes: BTreeMap<String, SharingClass>,
    user_idle_minutes: Option<u64>,
    workspace_idle_minutes: Option<u64>,
}

/// The setting that decides about a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassOrigin {
    /// The administrator's settings.
    Managed,
    /// The server's entry.
    Entry,
    /// The user's settings.
    Settings,
}

impl SharingSettings {
    /// Whether servers may be shared at all.
    pub fn is_enabled(&self) -> bool {
        self.share_host.unwrap_or(true)
    }

    /// The class of a server that its entry or a setting names, and which of them.
    pub fn class(
        &self,
        server: &str,
        entry: Option<SharingClass>,
    ) -> Option<(SharingClass, ClassOrigin)> {
        let managed = self.managed_classes.get(server).map(|it| (*it, ClassOrigin::Managed));
        let entry = entry.map(|it| (it, ClassOrigin::Entry));
        let own = self.classes.get(server).map(|it| (*it, ClassOrigin::Settings));
        managed.or(entry).or(own)
    }

    /// How long a program stays without a client.
    pub fn idle_limit(&self, class: SharingClass) -> Duration {
        let minutes = match class {
            SharingClass::User => self.user_idle_minutes,
            SharingClass::Workspace => self.workspace_idle_minutes,
            SharingClass::Session => return Duration::ZERO,
        };
        minutes.map_or(DEFAULT_IDLE, |it| Duration::from_secs(it.saturating_mul(60)))
    }

    /// These settings, completed by those of a file that comes later. Earlier files take precedence.
    pub fn merge(mut self, later: SharingSettings) -> SharingSettings {
        for (server, class) in later.managed_classes {
            self.managed_classes.entry(server).or_insert(class);
        }
        for (server, class) in later.classes {
            self.classes.entry(server).or_insert(class);
        }
        SharingSettings {
            share_host: self.share_host.or(later.share_host),
            user_idle_minutes: self.user_idle_minutes.or(later.user_idle_minutes),
            workspace_idle_minutes: self.workspace_idle_minutes.or(later.workspace_idle_minutes),
            ..self
        }
    }
}

/// Reads both keys from the members of a settings file.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> SharingSettings {
    let mut settings =
        SharingSettings { share_host: read_share_host(members, reporter), ..Default::default() };
    let Some(mut section) = Section::open(members, KEY, SHARING_KEYS, reporter) else {
        return settings;
    };
    let classes = section.words("servers", SharingClass::EXPECTED, SharingClass::parse);
    match authority {
        Authority::Administrator => settings.managed_classes = classes,
        Authority::User => settings.classes = classes,
    }
    settings.user_idle_minutes = section.positive_integer("userIdleMinutes");
    settings.workspace_idle_minutes = section.positive_integer("workspaceIdleMinutes");
    settings
}

fn read_share_host(members: &[Member], reporter: &mut Reporter<'_>) -> Option<bool> {
    let member = find_member(members, SHARE_HOST)?;
    match member.node.value {
        Value::Bool(value) => Some(value),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            let subject = ProblemSubject { server: None, key: SHARE_HOST };
            reporter.report_wrong_type(&member.node, subject, "true or false");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read};
    use crate::source::Source;

    #[test]
    fn classes_and_times_are_read_and_have_defaults() {
        let settings = read(
            r#"{"shareHost": false, "sharing": {"servers": {"a": "user"}, "userIdleMinutes": 5}}"#,
        );
        assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
        let sharing = settings.sharing;
        assert!(!sharing.is_enabled());
        assert_eq!(sharing.class("a", None), Some((SharingClass::User, ClassOrigin::Settings)));
        assert_eq!(sharing.class("b", None), None);
        assert_eq!(sharing.idle_limit(SharingClass::User), Duration::from_secs(300));
        assert_eq!(sharing.idle_limit(SharingClass::Workspace), DEFAULT_IDLE);
        assert!(read("{}").sharing.is_enabled());
    }

    #[test]
    fn an_administrator_precedes_the_entry_and_the_entry_the_user() {
        let text = r#"{"sharing": {"servers": {"a": "session"}}}"#;
        let source = Source::file(Scope::Enterprise, "managed-settings.json");
        let managed = Settings::read(&source, text, Authority::Administrator).sharing;
        let own = read(r#"{"sharing": {"servers": {"a": "user", "b": "user"}}}"#).sharing;
        let both = managed.merge(own);
        let entry = Some(SharingClass::Workspace);
        assert_eq!(both.class("a", entry), Some((SharingClass::Session, ClassOrigin::Managed)));
        assert_eq!(both.class("b", entry), Some((SharingClass::Workspace, ClassOrigin::Entry)));
        assert_eq!(both.class("b", None), Some((SharingClass::User, ClassOrigin::Settings)));
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        let bad = read(
            r#"{"shareHost": "no", "sharing": {"servers": {"a": "all", "b": "user"}, "idle": 1}}"#,
        );
        assert_eq!(problem_keys(&bad), ["shareHost", "sharing.idle", "sharing.servers.a"]);
        assert_eq!(bad.sharing.class("a", None), None);
        assert!(bad.sharing.is_enabled() && bad.sharing.class("b", None).is_some());
    }
}
