//! The permission rules in effect while a host runs: the configured ones, those that the user added for the session or
//! permanently, and the tools whose results the session has seen, which rules may depend on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::permission::{PermissionEffect, PermissionRules, SeenTools, ToolRule};
use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use crate::permission::seen_store::{SeenStore, SeenStoreError, SeenTool};
use crate::permission::settings_file;
use crate::permission::settings_file::RuleFile;
use crate::sources::atomic_file::FileChangeError;
use crate::sources::paths::Paths;

/// The active rules. Clones share them.
#[derive(Debug, Clone)]
pub struct ActiveRules {
    /// Shared state: every call reads the rules, and a change must hold before the next call.
    sets: Shared<RuleSets>,
    /// What other processes have recorded for the same session, and where they read what is recorded here.
    elsewhere: Option<SeenElsewhere>,
    /// The file for permanent rules.
    file: Option<(Paths, RuleFile)>,
}

#[derive(Debug, Clone)]
struct SeenElsewhere {
    seen: Arc<SeenTools>,
    store: Arc<dyn SeenStore>,
}

#[derive(Debug, Clone)]
struct RuleSets {
    /// The rules of the configuration.
    configured: Arc<PermissionRules>,
    /// The rules added in this session.
    session: Vec<(PermissionEffect, ToolRule)>,
    /// Both combined.
    effective: Arc<PermissionRules>,
    /// The tools whose results the session has seen.
    seen: Arc<SeenTools>,
    /// When results of a server were seen last, where they are forgotten after some time.
    seen_at: BTreeMap<String, Instant>,
    memory: ResultMemory,
}

/// How long rules remember the results that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultMemory {
    /// As long as the session lasts.
    Session,
    /// For this time after the last result of a server, where there is no session that could end.
    For(Duration),
}

impl ActiveRules {
    /// Rules without a settings file: permanent rules last only for the session.
    pub fn new(rules: PermissionRules) -> ActiveRules {
        let sets = RuleSets::new(Arc::new(rules), ResultMemory::Session);
        ActiveRules { sets: Shared::new(sets), elsewhere: None, file: None }
    }

    /// Writes permanent rules to a settings file.
    pub fn with_settings_file(mut self, paths: Paths, file: RuleFile) -> ActiveRules {
        self.file = Some((paths, file));
        self
    }

    /// The same configured rules with separate session rules and nothing seen, for another client. Later changes of the configuration
    /// reach each copy only through [`ActiveRules::replace`]. Permanent rules still go to the owner's settings file,
    /// so only the owner may add them.
    pub fn fork(&self, memory: ResultMemory) -> ActiveRules {
        let configured = self.sets.read(|sets| sets.configured.clone());
        let sets = RuleSets::new(configured, memory);
        ActiveRules { sets: Shared::new(sets), elsewhere: None, file: self.file.clone() }
    }

    /// The same rules for one call, which also depend on what other processes have seen for the same session. What the call
    /// sees is recorded in the store as well.
    pub fn with_seen_elsewhere(
        &self,
        seen: Arc<SeenTools>,
        store: Arc<dyn SeenStore>,
    ) -> ActiveRules {
        let elsewhere = Some(SeenElsewhere { seen, store });
        ActiveRules { elsewhere, ..self.clone() }
    }

    /// These rules with one more, for a single call. Changes of either do not reach the other, except that permanent
    /// rules are written to the same file.
    pub fn with_rule(&self, effect: PermissionEffect, rule: ToolRule) -> ActiveRules {
        let mut rules = PermissionRules::clone(&self.current());
        rules.add_for_session(effect, rule);
        let (elsewhere, file) = (self.elsewhere.clone(), self.file.clone());
        let with_rule = ActiveRules { elsewhere, file, ..ActiveRules::new(rules) };
        let seen = self.sets.read(|sets| sets.seen.clone());
        with_rule.sets.update(|sets| sets.seen = seen);
        with_rule
    }

    /// The combined rules.
    pub fn current(&self) -> Arc<PermissionRules> {
        self.sets.read(|sets| sets.effective.clone())
    }

    /// The tools whose results the session has seen.
    pub fn seen(&self) -> Arc<SeenTools> {
        let now = Instant::now();
        let (seen, is_current) =
            self.sets.read(|sets| (sets.seen.clone(), !sets.has_forgotten(now)));
        let seen = match is_current {
            true => seen,
            false => self.sets.update(|sets| sets.forget(now)),
        };
        match &self.elsewhere {
            None => seen,
            Some(elsewhere) => {
                let mut all = SeenTools::clone(&seen);
                all.extend(&elsewhere.seen);
                Arc::new(all)
            }
        }
    }

    /// Records the same for other processes, where there are any. The names are those of rules.
    pub(crate) async fn share_seen(&self, tools: &[SeenTool]) -> Result<(), SeenStoreError> {
        match &self.elsewhere {
            None => Ok(()),
            Some(elsewhere) => elsewhere.store.record(tools).await,
        }
    }

    /// Records that the session sees results of a tool from now on. Both names are those of rules.
    pub fn record_seen(&self, server: &str, tool: &str) {
        let is_known = self
            .sets
            .read(|sets| sets.memory == ResultMemory::Session && sets.seen.contains(server, tool));
        if !is_known {
            self.sets.update(|sets| sets.record_seen(server, tool));
        }
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
        self.add_for_session(PermissionEffect::Allow, rule);
    }

