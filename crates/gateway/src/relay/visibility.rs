//! What a principal may see. A tool or server that a deny rule hides does not exist for the principal.

use std::sync::Arc;

use switchboard::call::pipeline::CallContext;
use switchboard::pool::naming;
use switchboard::pool::tool::Tool;
use switchboard_config::permission::{self, PermissionEffect, RuleEntry};

use super::Relay;

impl Relay {
    /// The call context of a principal.
    pub(super) fn call_context(&self, principal: &Arc<str>) -> Arc<CallContext> {
        self.call_contexts.get(principal)
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
        let name = naming::sanitise_borrowed(&tool.name);
        permission::tool_hidden_by(&rules, &tool.prefix, &name).is_none()
    }

    /// Is the server visible to the principal? A principal that may call none of its tools sees nothing of it.
    pub(crate) fn shows_server(&self, principal: &Arc<str>, server: &str) -> bool {
        let rules = self.call_context(principal).rules.current();
        let catalogue = self.catalogues.borrow();
        let prefix = catalogue.servers.iter().find(|it| *it.server == *server).map(|it| &it.prefix);
        prefix.is_none_or(|it| permission::server_hidden_by(&rules, it).is_none())
    }
}
