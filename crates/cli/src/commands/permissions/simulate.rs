//! `swb permissions simulate`: replays the audit log against other rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::audit::log;
use switchboard::config::display::printable;
use switchboard::config::permission::{PermissionEffect, PermissionMode, PermissionRules};
use switchboard::config::policy::Authority;
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::settings::Settings;
use switchboard::config::source::Source;
use switchboard::permission::{DependsOn, SimulatedRules, Simulation, SimulationRow, simulate};
use switchboard::sources::loader::Configuration;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::utc_timestamp;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup::changed_tools;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::report;
use crate::output::rule_table;
use crate::output::style::TextStyle;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// Arguments of `swb permissions simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Use the rules of this settings file instead of yours; the administrator's rules still apply
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long = "permission-mode", visible_alias = "mode", value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
    /// Only calls since this time: 30m, 12h, 7d, 2026-01-31, or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<String>,
}

/// Runs the command.
pub fn run(
    invocation: &Invocation,
    arguments: &SimulateArgs,
    configuration: &Configuration,
) -> Result<CommandOutput, Failure> {
    let own = configuration.rules.clone();
    let rules = match &arguments.rules {
        None => own,
        Some(path) => own.administrator_only().merge(read_rules_file(invocation, path)?),
    };
    let mut records = log::read(&invocation.env.paths.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be read").caused_by(error)
    })?;
    // Both are UTC timestamps of one format, so they compare as text.
    records.retain(|it| arguments.since.as_ref().is_none_or(|since| it.time >= *since));
    let servers = configuration.effective.servers.iter();
    let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
    let default_mode = rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode);
    let mode = rules.effective_mode(arguments.mode.unwrap_or(default_mode));
    let changed = changed_tools(invocation, configuration);
    let simulated =
        SimulatedRules { rules: &rules, mode, trusted_servers: &trusted, changed_tools: &changed };
    let simulation = simulate(&records, &simulated);
    Ok(match invocation.wants_json() {
        true => as_json(&simulation, mode),
        false => CommandOutput::text(as_text(invocation, &simulation, mode)),
    })
}

/// Reads the rules of a settings file. Any error in them is a failure, because partial rules would give wrong
/// results.
fn read_rules_file(
    invocation: &Invocation,
    path: &std::path::Path,
) -> Result<PermissionRules, Failure> {
    let path = invocation.env.working_folder.join(path);
    let fail = |text: &str| {
        Failure::new(Exit::Configuration, &format!("{} {text}", invocation.display_path(&path)))
    };
    let text = match text_file::read_text(&path, AllowedFiles::PipesToo) {
        Ok(FileContent::Text(text)) => text,
        Ok(FileContent::Absent) => return Err(fail("does not exist")),
        Err(why) => return Err(fail(&why.to_string())),
    };
    let source: Arc<Source> = Source::file(Scope::Local, &path);
    let settings = Settings::read(&source, &text, Authority::User);
    let errors: Vec<_> = settings
        .layer
        .problems
        .iter()
        .filter(|it| it.severity() == Severity::Error)
        .filter(|it| it.key.as_ref().is_none_or(|key| key.starts_with("permissions")))
        .collect();
    if errors.is_empty() {
        return Ok(settings.permissions);
    }
    let detail = report::problems(&invocation.env, errors.into_iter());
    Err(fail("has errors").detail(detail))
}

fn as_json(simulation: &Simulation, mode: PermissionMode) -> CommandOutput {
    let words = |effects: &[PermissionEffect]| effects.iter().map(|it| it.id()).collect::<Vec<_>>();
    let base = |row: &SimulationRow| json!({"tool": row.exposed_name, "server": row.server, "was": row.before.id(), "calls": row.calls});
    let change = |row: &SimulationRow| {
        let mut json = base(row);
        json["wouldBe"] = words(&row.after).first().copied().into();
        json["because"] = row.because.first().cloned().into();
        json
    };
    let unsure = |row: &SimulationRow| {
        let mut json = base(row);
        json["possible"] = words(&row.after).into();
        json["dependsOn"] = match row.depends_on {
            DependsOn::Nothing | DependsOn::Arguments => "arguments".into(),
            DependsOn::Hints => "hints".into(),
        };
        json["because"] = row.because.clone().into();
        json
    };
    json_output(&json!({
        "mode": mode.id(),
        "changes": simulation.changes.iter().map(change).collect::<Vec<Json>>(),
        "depends": simulation.uncertain.iter().map(unsure).collect::<Vec<Json>>(),
        "same": simulation.same,
        "undecided": simulation.undecided,
    }))
}