    /// Adds a rule for the rest of the session.
    pub fn add_for_session(&self, effect: PermissionEffect, rule: ToolRule) {
        self.sets.update(|sets| {
            sets.session.push((effect, rule));
            sets.rebuild();
        });
    }

    /// Removes the rules of this session that are equal to one of these.
    pub fn remove_for_session(&self, effect: PermissionEffect, rules: &[ToolRule]) {
        self.sets.update(|sets| {
            sets.session.retain(|(kind, rule)| *kind != effect || !rules.contains(rule));
            sets.rebuild();
        });
    }

    /// Removes all rules of this session with this effect.
    pub fn clear_for_session(&self, effect: PermissionEffect) {
        self.sets.update(|sets| {
            sets.session.retain(|(kind, _)| *kind != effect);
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
    fn new(configured: Arc<PermissionRules>, memory: ResultMemory) -> RuleSets {
        RuleSets {
            effective: configured.clone(),
            configured,
            session: Vec::new(),
            seen: Arc::default(),
            seen_at: BTreeMap::new(),
            memory,
        }
    }

    fn record_seen(&mut self, server: &str, tool: &str) {
        if !self.seen.contains(server, tool) {
            Arc::make_mut(&mut self.seen).insert(server, tool);
        }
        if let ResultMemory::For(_) = self.memory {
            self.seen_at.insert(server.to_owned(), Instant::now());
        }
    }

    fn is_forgotten(&self, at: Instant, now: Instant) -> bool {
        match self.memory {
            ResultMemory::Session => false,
            ResultMemory::For(time) => now.duration_since(at) >= time,
        }
    }

    fn has_forgotten(&self, now: Instant) -> bool {
        self.seen_at.values().any(|at| self.is_forgotten(*at, now))
    }

    fn forget(&mut self, now: Instant) -> Arc<SeenTools> {
        let forgotten: Vec<String> = self
            .seen_at
            .iter()
            .filter(|(_, at)| self.is_forgotten(**at, now))
            .map(|(server, _)| server.clone())
            .collect();
        for server in forgotten {
            self.seen_at.remove(&server);
            Arc::make_mut(&mut self.seen).remove_server(&server);
        }
        self.seen.clone()
    }

    fn rebuild(&mut self) {
        let mut combined = PermissionRules::clone(&self.configured);
        for (effect, rule) in &self.session {
            combined.add_for_session(*effect, rule.clone());
        }
        self.effective = Arc::new(combined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::seen_store::SeenFuture;

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

    #[tokio::test(start_paused = true)]
    async fn what_a_client_has_seen_is_its_own_and_without_a_session_it_is_forgotten() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let base = ActiveRules::new(PermissionRules::default());
        base.record_seen("crm", "get");
        let session = base.fork(ResultMemory::Session);
        assert!(!session.seen().contains("crm", "get"), "that was another client");
        session.record_seen("crm", "get");
        let one_call = session.with_rule(PermissionEffect::Allow, rule("mcp__a"));
        assert!(one_call.seen().contains("crm", "get"));
        let without_session = base.fork(ResultMemory::For(DAY));
        without_session.record_seen("crm", "get");
        tokio::time::advance(DAY / 2).await;
        without_session.record_seen("wiki", "read");
        tokio::time::advance(DAY / 2).await;
        let seen = without_session.seen();
        assert!(!seen.contains("crm", "get") && seen.contains("wiki", "read"));
        assert!(session.seen().contains("crm", "get"));
    }

    /// Records what is recorded; refuses all if it is away.
    #[derive(Debug, Default)]
    struct Store {
        recorded: Shared<Vec<SeenTool>>,
        is_away: bool,
    }

    impl SeenStore for Store {
        fn record<'a>(&'a self, tools: &'a [SeenTool]) -> SeenFuture<'a> {
            self.recorded.update(|it| it.extend_from_slice(tools));
            let recorded = if self.is_away { Err(SeenStoreError) } else { Ok(()) };
            Box::pin(std::future::ready(recorded))
        }
    }

    #[tokio::test]
    async fn a_call_depends_on_what_other_processes_have_seen_and_tells_them() {
        let mut elsewhere = SeenTools::default();
        elsewhere.insert("crm", "get");
        let store = Arc::new(Store::default());
        let active = ActiveRules::new(PermissionRules::default());
        let call = active.with_seen_elsewhere(Arc::new(elsewhere), store.clone());
        call.record_seen("wiki", "read");
        assert!(active.seen().contains("wiki", "read") && !active.seen().contains("crm", "get"));
        let changed = call.with_rule(PermissionEffect::Allow, rule("mcp__a"));
        for rules in [&call, &changed] {
            let seen = rules.seen();
            assert!(seen.contains("crm", "get") && seen.contains("wiki", "read"));
            rules.share_seen(&[("wiki".to_owned(), "read".to_owned())]).await.expect("recorded");
        }
        assert_eq!(store.recorded.read(Vec::len), 2);
        let away = Arc::new(Store { is_away: true, ..Store::default() });
        let call = active.with_seen_elsewhere(Arc::default(), away);
        call.share_seen(&[]).await.expect_err("the call must not be made");
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
