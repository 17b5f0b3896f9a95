//! Reads `browser` of a settings file: whether conversations and commands have the browser server, and how it works.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::BROWSER_KEYS;
use crate::source::Authority;

/// The key of the section.
const KEY: &str = "browser";

/// How the browser server works. Absent values have defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowserSection {
    /// Whether conversations and commands have it without an option.
    pub enabled: Option<bool>,
    /// Whether it has a window.
    pub window: Option<bool>,
    /// The name of its profile.
    pub profile: Option<String>,
    /// The debugging endpoint of a browser that already runs.
    pub endpoint: Option<String>,
    /// The program.
    pub program: Option<String>,
    /// The origins that may be opened.
    pub origins: Option<Vec<String>>,
    /// The hosts that are never reached: those of all files.
    pub blocked: Vec<String>,
    /// Whether a model may run scripts in pages.
    pub scripts: Option<bool>,
    /// What an administrator has set, which options do not change.
    pub managed: ManagedBrowser,
}

/// What an administrator has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedBrowser {
    /// The origins that may be opened.
    pub origins: Option<Vec<String>>,
    /// The browser server does not exist.
    pub is_forbidden: bool,
    /// Scripts cannot be run.
    pub forbids_scripts: bool,
}

impl BrowserSection {
    /// These settings, completed by those of a file that comes later. Earlier files take precedence; blocked hosts add up.
    pub fn merge(self, later: BrowserSection) -> BrowserSection {
        BrowserSection {
            enabled: self.enabled.or(later.enabled),
            window: self.window.or(later.window),
            profile: self.profile.or(later.profile),
            endpoint: self.endpoint.or(later.endpoint),
            program: self.program.or(later.program),
            origins: self.origins.or(later.origins),
            blocked: [self.blocked, later.blocked].concat(),
            scripts: self.scripts.or(later.scripts),
            managed: ManagedBrowser {
                origins: self.managed.origins.or(later.managed.origins),
                is_forbidden: self.managed.is_forbidden || later.managed.is_forbidden,
                forbids_scripts: self.managed.forbids_scripts || later.managed.forbids_scripts,
            },
        }
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> BrowserSection {
    let Some(mut section) = Section::open(members, KEY, BROWSER_KEYS, reporter) else {
        return BrowserSection::default();
    };
    let mut settings = BrowserSection {
        enabled: section.boolean("enabled"),
        window: section.boolean("window"),
        profile: section.string("profile"),
        endpoint: section.string("endpoint"),
        program: section.string("program"),
        origins: section.strings("origins"),
        blocked: section.strings("blocked").unwrap_or_default(),
        scripts: section.boolean("scripts"),
        managed: ManagedBrowser::default(),
    };
    if authority == Authority::Administrator {
        settings.managed = ManagedBrowser {
            origins: settings.origins.clone(),
            is_forbidden: settings.enabled == Some(false),
            forbids_scripts: settings.scripts == Some(false),
        };
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read};
    use crate::source::Source;

    #[test]
    fn values_are_read_and_hosts_are_blocked_by_every_file() {
        let one = read(
            r#"{"browser": {"enabled": true, "profile": "work", "origins": ["localhost:3000"], "blocked": ["a.org"]}}"#,
        );
        assert!(one.layer.problems.is_empty(), "{:?}", one.layer.problems);
        let other = read(
            r#"{"browser": {"profile": "other", "window": true, "blocked": ["b.org"], "scripts": false}}"#,
        );
        let both = one.browser.merge(other.browser);
        let expected = BrowserSection {
            enabled: Some(true),
            window: Some(true),
            profile: Some("work".to_owned()),
            origins: Some(vec!["localhost:3000".to_owned()]),
            blocked: vec!["a.org".to_owned(), "b.org".to_owned()],
            scripts: Some(false),
            ..BrowserSection::default()
        };
        assert_eq!(both, expected);
    }

    #[test]
    fn an_administrator_limits_what_options_can_do() {
        let text =
            r#"{"browser": {"enabled": false, "origins": ["intra.example"], "scripts": false}}"#;
        let source = Source::file(Scope::Enterprise, "managed-settings.json");
        let managed = Settings::read(&source, text, Authority::Administrator).browser;
        let own =
            read(r#"{"browser": {"enabled": true, "origins": ["*"], "scripts": true}}"#).browser;
        let managed = managed.merge(own).managed;
        assert!(managed.is_forbidden && managed.forbids_scripts);
        assert_eq!(managed.origins, Some(vec!["intra.example".to_owned()]));
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        let bad = read(
            r#"{"browser": {"enabled": "yes", "origins": ["a", 1], "window": 1, "headless": true}}"#,
        );
        assert_eq!(
            problem_keys(&bad),
            ["browser.headless", "browser.enabled", "browser.window", "browser.origins"]
        );
        assert_eq!(bad.browser, BrowserSection::default());
    }
}
