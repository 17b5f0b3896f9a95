//! The call context of each principal: the gateway's own context with the principal's rules and session grants.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard::call::pipeline::CallContext;
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::principals::Principals;
use tokio::sync::watch;

/// The largest number of principals with a context. Beyond it all contexts are dropped, and with them session grants.
const MAX_CALL_CONTEXTS: usize = 10_000;

/// The call contexts of all principals.
#[derive(Debug)]
pub(super) struct CallContexts {
    base: CallContext,
    principals: watch::Sender<Principals>,
    contexts: watch::Sender<HashMap<Arc<str>, Arc<CallContext>>>,
}

impl CallContexts {
    pub(super) fn new(base: CallContext) -> CallContexts {
        CallContexts {
            base,
            principals: watch::Sender::default(),
            contexts: watch::Sender::default(),
        }
    }

    /// The context of a principal, created at its first use.
    pub(super) fn get(&self, principal: &Arc<str>) -> Arc<CallContext> {
        if let Some(context) = self.contexts.borrow().get(principal) {
            return context.clone();
        }
        let mut context = self.base.clone();
        context.rules = context.rules.fork();
        if let Some(own) = self.principals.borrow().rules(principal) {
            context.rules.replace(self.base.rules.current().as_ref().clone().merge(own));
        }
        let context = Arc::new(context);
        let mut context_in_map = context.clone();
        self.contexts.send_modify(|contexts| {
            if contexts.len() >= MAX_CALL_CONTEXTS {
                contexts.clear();
            }
            context_in_map = contexts.entry(principal.clone()).or_insert(context).clone();
        });
        context_in_map
    }

    /// Replaces the rules of all contexts. Session grants stay.
    pub(super) fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.base.rules.replace(rules.clone());
        self.principals.send_replace(principals.clone());
        for (principal, context) in self.contexts.borrow().iter() {
            let own = principals.rules(principal).unwrap_or_default();
            context.rules.replace(rules.clone().merge(own));
        }
    }
}
