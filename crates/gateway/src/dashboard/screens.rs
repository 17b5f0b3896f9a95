//! The screens, by path and query.

mod approvals;
mod call;
mod calls;
mod clients;
mod logins;
mod overview;
mod policy;
mod policy_simulation;
mod replicas;
mod run;
mod server;
mod server_lists;
pub(crate) mod tool;
mod tools;
mod usage;

use super::context::ScreenContext;
use super::form::Form;
use super::page::{RenderScope, View};
use super::usage_report::Period;

use calls::CallFilter;
use policy::PolicyScreen;
use server::ServerScreen;
use tool::ToolScreen;
use tools::ToolsScreen;

/// A screen, and what its query says.
pub(crate) enum Screen {
    Overview,
    Server(ServerScreen),
    Tools(ToolsScreen),
    Tool(ToolScreen),
    /// A call that was started here, by its number.
    Run(u64),
    Calls(CallFilter),
    /// A call of the audit log, by its id.
    Call(String),
    Approvals,
    Clients,
    Policy(PolicyScreen),
    Logins,
    Usage(Period),
}

impl Screen {
    /// The screen of a path. None if there is none.
    pub(crate) fn parse(path: &str, query: &Form) -> Option<Screen> {
        Some(match path {
            "/ui/" => Screen::Overview,
            "/ui/server" => Screen::Server(ServerScreen::parse(query)),
            "/ui/tools" => Screen::Tools(ToolsScreen::parse(query)),
            "/ui/tool" => Screen::Tool(ToolScreen::parse(query)),
            "/ui/run" => Screen::Run(query.text("id").parse().ok()?),
            "/ui/calls" => Screen::Calls(CallFilter::parse(query)),
            "/ui/call" => Screen::Call(query.text("id").to_owned()),
            "/ui/approvals" => Screen::Approvals,
            "/ui/clients" => Screen::Clients,
            "/ui/policy" => Screen::Policy(PolicyScreen::parse(query)),
            "/ui/logins" => Screen::Logins,
            "/ui/usage" => Screen::Usage(Period::parse(query.text("period"))),
            _ => return None,
        })
    }

    /// Renders the screen as it is now.
    pub(crate) async fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        match self {
            Screen::Overview => overview::render(context, scope).await,
            Screen::Server(it) => it.render(context, scope).await,
            Screen::Tools(it) => it.render(context, scope).await,
            Screen::Tool(it) => it.render(context, scope),
            Screen::Run(id) => run::render(*id, context).await,
            Screen::Calls(it) => it.render(context, scope).await,
            Screen::Call(id) => call::render(id, context, scope).await,
            Screen::Approvals => approvals::render(context),
            Screen::Clients => clients::render(context).await,
            Screen::Policy(it) => it.render(context, scope).await,
            Screen::Logins => logins::render(context, scope).await,
            Screen::Usage(period) => usage::render(*period, context).await,
        }
    }
}