fn as_text(invocation: &Invocation, simulation: &Simulation, mode: PermissionMode) -> String {
    let mut text = format!("mode: {mode}\n");
    let header = ["TOOL", "WAS", "WOULD BE", "CALLS", "BY"];
    let rows: Vec<Vec<Cell>> = simulation
        .changes
        .iter()
        .chain(&simulation.uncertain)
        .map(|row| cells(invocation, row))
        .collect();
    if !rows.is_empty() {
        let width = invocation.env.terminal.width;
        let truncated_columns = [Truncate::End(4), Truncate::End(0)];
        text.push_str(&table::render(&header, &rows, width, &truncated_columns));
    }
    let count = |rows: &[SimulationRow]| rows.iter().map(|row| row.calls).sum::<usize>();
    let (changed, unsure) = (count(&simulation.changes), count(&simulation.uncertain));
    let undecided = simulation.undecided;
    text.push_str(&format!(
        "{} would be decided differently, {} as before",
        call_count(changed),
        simulation.same
    ));
    if unsure > 0 {
        text.push_str(&format!(", {unsure} cannot be decided from the log"));
    }
    if undecided > 0 {
        text.push_str(&format!("; {undecided} were never decided"));
    }
    text.push_str(".\n");
    text
}

/// Shortens absolute paths, relative to the working folder or home.
fn shorten_paths(invocation: &Invocation, text: &str) -> String {
    let env = &invocation.env;
    let here = format!("({}/", env.working_folder.display());
    let home = format!("({}/", env.home.display());
    text.replace(&here, "(").replace(&home, "(~/")
}

fn cells(invocation: &Invocation, row: &SimulationRow) -> Vec<Cell> {
    let now = match row.after[..] {
        [effect] => Cell::styled(rule_table::effect_style(effect), effect.id()),
        _ => {
            let words: Vec<&str> = row.after.iter().map(|it| it.id()).collect();
            let on = match row.depends_on {
                DependsOn::Nothing | DependsOn::Arguments => "the arguments",
                DependsOn::Hints => "the tool's annotations",
            };
            let text = format!("{}: depends on {on}", words.join(" or "));
            Cell::styled(TextStyle::Warning, text)
        }
    };
    vec![
        Cell::plain(printable(&row.exposed_name)),
        Cell::styled(rule_table::effect_style(row.before), row.before.id()),
        now,
        Cell::plain(row.calls.to_string()),
        Cell::plain(printable(&shorten_paths(invocation, &row.because.join("; ")))),
    ]
}

fn call_count(count: usize) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// Parses a time: a duration before now, a date, or a UTC timestamp. Returns it in the format of the log.
fn parse_time(text: &str) -> Result<String, String> {
    let fault = || "write 30m, 12h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned();
    if let Some((count, unit)) = text.split_at_checked(text.len().saturating_sub(1))
        && let Ok(count) = count.parse::<u64>()
    {
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(fault()),
        };
        let ago = Duration::from_secs(count.saturating_mul(seconds));
        let then = SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        return Ok(utc_timestamp(then));
    }
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    match shape.as_str() {
        "0000-00-00" => Ok(format!("{text}T00:00:00Z")),
        "0000-00-00T00:00Z" => Ok(format!("{}:00Z", text.trim_end_matches('Z'))),
        "0000-00-00T00:00:00Z" => Ok(text.to_owned()),
        _ => Err(fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_nonsense_is_not() {
        assert_eq!(parse_time("2026-01-31").as_deref(), Ok("2026-01-31T00:00:00Z"));
        assert_eq!(parse_time("2026-01-31T12:30Z").as_deref(), Ok("2026-01-31T12:30:00Z"));
        assert_eq!(parse_time("99999999d").as_deref(), Ok("1970-01-01T00:00:00Z"));
        for bad in ["", "d", "7w", "yesterday", "2026-1-3", "2026-01-31 12:00", "ü"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
