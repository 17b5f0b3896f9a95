//! `swb permissions`: which rules there are, and what they decide.

mod change;
mod simulate;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::permission::{
    self, Considered, Explanation, Hints, Mode, Request, Rules, ToolRule, Trust,
};
use switchboard::config::shown::printable;

use crate::candidates::as_exposed;
use crate::exit::Exit;
use crate::given;
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};
use crate::table::{self, Cell, Yielding};

/// Arguments of `swb permissions`.
#[derive(Debug, Args)]
pub struct PermissionsCommand {
    /// What to do.
    #[command(subcommand)]
    pub verb: PermissionsVerb,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub enum PermissionsVerb {
    /// List every rule, where it stands and what it does
    List,
    /// Say which rule decides about a call, and why the others do not
    Explain(Explain),
    /// Add rules to a list of a settings file
    Add(change::AddRules),
    /// Take a rule out of a settings file
    Remove(change::RemoveRule),
    /// Replay the audit log against the rules, or against others: which calls would be decided otherwise?
    Simulate(simulate::Simulate),
}

/// Arguments of `swb permissions explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The tool: mcp__SERVER__TOOL
    pub tool: String,
    /// Its arguments, as `swb call` takes them
    pub arguments: Vec<String>,
    /// How much is asked: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", value_parser = super::permissions::parse_mode)]
    pub mode: Option<Mode>,
}

/// Reads a mode's word.
pub fn parse_mode(text: &str) -> Result<Mode, String> {
    Mode::parse(text).ok_or_else(|| {
        let words: Vec<&str> = Mode::ALL.iter().map(|mode| mode.id()).collect();
        format!("the modes are {}", words.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &PermissionsCommand, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let done = match &arguments.verb {
        PermissionsVerb::List => list(session, &configuration.rules),
        PermissionsVerb::Explain(it) => explain(session, it, &configuration)?,
        PermissionsVerb::Add(it) => change::add(session, it, &configuration)?,
        PermissionsVerb::Remove(it) => change::remove(session, it, &configuration)?,
        PermissionsVerb::Simulate(it) => simulate::run(session, it, &configuration)?,
    };
    let problems = configuration.effective.problems.iter();
    Ok(done.note(report::problems(&session.machine, problems)))
}

/// All rules.
pub(crate) fn list(session: &Session, rules: &Rules) -> Done {
    let rows: Vec<(&str, String, String)> = rules
        .listed()
        .iter()
        .map(|it| (it.effect.id(), it.rule.to_string(), session.shown_origin(&it.origin)))
        .collect();
    let mode = rules.default_mode().map_or(Mode::Default, |(mode, _)| mode);
    if session.wants_json() {
        let rules: Vec<Json> = rows
            .iter()
            .map(|(effect, rule, from)| json!({"effect": effect, "rule": rule, "from": from}))
            .collect();
        return super::json(&json!({"defaultMode": mode.id(), "rules": rules}));
    }
    let mut text = format!("mode: {mode}\n");
    if rows.is_empty() {
        text.push_str(
            "No rules: every tool asks at its first use, unless its server is trusted.\n",
        );
        return Done::text(text);
    }
    let cells: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|(effect, rule, from)| {
            let meaning = match effect {
                "allow" => Meaning::Good,
                "deny" => Meaning::Bad,
                _ => Meaning::Doubtful,
            };
            vec![Cell::meaning(meaning, effect), Cell::plain(printable(&rule)), Cell::plain(from)]
        })
        .collect();
    let yielding = [Yielding::Back(1), Yielding::Front(2)];
    let width = session.machine.terminal.width;
    text.push_str(&table::render(&["EFFECT", "RULE", "FROM"], &cells, width, &yielding));
    Done::text(text)
}

fn explain(
    session: &Session,
    arguments: &Explain,
    configuration: &switchboard::load::Configuration,
) -> Result<Done, Failure> {
    let given = given::arguments(&arguments.arguments, &session.machine.working_folder)?;
    let (server, tool) = named(&arguments.tool, configuration)?;
    let winner = configuration.effective.servers.iter().find(|it| as_exposed(it) == server);
    let is_trusted = winner.is_some_and(|it| it.is_trusted());
    let request = Request {
        server: &server,
        tool: &tool,
        arguments: &given,
        hints: Hints::default(),
        trust: if is_trusted { Trust::Given } else { Trust::Withheld },
    };
    let usual = configuration.rules.default_mode().map_or(Mode::Default, |(mode, _)| mode);
    let chosen = arguments.mode.unwrap_or(usual);
    let explanation = permission::explain(&configuration.rules, &request, chosen);
    Ok(show(session, &arguments.tool, &explanation))
}

fn show(session: &Session, tool: &str, explanation: &Explanation) -> Done {
    let decision = &explanation.decision;
    let because = decision.because.to_string();
    if session.wants_json() {
        let looked_at = |it: &Considered| {
            json!({
                "effect": it.listed.effect.id(),
                "rule": it.listed.rule.to_string(),
                "from": session.shown_origin(&it.listed.origin),
                "fit": it.fit.to_string(),
            })
        };
        return super::json(&json!({
            "tool": tool,
            "decision": decision.verdict.id(),
            "because": because,
            "mode": explanation.mode.id(),
            "rules": explanation.considered.iter().map(looked_at).collect::<Vec<_>>(),
        }));
    }
    let meaning = match decision.verdict {
        permission::Effect::Allow => Meaning::Good,
        permission::Effect::Ask => Meaning::Doubtful,
        permission::Effect::Deny => Meaning::Bad,
    };
    let verdict = paint(meaning, decision.verdict.id());
    let mut text = format!("{}: {verdict}, since {}\n", printable(tool), printable(&because));
    for it in &explanation.considered {
        text.push_str(&format!(
            "  {} `{}` ({}): {}\n",
            it.listed.effect.id(),
            printable(&it.listed.rule.to_string()),
            session.shown_origin(&it.listed.origin),
            printable(&it.fit.to_string())
        ));
    }
    text.push_str("  what the server says of the tool is not known here; `swb tools` shows it\n");
    Done::text(text)
}

/// The server and the tool that a name means. Servers that are configured are looked for first, since a name alone
/// does not say where its server ends.
fn named(
    name: &str,
    configuration: &switchboard::load::Configuration,
) -> Result<(String, String), Failure> {
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    let known = configuration.effective.servers.iter().find_map(|server| {
        let server = as_exposed(server);
        let tool = rest.strip_prefix(&server)?.strip_prefix("__")?;
        Some((server, tool.to_owned()))
    });
    if let Some(known) = known.filter(|(_, tool)| !tool.is_empty()) {
        return Ok(known);
    }
    // A rule may be about a server that is not configured.
    if ToolRule::parse(name).is_ok()
        && let Some((server, tool)) = rest.split_once("__")
        && !tool.is_empty()
    {
        return Ok((server.to_owned(), tool.to_owned()));
    }
    Err(Failure::new(Exit::Usage, &format!("`{name}` is no tool's name"))
        .hint("tools are called mcp__SERVER__TOOL; `swb tools` lists them"))
}
