//! The call context of each principal and session: the gateway's own context with the principal's rules, and with the
//! grants of the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard::CallContext;
use switchboard::permission::{ActiveRules, ResultMemory};
use switchboard_config::permission::{NOTHING_SEEN, PermissionRules};
use switchboard_config::settings::principals::Principals;
use switchboard_wire::shared::Shared;

/// The largest number of contexts. Beyond it, one is dropped for each new one, and with it its session grants.
const MAX_CALL_CONTEXTS: usize = 40_000;
/// How long rules remember the results of a server that a principal has seen outside of sessions.
pub(super) const SEEN_WITHOUT_SESSION: Duration = Duration::from_secs(24 * 3600);
/// The session of a context that belongs to no session.
const NO_SESSION: u64 = 0;

/// The call contexts of all principals and sessions.
#[derive(Debug)]
pub(super) struct CallContexts<C = CallContext> {
    base: C,
    base_rules: ActiveRules,
    with_rules: fn(&C, ActiveRules) -> C,
    /// Shared state: every request reads its context, and new rules must hold before `set_rules` returns.
    state: Shared<PrincipalState<C>>,
    /// How often any context was used.
    uses: AtomicU64,
}

/// The rules of principals, and the contexts made from them. Both change together: a context that is created while the
/// rules are replaced has either the new rules, or is in the map when the rules are replaced there.
#[derive(Debug)]
struct PrincipalState<C> {
    principals: Principals,
    contexts: HashMap<ContextKey, PrincipalContext<C>>,
    max_contexts: usize,
}

/// The principal and the session.
type ContextKey = (Arc<str>, u64);

/// The context of a principal in a session, and the rules in it.
#[derive(Debug)]
struct PrincipalContext<C> {
    rules: ActiveRules,
    context: Arc<C>,
    /// Counts up with each use of any context.
    last_use: AtomicU64,
}

impl<C> PrincipalState<C> {
    /// Removes the context that was not used for the longest time; one that has seen results only if all have, because
    /// rules may depend on them.
    fn remove_one(&mut self) {
        let has_seen = |it: &PrincipalContext<C>| *it.rules.seen() != NOTHING_SEEN;
        let oldest = self.contexts.iter().min_by_key(|(_, it)| {
            let last_use = it.last_use.load(Ordering::Relaxed);
            (has_seen(it), last_use)
        });
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.contexts.remove(&key);
        }
    }
}

impl CallContexts {
    pub(super) fn new(base: CallContext) -> CallContexts {
        let rules = base.rules.clone();
        CallContexts::with_base(base, rules, |base, rules| CallContext { rules, ..base.clone() })
    }
}

impl<C> CallContexts<C> {
    fn with_base(
        base: C,
        base_rules: ActiveRules,
        with_rules: fn(&C, ActiveRules) -> C,
    ) -> CallContexts<C> {
        let state = PrincipalState {
            principals: Principals::default(),
            contexts: HashMap::new(),
            max_contexts: MAX_CALL_CONTEXTS,
        };
        CallContexts {
            base,
            base_rules,
            with_rules,
            state: Shared::new(state),
            uses: AtomicU64::new(0),
        }
    }

    /// The context of a principal outside of any session, created at its first use.
    pub(super) fn get(&self, principal: &Arc<str>) -> Arc<C> {
        self.get_or_create((principal.clone(), NO_SESSION))
    }

    /// The context that all others are made from.
    pub(super) fn base(&self) -> &C {
        &self.base
    }

    /// The rules of a principal outside of any session. Creates no context, so that any name may be asked for.
    pub(super) fn rules_of(&self, principal: &str) -> Arc<PermissionRules> {
        self.state.read(|state| match state.principals.rules(principal) {
            None => self.base_rules.current(),
            Some(own) => Arc::new(self.base_rules.current().as_ref().clone().merge(own)),
        })
    }

    /// The context of a principal in a session, created at its first use. Grants for one session do not hold in another,
    /// which may be that of another program with the same credentials.
    pub(super) fn get_for_session(&self, principal: &Arc<str>, session: u64) -> Arc<C> {
        self.get_or_create((principal.clone(), session))
    }

    /// Removes the context of a session that has ended.
    pub(super) fn remove_session(&self, principal: &Arc<str>, session: u64) {
        self.state.update(|state| state.contexts.remove(&(principal.clone(), session)));
    }

