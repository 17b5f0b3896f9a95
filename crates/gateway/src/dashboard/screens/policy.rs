//! What is refused and why: the policy on servers, the permission rules, an explanation for one call, and a simulation of
//! other rules.

use maud::{Markup, html};
use serde_json::Value as Json;
use switchboard::permission::rule_request;
use switchboard::pool::Tool;
use switchboard_config::permission::{
    self, CallRequest, ConsideredRule, NOTHING_SEEN, PermissionMode, ToolHints, Trust,
};

use super::policy_simulation::{SimulationForm, mode_choice};
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::{Form, link};
use crate::dashboard::operator::{ConfiguredServer, OperatorView, RuleLine};
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{Tone, badge, name, nothing, prose, shown};

/// The most rows of a table, and the most tools that the form offers.
const MAX_ROWS: usize = 500;
/// What the query of the screen says.
pub(crate) struct PolicyScreen {
    tool: String,
    principal: String,
    arguments: String,
    mode: String,
    simulation: SimulationForm,
}

/// What the rules say about a call.
pub(super) struct Verdict {
    pub(super) effect: &'static str,
    pub(super) reason: String,
    mode: PermissionMode,
    considered: Vec<ConsideredRule>,
}

/// What the rules of a principal say about a call.
pub(super) fn verdict(
    context: &ScreenContext<'_>,
    tool: &Tool,
    principal: &str,
    arguments: &Json,
    mode: Option<PermissionMode>,
) -> Verdict {
    let settings = context.parts.gateway.relay.rules_of(principal).1;
    let rule_name = tool.rule_name();
    let names = (tool.prefix.as_str(), &*rule_name);
    let request = rule_request(&settings.trusted_servers, tool, names, arguments);
    verdict_on(context, &request, principal, mode)
}

/// What the rules of a principal say about a call as they see it.
fn verdict_on(
    context: &ScreenContext<'_>,
    request: &CallRequest<'_>,
    principal: &str,
    mode: Option<PermissionMode>,
) -> Verdict {
    let (rules, settings) = context.parts.gateway.relay.rules_of(principal);
    let explanation = permission::explain(&rules, request, mode.unwrap_or(settings.mode));
    Verdict {
        effect: explanation.decision.effect.id(),
        // The tables of the screen say where each rule is.
        reason: explanation.decision.reason.without_paths(),
        mode: explanation.mode,
        considered: explanation.considered,
    }
}

impl PolicyScreen {
    pub(super) fn parse(query: &Form) -> PolicyScreen {
        let text = |name| query.text(name).to_owned();
        PolicyScreen {
            tool: text("tool"),
            principal: text("principal"),
            arguments: text("arguments"),
            mode: text("mode"),
            simulation: SimulationForm::parse(query),
        }
    }

