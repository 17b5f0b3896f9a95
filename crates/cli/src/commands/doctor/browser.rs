//! What the browser server needs, as text and as JSON: the report of `swb doctor browser`.

use serde_json::json;
use switchboard::config::display::printable;
use switchboard_browser::health;
use switchboard_browser::health::RequirementState;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::runtime::browser;

/// The report. It fails if the server cannot work here.
pub fn report(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let requirements = health::check(&browser::settings(invocation)?);
    let is_missing = |it: &RequirementState| matches!(it, RequirementState::Missing { .. });
    let exit = requirements.iter().any(|it| is_missing(&it.state)).then_some(Exit::NotReady);
    if invocation.wants_json() {
        let entries = requirements.iter().map(|it| {
            let (state, text, remedy) = parts(&it.state);
            json!({"name": it.name, "state": state, "text": text, "remedy": remedy})
        });
        let list: Vec<_> = entries.collect();
        return Ok(CommandOutput { exit, ..json_output(&json!({"browser": list})) });
    }
    let mut text = String::new();
    for requirement in &requirements {
        let (state, found, remedy) = parts(&requirement.state);
        text += &format!("{state:<8} {}: {}\n", requirement.name, printable(found));
        if let Some(remedy) = remedy {
            text += &format!("         fix: {}\n", printable(remedy));
        }
    }
    Ok(CommandOutput { exit, ..CommandOutput::text(text) })
}

/// A word for the state, what was found, and the remedy.
fn parts(state: &RequirementState) -> (&'static str, &str, Option<&str>) {
    match state {
        RequirementState::Met(found) => ("ok", found, None),
        RequirementState::Missing { problem, remedy } => ("missing", problem, Some(remedy)),
        RequirementState::Limited { problem, remedy } => ("limited", problem, Some(remedy)),
    }
}
