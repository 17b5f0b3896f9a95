//! The permission rules in effect while a host runs: the configured ones, and those that the user added for the
//! session or permanently.

use std::sync::Arc;

use switchboard_config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard_wire::shared::Shared;

use crate::permission::settings_file;
use crate::permission::settings_file::RuleFile;
use crate::sources::atomic_file::FileChangeError;
use crate::sources::paths::Paths;

/// The active rules. Clones share them.
#[derive(Debug, Clone)]
pub struct ActiveRules {
    /// Shared state: every call reads the rules, and a change must hold before the next call.
    sets: Shared<RuleSets>,
    /// The file for permanent rules.
    file: Option<(Paths, RuleFile)>,
}

#[derive(Debug, Clone)]
struct RuleSets {
    /// The rules of the configuration.
    configured: Arc<PermissionRules>,
    /// The rules added in this session.
    session: Vec<ToolRule>,
    /// Both combined.
    effective: Arc<PermissionRules>,
}

impl ActiveRules {
    /// Rules without a settings file: permanent rules last only for the session.
    pub fn new(rules: PermissionRules) -> ActiveRules {
        let configured = Arc::new(rules);
        let sets = RuleSets { effective: configured.clone(), configured, session: Vec::new() };
        ActiveRules { sets: Shared::new(sets), file: None }
    }

    /// Writes permanent rules to a settings file.
    pub fn with_settings_file(mut self, paths: Paths, file: RuleFile) -> ActiveRules {
        self.file = Some((paths, file));
        self
    }

    /// The same configured rules with separate session rules, for another client. Later changes of the configuration
    /// reach each copy only through [`ActiveRules::replace`]. Permanent rules still go to the owner's settings file,
    /// so only the owner may add them.
    pub fn fork(&self) -> ActiveRules {
        let configured = self.sets.read(|sets| sets.configured.clone());
        let sets = RuleSets { effective: configured.clone(), configured, session: Vec::new() };
        ActiveRules { sets: Shared::new(sets), file: self.file.clone() }
    }

    /// The combined rules.
    pub fn current(&self) -> Arc<PermissionRules> {
        self.sets.read(|sets| sets.effective.clone())
    }

    /// Replaces the configured rules. Session rules stay.
    pub fn replace(&self, rules: PermissionRules) {
        self.sets.update(|sets| {
            sets.configured = Arc::new(rules);
            sets.rebuild();
        });
    }

    /// Allows the calls that a rule matches for the rest of the session.
    pub fn allow_for_session(&self, rule: ToolRule) {
        self.sets.update(|sets| {
            sets.session.push(rule);
            sets.rebuild();
        });
    }

    /// Allows the calls that a rule matches permanently. If the rule cannot be written, it holds for the session and
    /// an error is returned. Blocks on the disk.
    pub fn allow_always(&self, rule: ToolRule) -> Result<(), FileChangeError> {
        self.allow_for_session(rule.clone());
        match &self.file {
            Some((paths, file)) => {
                settings_file::add_rules(paths, file, PermissionEffect::Allow, &[rule]).map(|_| ())
            }
            None => Ok(()),
        }
    }
}

impl RuleSets {
    fn rebuild(&mut self) {
        let mut combined = PermissionRules::clone(&self.configured);
        for rule in &self.session {
            combined.add_for_session(PermissionEffect::Allow, rule.clone());
        }
        self.effective = Arc::new(combined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> ToolRule {
        ToolRule::parse(text).expect("a rule")
    }

    #[test]
    fn session_rules_survive_a_change_of_the_configuration() {
        let active = ActiveRules::new(PermissionRules::default());
        active.allow_for_session(rule("mcp__a__b"));
        assert_eq!(active.current().entries().len(), 1);
        active.replace(PermissionRules::default());
        assert_eq!(active.current().entries().len(), 1);
    }

    #[test]
    fn permanent_rules_are_written_to_the_projects_local_settings() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let subfolder = |name: &str| folder.path().join(name);
        let paths = Paths {
            config: subfolder("config"),
            data: subfolder("data"),
            state: subfolder("state"),
            managed: subfolder("managed"),
        };
        let file = RuleFile::Local { project_root: "/srv/app".into() };
        let path = file.path(&paths);
        let active = ActiveRules::new(PermissionRules::default()).with_settings_file(paths, file);
        active.allow_always(rule("mcp__a__b")).expect("written");
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(text.contains("\"mcp__a__b\""), "{text}");
    }
}
