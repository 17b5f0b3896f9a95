//! `Bash`: runs a command in the shell, and waits for it or leaves it in the background.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::jobs::{By, Ending, Order, Ran};
use super::workplace::Workplace;
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How long a command may take unless told otherwise, and at most, in milliseconds.
const USUAL: u64 = 120_000;
const LONGEST: u64 = 600_000;
/// How much of its output is shown, in bytes.
const SHOWN: u64 = 30_000;
/// The longest command; the system takes no more in one argument.
const LONGEST_COMMAND: usize = 100_000;

#[derive(Deserialize)]
struct Bash {
    command: String,
    timeout: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
    /// For people who look on.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let bash = move |context: Context, it: Bash| {
        let place = place.clone();
        async move { bash(&place, &context, &it).await }
    };
    let description = "Runs a command with bash, with no terminal and no input. The working folder is kept \
        from one command to the next while it is an allowed one; variables are not. What a command leaves running ends with \
        it: set `run_in_background` for a command that is to go on, and read it with BashOutput. A long output is shown in \
        part; all of it is in the file that is named.";
    Tool::new("Bash", description, bash)
        .title("Run a command")
        .takes(
            json!({
                "command": {"type": "string", "description": "The command."},
                "timeout": {"type": "integer", "minimum": 1, "maximum": LONGEST, "default": USUAL, "description": "How long it may take, in milliseconds; in the background it may take as long as it likes."},
                "run_in_background": {"type": "boolean", "default": false},
                "description": {"type": "string", "description": "What it does, in a few words, for people."},
            }),
            &["command"],
        )
        .gives(json!({
            "type": "object",
            "properties": {
                "output": {"type": "string", "description": "What it said on both output streams."},
                "exitCode": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
                "timedOut": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "outputFile": {"type": "string", "description": "Where all of the output is, where not all is shown."},
                "folder": {"type": "string", "description": "Where the next command begins."},
                "bashId": {"type": "string", "description": "The name of a command in the background."},
            },
            "anyOf": [{"required": ["output", "exitCode", "timedOut", "truncated", "folder"]}, {"required": ["bashId"]}],
            "additionalProperties": false,
        }))
        .reaches_out()
}

async fn bash(place: &Arc<Workplace>, context: &Context, it: &Bash) -> Result<Output, Stop> {
    if it.command.trim().is_empty()
        || it.command.len() > LONGEST_COMMAND
        || it.command.contains('\0')
    {
        return Err(Stop::failed(format!(
            "a command has from 1 to {LONGEST_COMMAND} bytes, none of them zero; put a longer one in a file"
        )));
    }
    let grounds = place.grounds(context).await?;
    let order = Order {
        command: it.command.clone(),
        folder: place.folder(&grounds)?,
        outputs: place.outputs()?.to_owned(),
    };
    let within = it.timeout.map(|it| Duration::from_millis(it.clamp(1, LONGEST)));
    if it.run_in_background {
        let name = place.jobs.begin(&order, None)?;
        let words =
            format!("`{name}` runs in the background; BashOutput reads it, KillBash ends it");
        return Ok(Output::value(json!({"bashId": name}), words));
    }
    let within = within.unwrap_or(Duration::from_millis(USUAL));
    let ran = place.jobs.run(&order, within).await?;
    let mut notes = String::new();
    if let Some(folder) = &ran.folder
        && !place.stand(&grounds, folder)
    {
        notes = format!(
            "({} is not an allowed folder; the next command begins in the first one)\n",
            folder.display()
        );
    }
    let folder = place.folder(&grounds)?.display().to_string();
    Ok(shown(&ran, &notes, &folder))
}

fn shown(ran: &Ran, notes: &str, folder: &str) -> Output {
    let excerpt = ran.transcript.excerpt(SHOWN);
    let is_cut = excerpt.left_out > 0;
    let mut about = json!({
        "output": excerpt.text,
        "exitCode": ran.ending.code,
        "signal": ran.ending.signal,
        "timedOut": ran.ending.by == By::Timeout,
        "truncated": is_cut,
        "folder": folder,
    });
    let mut words = excerpt.text;
    if !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    if is_cut {
        let path = ran.transcript.path().display().to_string();
        words.push_str(&format!("(all {} bytes are in `{path}`)\n", ran.transcript.said()));
        about["outputFile"] = Json::from(path);
    } else {
        let _gone_already = std::fs::remove_file(ran.transcript.path());
    }
    words.push_str(notes);
    if let Some(end) = ending_words(&ran.ending) {
        words.push_str(&format!("({end})\n"));
    }
    if words.is_empty() {
        words.push_str("(it said nothing)\n");
    }
    Output::value(about, words)
}

/// How a command ended, where that is worth saying.
pub(super) fn ending_words(ending: &Ending) -> Option<String> {
    match (ending.by, ending.code, ending.signal) {
        (By::Timeout, _, _) => Some("it took too long and was ended".to_owned()),
        (By::Request, _, _) => Some("it was ended on request".to_owned()),
        (By::Itself, Some(0), _) => None,
        (By::Itself, Some(code), _) => Some(format!("exit code {code}")),
        (By::Itself, None, Some(signal)) => Some(format!("ended by signal {signal}")),
        (By::Itself, None, None) => Some("it ended".to_owned()),
    }
}