    fn get_or_create(&self, key: ContextKey) -> Arc<C> {
        let known = self.state.read(|state| {
            let known = state.contexts.get(&key)?;
            known.last_use.store(self.next_use(), Ordering::Relaxed);
            Some(known.context.clone())
        });
        known.unwrap_or_else(|| self.state.update(|state| self.create(state, key)))
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn create(&self, state: &mut PrincipalState<C>, key: ContextKey) -> Arc<C> {
        // Another request may have created it since it was looked up.
        if let Some(known) = state.contexts.get(&key) {
            return known.context.clone();
        }
        let principal = &key.0;
        let memory = match key.1 {
            NO_SESSION => ResultMemory::For(SEEN_WITHOUT_SESSION),
            _ => ResultMemory::Session,
        };
        let rules = self.base_rules.fork(memory);
        if let Some(own) = state.principals.rules(principal) {
            rules.replace(self.base_rules.current().as_ref().clone().merge(own));
        }
        let context = Arc::new((self.with_rules)(&self.base, rules.clone()));
        if state.contexts.len() >= state.max_contexts {
            state.remove_one();
        }
        let last_use = AtomicU64::new(self.next_use());
        let entry = PrincipalContext { rules, context: context.clone(), last_use };
        state.contexts.insert(key, entry);
        context
    }

    /// Replaces the rules of all contexts. Session grants stay.
    pub(super) fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.state.update(|state| {
            self.base_rules.replace(rules.clone());
            state.principals = principals.clone();
            for ((principal, _), known) in &state.contexts {
                let own = principals.rules(principal).unwrap_or_default();
                known.rules.replace(rules.clone().merge(own));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use switchboard_config::permission::{PermissionEffect, ToolRule};

    use super::*;

    /// A context that is only the principal's rules.
    #[derive(Debug, Clone)]
    struct RulesOnly {
        rules: ActiveRules,
        pause: Option<Arc<Pause>>,
    }

    /// Stops the creation of a context: says that it has started, and waits for the rules to be replaced.
    #[derive(Debug)]
    struct Pause {
        started: Sender<()>,
        replaced: Mutex<Receiver<()>>,
    }

    fn contexts(pause: Option<Arc<Pause>>) -> CallContexts<RulesOnly> {
        let rules = ActiveRules::new(PermissionRules::default());
        let base = RulesOnly { rules: rules.clone(), pause };
        CallContexts::with_base(base, rules, |base, rules| {
            if let Some(pause) = &base.pause {
                pause.started.send(()).expect("the test waits");
                // Times out where the rules cannot be replaced meanwhile.
                let replaced = pause.replaced.lock().expect("not poisoned");
                let _replaced = replaced.recv_timeout(Duration::from_millis(100));
            }
            RulesOnly { rules, pause: None }
        })
    }

    fn deny(tool: &str) -> PermissionRules {
        let mut rules = PermissionRules::default();
        let rule = ToolRule::parse(tool).expect("a rule");
        rules.add_for_session(PermissionEffect::Deny, rule);
        rules
    }

    fn rule_count(contexts: &CallContexts<RulesOnly>, principal: &Arc<str>) -> usize {
        contexts.get(principal).rules.current().entries().len()
    }

    #[test]
    fn a_new_principal_gets_the_rules_that_are_set_while_its_context_is_created() {
        let (started, is_started) = channel();
        let (replaced, is_replaced) = channel();
        let pause = Pause { started, replaced: Mutex::new(is_replaced) };
        let contexts = contexts(Some(Arc::new(pause)));
        let ada: Arc<str> = "ada".into();
        thread::scope(|scope| {
            let creation = scope.spawn(|| contexts.get(&ada));
            is_started.recv().expect("the context is being created");
            contexts.set_rules(&deny("mcp__a__b"), &Principals::default());
            let _creation_timed_out = replaced.send(());
            creation.join().expect("a context");
        });
        assert_eq!(rule_count(&contexts, &ada), 1);
    }

    #[test]
    fn a_grant_holds_in_its_session_only_and_new_rules_hold_in_all() {
        let contexts = contexts(None);
        let ada: Arc<str> = "ada".into();
        let count =
            |session: u64| contexts.get_for_session(&ada, session).rules.current().entries().len();
        let grant = ToolRule::parse("mcp__a__b").expect("a rule");
        contexts.get_for_session(&ada, 1).rules.allow_for_session(grant);
        assert_eq!((count(1), count(2), rule_count(&contexts, &ada)), (1, 0, 0));
        contexts.set_rules(&deny("mcp__c__d"), &Principals::default());
        assert_eq!((count(1), count(2), rule_count(&contexts, &ada)), (2, 1, 1));
        contexts.remove_session(&ada, 1);
        assert_eq!(count(1), 1);
    }

    #[test]
    fn beyond_the_limit_only_the_context_that_is_unused_for_longest_is_dropped() {
        let contexts = contexts(None);
        contexts.state.update(|state| state.max_contexts = 3);
        let ada: Arc<str> = "ada".into();
        let session = |number: u64| contexts.get_for_session(&ada, number);
        let has = |number: u64| {
            contexts.state.read(|state| state.contexts.contains_key(&(ada.clone(), number)))
        };
        session(1).rules.record_seen("crm", "get");
        session(2);
        session(3);
        session(2);
        session(4);
        assert_eq!([1, 2, 3, 4].map(has), [true, true, false, true], "the first has seen results");
        assert!(session(1).rules.seen().contains("crm", "get"));
    }
}
