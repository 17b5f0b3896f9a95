//! The rules that calls are judged by while a host runs: those of the configuration, and what somebody answered for
//! the session or for good.

use std::sync::Arc;

use switchboard_config::permission::{Effect, Rules, ToolRule};
use tokio::sync::watch;

use crate::places::Places;
use crate::ruling::{self, RuleFile};
use crate::store::StoreError;

/// The rules. Clones share them.
#[derive(Debug, Clone)]
pub struct Rulebook {
    pages: watch::Sender<Pages>,
    /// Where an answer for good is written.
    file: Option<(Places, RuleFile)>,
}

#[derive(Debug, Clone)]
struct Pages {
    /// What the configuration says.
    configured: Arc<Rules>,
    /// What was said since.
    added: Vec<ToolRule>,
    /// Both.
    all: Arc<Rules>,
}

impl Rulebook {
    /// Rules whose answers for good are forgotten with the session.
    pub fn new(rules: Rules) -> Rulebook {
        let configured = Arc::new(rules);
        let pages = Pages { all: configured.clone(), configured, added: Vec::new() };
        Rulebook { pages: watch::Sender::new(pages), file: None }
    }

    /// The same, with answers for good written to a settings file.
    pub fn kept_in(mut self, places: Places, file: RuleFile) -> Rulebook {
        self.file = Some((places, file));
        self
    }

    /// The same rules for somebody else, whose answers for a session are their own. The configuration's changes reach
    /// both only through [`Rulebook::replace`]. Answers for good are still written to the owner's settings, so that only
    /// whoever owns them may give one.
    pub fn for_another(&self) -> Rulebook {
        let configured = self.pages.borrow().configured.clone();
        let pages = Pages { all: configured.clone(), configured, added: Vec::new() };
        Rulebook { pages: watch::Sender::new(pages), file: self.file.clone() }
    }

    /// The rules now.
    pub fn now(&self) -> Arc<Rules> {
        self.pages.borrow().all.clone()
    }

    /// The configuration changed. What was said in this session still holds.
    pub fn replace(&self, rules: Rules) {
        self.pages.send_modify(|pages| {
            pages.configured = Arc::new(rules);
            pages.bind();
        });
    }

    /// Allows something for as long as the session lasts.
    pub fn allow_for_session(&self, rule: ToolRule) {
        self.pages.send_modify(|pages| {
            pages.added.push(rule);
            pages.bind();
        });
    }

    /// Allows something for good. Where that cannot be written it holds for the session, and the error says why.
    /// Blocks for the disk.
    pub fn allow_for_good(&self, rule: ToolRule) -> Result<(), StoreError> {
        self.allow_for_session(rule.clone());
        match &self.file {
            Some((places, file)) => {
                ruling::add_rules(places, file, Effect::Allow, &[rule]).map(|_| ())
            }
            None => Ok(()),
        }
    }
}

impl Pages {
    fn bind(&mut self) {
        let mut all = Rules::clone(&self.configured);
        for rule in &self.added {
            all.add_for_session(Effect::Allow, rule.clone());
        }
        self.all = Arc::new(all);
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
        let book = Rulebook::new(Rules::default());
        book.allow_for_session(rule("mcp__a__b"));
        assert_eq!(book.now().listed().len(), 1);
        book.replace(Rules::default());
        assert_eq!(book.now().listed().len(), 1);
    }

    #[test]
    fn what_is_allowed_for_good_is_written_to_the_projects_local_settings() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let below = |name: &str| folder.path().join(name);
        let places = Places {
            config: below("config"),
            data: below("data"),
            state: below("state"),
            managed: below("managed"),
        };
        let file = RuleFile::Local { project_root: "/srv/app".into() };
        let path = file.path(&places);
        let book = Rulebook::new(Rules::default()).kept_in(places, file);
        book.allow_for_good(rule("mcp__a__b")).expect("written");
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(text.contains("\"mcp__a__b\""), "{text}");
    }
}