    pub(super) async fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        let mut sections = Vec::new();
        if scope == RenderScope::Page {
            let heading = html! { h1 { "Policy" } };
            sections.push(Section::Static(heading));
            sections.push(Section::Static(self.explanation(&context)));
            sections.push(Section::Static(self.simulation.render(&context).await));
            sections.push(Section::Static(match context.parts.configuration().await {
                Ok(configuration) => configured(&configuration),
                Err(why) => html! { p.notice.problem { (shown(&why, 300)) } },
            }));
        }
        View::new("Policy", NavItem::Policy, sections)
    }

    fn explanation(&self, context: &ScreenContext<'_>) -> Markup {
        let pool = context.parts.gateway.relay.host.pool();
        html! {
            section.panel aria-labelledby="explain-heading" {
                h2 #explain-heading { "Explain a call" }
                form.filter method="get" action="/ui/policy" {
                    label.grow { "Tool " input type="text" name="tool" value=(self.tool) list="tool-names" autocomplete="off"; }
                    datalist #tool-names {
                        @for tool in pool.tools().iter().take(MAX_ROWS) { option value=(tool.exposed_name) {} }
                    }
                    label.grow { "Arguments " input type="text" name="arguments" value=(self.arguments) placeholder="{}" spellcheck="false" autocomplete="off"; }
                    label { "Principal " input type="text" name="principal" value=(self.principal) placeholder="any"; }
                    (mode_choice("mode", &self.mode))
                    button.button.primary type="submit" { "Explain" }
                }
                @if !self.tool.is_empty() { (self.result(context, pool.find(&self.tool).map(|it| &**it))) }
            }
        }
    }

    fn result(&self, context: &ScreenContext<'_>, tool: Option<&Tool>) -> Markup {
        let arguments = match self.arguments.as_str() {
            "" => Ok(Json::Object(serde_json::Map::new())),
            text => serde_json::from_str::<Json>(text),
        };
        let arguments = match arguments {
            Ok(arguments @ Json::Object(_)) => arguments,
            Ok(_) | Err(_) => {
                return html! { p.notice.problem role="alert" { "The arguments are not a JSON object." } };
            }
        };
        let mode = PermissionMode::parse(&self.mode);
        let verdict = match tool {
            Some(tool) => verdict(context, tool, &self.principal, &arguments, mode),
            None => match self.hidden_verdict(context, &arguments, mode) {
                Some(verdict) => verdict,
                None => {
                    return html! {
                        p.notice.problem role="alert" { "There is no tool " (shown(&self.tool, 120)) "." }
                    };
                }
            },
        };
        html! {
            p.rules role="status" {
                (badge(Tone::of_effect(verdict.effect), verdict.effect)) " " (prose(&verdict.reason, 400))
                span.quiet { " (mode " (verdict.mode.id()) ")" }
            }
            @if verdict.considered.is_empty() {
                (nothing("There are no rules."))
            } @else {
                div.table {
                    table {
                        thead { tr { th scope="col" { "Effect" } th scope="col" { "Rule" } th scope="col" { "Does it match?" } } }
                        tbody {
                            @for considered in verdict.considered.iter().take(MAX_ROWS) {
                                @let effect = considered.entry.effect.id();
                                tr {
                                    td { (badge(Tone::of_effect(effect), effect)) }
                                    th.wrap scope="row" { code { (considered.entry.rule.to_printable()) } }
                                    td.wrap { (prose(&considered.result.to_string(), 300)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl PolicyScreen {
    /// The verdict on a tool that is not in the pool, for example because a rule hides it. None if its name is that of no
    /// server's tool.
    fn hidden_verdict(
        &self,
        context: &ScreenContext<'_>,
        arguments: &Json,
        mode: Option<PermissionMode>,
    ) -> Option<Verdict> {
        let catalogue = context.parts.gateway.relay.catalogue();
        let rest = self.tool.strip_prefix("mcp__")?;
        let named = catalogue.prefixes.iter().find_map(|(server, prefix)| {
            let tool = rest.strip_prefix(prefix.as_str())?.strip_prefix("__")?;
            Some((server, prefix, tool)).filter(|_| !tool.is_empty())
        });
        let (server, prefix, tool) = named?;
        let settings = context.parts.gateway.relay.rules_of(&self.principal).1;
        let is_trusted = settings.trusted_servers.contains(server);
        let request = CallRequest {
            server: prefix,
            tool,
            arguments,
            hints: ToolHints::default(),
            trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
            seen: &NOTHING_SEEN,
        };
        Some(verdict_on(context, &request, &self.principal, mode))
    }
}

fn configured(configuration: &OperatorView) -> Markup {
    let refused: Vec<&ConfiguredServer> = configuration
        .servers
        .iter()
        .filter(|it| matches!(it.state.as_str(), "refused" | "pending" | "rejected"))
        .collect();
    html! {
        section aria-labelledby="refused-heading" {
            h2 #refused-heading { "Servers that may not run" }
            @if refused.is_empty() {
                (nothing("No configured server is refused."))
            } @else {
                div.table {
                    table {
                        thead { tr { th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Why" } th scope="col" { "Defined in" } } }
                        tbody {
                            @for server in refused.into_iter().take(MAX_ROWS) {
                                tr {
                                    th scope="row" { a href=(link("/ui/server", &[("name", &server.name)])) { (name(&server.name)) } }
                                    td { (badge(Tone::Warning, &server.state_text)) }
                                    td.wrap { (prose(server.reason.as_deref().unwrap_or_default(), 400)) }
                                    td { code { (shown(&server.origin, 200)) } }
                                }
                            }
                        }
                    }
                }
            }
            @if configuration.policy.is_empty() {
                p.quiet { "There are no allow and no deny lists for servers." }
            } @else {
                details {
                    summary { "Allow and deny lists" }
                    pre tabindex="0" { (configuration.policy.join("\n")) }
                }
            }
        }
        (rules_table(&configuration.rules, &configuration.mode))
    }
}

fn rules_table(rules: &[RuleLine], mode: &str) -> Markup {
    html! {
        section aria-labelledby="rules-heading" {
            h2 #rules-heading { "Permission rules" }
            p.quiet { "Mode of the settings: " (shown(mode, 40)) ". Deny comes before ask, and ask before allow." }
            @if rules.is_empty() {
                (nothing("No rules: every tool asks at its first use, unless its server is trusted."))
            } @else {
                div.table {
                    table {
                        thead { tr { th scope="col" { "Effect" } th scope="col" { "Rule" } th scope="col" { "For" } th scope="col" { "From" } } }
                        tbody {
                            @for rule in rules.iter().take(MAX_ROWS) {
                                tr {
                                    td { (badge(Tone::of_effect(&rule.effect), &rule.effect)) }
                                    th.wrap scope="row" { code { (shown(&rule.rule, 300)) } }
                                    td { @if rule.principal.is_empty() { "all" } @else { (name(&rule.principal)) } }
                                    td { code { (shown(&rule.origin, 200)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
