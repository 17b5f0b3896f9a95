//! The rules that calls are judged by while a host runs: those of the configuration, and what somebody answered for
//! the session or for good.

use std::sync::Arc;

use switchboard_config::permission::{PermissionEffect, PermissionRules, ToolRule};
use tokio::sync::watch;

use crate::permission::settings_file;
use crate::permission::settings_file::RuleFile;
use crate::sources::atomic_file::FileChangeError;
use crate::sources::paths::Paths;

/// The rules. Clones share them.
#[derive(Debug, Clone)]
pub struct ActiveRules {
    sets: watch::Sender<RuleSets>,
    /// Where an answer for good is written.
    file: Option<(Paths, RuleFile)>,
}

#[derive(Debug, Clone)]
struct RuleSets {
    /// What the configuration says.
    configured: Arc<PermissionRules>,
    /// What was said since.
    session: Vec<ToolRule>,
    /// Both.
    effective: Arc<PermissionRules>,
}

impl ActiveRules {
    /// Rules whose answers for good are forgotten with the session.
    pub fn new(rules: PermissionRules) -> ActiveRules {
        let configured = Arc::new(rules);
        let sets = RuleSets { effective: configured.clone(), configured, session: Vec::new() };
        ActiveRules { sets: watch::Sender::new(sets), file: None }
    }

    /// The same, with answers for good written to a settings file.
    pub fn with_settings_file(mut self, paths: Paths, file: RuleFile) -> ActiveRules {
        self.file = Some((paths, file));
        self
    }

    /// The same rules for somebody else, whose answers for a session are their own. The configuration's changes reach
    /// both only through [`Rulebook::replace`]. Answers for good are still written to the owner's settings, so that only
    /// whoever owns them may give one.
    pub fn fork(&self) -> ActiveRules {
        let configured = self.sets.borrow().configured.clone();
        let sets = RuleSets { effective: configured.clone(), configured, session: Vec::new() };
        ActiveRules { sets: watch::Sender::new(sets), file: self.file.clone() }
    }

    /// The rules now.
    pub fn current(&self) -> Arc<PermissionRules> {
        self.sets.borrow().effective.clone()
    }

    /// The configuration changed. What was said in this session still holds.
    pub fn replace(&self, rules: PermissionRules) {
        self.sets.send_modify(|sets| {
            sets.configured = Arc::new(rules);
            sets.rebuild();
        });
    }

    /// Allows something for as long as the session lasts.
    pub fn allow_for_session(&self, rule: ToolRule) {
        self.sets.send_modify(|sets| {
            sets.session.push(rule);
            sets.rebuild();
        });
    }

    /// Allows something for good. Where that cannot be written it holds for the session, and the error says why.
    /// Blocks for the disk.
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
        let mut all = PermissionRules::clone(&self.configured);
        for rule in &self.session {
            all.add_for_session(PermissionEffect::Allow, rule.clone());
        }
        self.effective = Arc::new(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> ToolRule {
        ToolRule::parse(text).expect("a rule")
    }

    #[test]
    fn what_was_said_in_a_session_outlives_a_change_of_the_configuration() {
        let book = ActiveRules::new(PermissionRules::default());
        book.allow_for_session(rule("mcp__a__b"));
        assert_eq!(book.current().entries().len(), 1);
        book.replace(PermissionRules::default());
        assert_eq!(book.current().entries().len(), 1);
    }

    #[test]
    fn what_is_allowed_for_good_is_written_to_the_projects_local_settings() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let below = |name: &str| folder.path().join(name);
        let paths = Paths {
            config: below("config"),
            data: below("data"),
            state: below("state"),
            managed: below("managed"),
        };
        let file = RuleFile::Local { project_root: "/srv/app".into() };
        let path = file.path(&paths);
        let book = ActiveRules::new(PermissionRules::default()).with_settings_file(paths, file);
        book.allow_always(rule("mcp__a__b")).expect("written");
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(text.contains("\"mcp__a__b\""), "{text}");
    }
}
