//! What a principal may see. A tool or server that a deny rule hides does not exist for the principal.

use std::sync::Arc;

use switchboard::CallContext;
use switchboard::pool::Tool;
use switchboard_config::permission::{self, PermissionEffect, PermissionRules, RuleEntry};

use super::Relay;
use crate::downstream::client::Client;

impl Relay {
    /// The call context of a principal.
    pub(crate) fn call_context(&self, principal: &Arc<str>) -> Arc<CallContext> {
        self.call_contexts.get(principal)
    }

    /// The rules of a principal outside of any session, and the context with everything else that decides.
    pub(crate) fn rules_of(&self, principal: &str) -> (Arc<PermissionRules>, &CallContext) {
        (self.call_contexts.rules_of(principal), self.call_contexts.base())
    }

    /// The call context of a client: that of its session, where it has one.
    pub(super) fn client_context(&self, client: &Client) -> Arc<CallContext> {
        match client.has_own_context() {
            true => self.call_contexts.get_for_session(&client.principal, client.session),
            false => self.call_contexts.get(&client.principal),
        }
    }

    /// Can the principal's rules hide anything?
    pub(super) fn hides_anything(&self, principal: &Arc<str>) -> bool {
        let denies = |it: &RuleEntry| it.effect == PermissionEffect::Deny;
        let rules = self.call_context(principal).rules.current();
        rules.entries().iter().any(denies)
    }

    /// Is the tool visible to the principal?
    pub(super) fn shows_tool(&self, principal: &Arc<str>, tool: &Tool) -> bool {
        let rules = self.call_context(principal).rules.current();
        let name = tool.rule_name();
        permission::tool_hidden_by(&rules, &tool.prefix, &name).is_none()
    }

    /// Is the server visible to the principal? A principal that may call none of its tools sees nothing of it.
    pub(crate) fn shows_server(&self, principal: &Arc<str>, server: &str) -> bool {
        let rules = self.call_context(principal).rules.current();
        let catalogue = self.catalogues.borrow();
        let prefix = catalogue.prefixes.get(server);
        prefix.is_none_or(|it| permission::server_hidden_by(&rules, it).is_none())
    }
}
