//! Simulates more permission rules on the calls of the audit log. Nothing is called, and no rule is stored.

use maud::{Markup, html};
use switchboard::audit::log::AuditRecord;
use switchboard::permission::{DependsOn, SimulatedRules, Simulation, SimulationRow, simulate};
use switchboard_config::permission::{PermissionEffect, PermissionMode, PermissionRules, ToolRule};

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::Form;
use crate::dashboard::parts::{Tone, badge, name, nothing, prose, shown, thousands};

/// The most rules of a simulation.
const MAX_RULES: usize = 50;
/// The most rows of the result.
const MAX_ROWS: usize = 200;

/// The permission modes of the form.
const MODES: [PermissionMode; 5] = [
    PermissionMode::Plan,
    PermissionMode::DontAsk,
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::Bypass,
];

/// The rules to add, one a line, and the mode.
pub(super) struct SimulationForm {
    rules: String,
    mode: String,
    is_sent: bool,
}

impl SimulationForm {
    pub(super) fn parse(query: &Form) -> SimulationForm {
        SimulationForm {
            rules: query.text("rules").to_owned(),
            mode: query.text("simulated-mode").to_owned(),
            is_sent: query.get("rules").is_some(),
        }
    }

    pub(super) async fn render(&self, context: &ScreenContext<'_>) -> Markup {
        let result = match self.is_sent {
            true => Some(self.simulate(context).await),
            false => None,
        };
        html! {
            section.panel aria-labelledby="simulate-heading" {
                h2 #simulate-heading { "Simulate rules" }
                p.quiet { "Which calls of the audit log would more rules have decided differently? Nothing is called or stored." }
                form.fields method="get" action="/ui/policy" {
                    div.field {
                        label for="rules" { "Rules to add" }
                        textarea #rules name="rules" rows="3" spellcheck="false" aria-describedby="rules-hint" { "\n" (self.rules) }
                        p.hint #rules-hint { "One a line: " code { "deny mcp__github__delete_*" } ", " code { "ask mcp__files" } ", " code { "allow mcp__clock" } }
                    }
                    div.actions {
                        (mode_choice("simulated-mode", &self.mode))
                        button.button.primary type="submit" { "Simulate" }
                    }
                }
                @match result {
                    None => {},
                    Some(Err(why)) => p.notice.problem role="alert" { (shown(&why, 300)) },
                    Some(Ok(simulation)) => (table(&simulation)),
                }
            }
        }
    }

    async fn simulate(&self, context: &ScreenContext<'_>) -> Result<Simulation, String> {
        let added = parse_rules(&self.rules)?;
        let operator = context.parts.operator.clone();
        let inputs = tokio::task::spawn_blocking(move || operator.simulation_inputs()).await;
        let inputs = inputs.map_err(|_| "the configuration could not be read".to_owned())??;
        let mut rules = PermissionRules::clone(&inputs.rules);
        for (effect, rule) in added {
            rules.add_for_session(effect, rule);
        }
        let mode = PermissionMode::parse(&self.mode).unwrap_or(inputs.mode);
        let mode = rules.effective_mode(mode);
        let list = context.parts.records.calls().await;
        let records: Vec<AuditRecord> = list.calls.iter().map(|it| it.record.clone()).collect();
        let work = tokio::task::spawn_blocking(move || {
            let simulated = SimulatedRules {
                rules: &rules,
                mode,
                trusted_servers: &inputs.trusted_servers,
                changed_tools: &inputs.changed_tools,
            };
            simulate(&records, &simulated)
        });
        work.await.map_err(|_| "the simulation failed".to_owned())
    }
}

/// A choice of the permission mode.
pub(super) fn mode_choice(input: &str, chosen: &str) -> Markup {
    html! {
        label {
            "Mode "
            select name=(input) {
                option value="" { "of the gateway" }
                @for mode in MODES { option value=(mode.id()) selected[mode.id() == chosen] { (mode.id()) } }
            }
        }
    }
}

/// Parses `deny RULE`, `ask RULE` and `allow RULE`, one a line.
fn parse_rules(text: &str) -> Result<Vec<(PermissionEffect, ToolRule)>, String> {
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    let mut rules = Vec::new();
    for line in lines {
        let invalid = |why: &str| format!("{}: {why}", shown(line, 120));
        let (word, rule) = line.split_once(' ').unwrap_or((line, ""));
        let all = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
        let effect = all.into_iter().find(|it| it.id() == word);
        let effect = effect.ok_or_else(|| invalid("expected allow, ask or deny, then a rule"))?;
        let rule = ToolRule::parse(rule.trim()).map_err(|error| invalid(&error.to_string()))?;
        rules.push((effect, rule));
        if rules.len() > MAX_RULES {
            return Err(format!("more than {MAX_RULES} rules"));
        }
    }
    Ok(rules)
}

fn table(simulation: &Simulation) -> Markup {
    let count = |rows: &[SimulationRow]| rows.iter().map(|it| it.calls as u64).sum::<u64>();
    let (changed, uncertain) = (count(&simulation.changes), count(&simulation.uncertain));
    let rows: Vec<&SimulationRow> =
        simulation.changes.iter().chain(&simulation.uncertain).take(MAX_ROWS).collect();
    html! {
        p role="status" {
            (thousands(changed)) " calls would be decided differently, " (thousands(simulation.same as u64)) " as before"
            @if uncertain > 0 { ", " (thousands(uncertain)) " cannot be decided from the log" }
            @if simulation.undecided > 0 { "; " (simulation.undecided) " were never decided" }
            "."
        }
        @if rows.is_empty() {
            (nothing("Nothing would change."))
        } @else {
            div.table {
                table {
                    thead { tr { th scope="col" { "Tool" } th scope="col" { "Was" } th scope="col" { "Would be" } th.number scope="col" { "Calls" } th scope="col" { "By" } } }
                    tbody {
                        @for row in rows {
                            tr {
                                th scope="row" { (name(&row.exposed_name)) }
                                td { (badge(Tone::of_effect(row.before.id()), row.before.id())) }
                                td {
                                    @for effect in &row.after { (badge(Tone::of_effect(effect.id()), effect.id())) " " }
                                    @match row.depends_on {
                                        DependsOn::Nothing => {},
                                        DependsOn::Arguments => span.quiet { "depends on the arguments" },
                                        DependsOn::Hints => span.quiet { "depends on the tool's annotations" },
                                    }
                                }
                                td.number { (row.calls) }
                                td.wrap { (prose(&row.because.join("; "), 300)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_line_by_line() {
        let rules = parse_rules("deny mcp__a__b\n\n  ask mcp__c \n").expect("both are rules");
        let texts: Vec<_> = rules.iter().map(|it| (it.0.id(), it.1.to_string())).collect();
        assert_eq!(texts, [("deny", "mcp__a__b".to_owned()), ("ask", "mcp__c".to_owned())]);
        assert!(parse_rules("forbid mcp__a").expect_err("no effect").contains("expected allow"));
        assert!(parse_rules("deny").is_err());
        assert!(parse_rules(&"deny mcp__a\n".repeat(MAX_RULES + 1)).is_err());
    }
}
