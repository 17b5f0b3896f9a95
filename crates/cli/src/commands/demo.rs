//! `swb demo`: a conversation that plays itself, on the screen or in plain lines. The loop, the dialogs and the server are
//! the real ones; the model and the person follow a script. Everything it writes lies in a folder that goes with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser};
use serde_json::json;
use switchboard::config::merge::ServerState;
use switchboard::config::settings::Theme;
use switchboard::sources::paths::Paths;
use switchboard_tui::demo::script::{DemoScript, Speed};
use tempfile::TempDir;

use crate::args::{Cli, GlobalOptions};
use crate::chat_ui::launch;
use crate::chat_ui::launch::InputSource;
use crate::chat_ui::plain;
use crate::commands::print::ConversationArgs;
use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::outcome::{CommandOutput, Failure};

/// Variables that say what a terminal can do, and where programs are. Nobody needs another one.
const KEPT_VARIABLES: [&str; 12] = [
    "TERM",
    "COLORTERM",
    "COLORFGBG",
    "NO_COLOR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "PATH",
    "EDITOR",
    "VISUAL",
    "SWB_PLAIN",
    "TMPDIR",
];

const CLOSING_TEXT: &str = "That was a real conversation loop with a rehearsed model; nothing of it was kept.\n\n\
    Next:\n  \
    swb                         the same screen, with your servers and your model\n  \
    swb add NAME -- COMMAND …   a server of your own (or: swb add NAME URL)\n  \
    swb import --dry-run        what other programs have configured\n";

/// Flags of the demonstration.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How many times as fast as people it goes
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    speed: u32,
    /// In plain lines, without a screen; so it is anyway where there is no terminal
    #[arg(long)]
    plain: bool,
}

/// Plays it.
pub fn run(arguments: &DemoArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let has_screen = session.can_use_screen() && !launch::is_plain_terminal(session);
    let speed = Speed(arguments.speed);
    // Removed when it is dropped.
    let folder = tempfile::Builder::new().prefix("swb-demo-").tempdir().map_err(no_folder)?;
    let session = isolated(session, &folder)?;
    let flags = Cli::try_parse_from(["swb"]).map(|it| it.conversation);
    let flags = flags.expect("a command line without flags is one");
    expect_allowed(&session)?;
    match has_screen && !arguments.plain {
        true => play_on_screen(&session, &flags, speed)?,
        false => {
            let (performance, model) = DemoScript::demo(speed, Duration::ZERO);
            plain::run_demo(&session, &flags, performance, Arc::new(model))?;
        }
    }
    Ok(CommandOutput::text(CLOSING_TEXT))
}

fn play_on_screen(
    session: &Invocation,
    flags: &ConversationArgs,
    speed: Speed,
) -> Result<(), Failure> {
    let word = DemoScript::word_delay(speed);
    let (performance, model) = DemoScript::demo(speed, word);
    launch::run_screen(session, flags, InputSource::Script(performance, Arc::new(model)))?;
    Ok(())
}

fn no_folder(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failure, "there is no room for the demonstration's notes").caused_by(error)
}

/// The same run in a home of its own, with one server. An administrator's rules hold here too.
fn isolated(session: &Invocation, folder: &TempDir) -> Result<Invocation, Failure> {
    let home = folder.path().canonicalize().map_err(no_folder)?;
    let working_folder = home.join("demonstration");
    // A project of its own, whatever lies above it.
    std::fs::create_dir_all(working_folder.join(".git")).map_err(no_folder)?;
    let paths = Paths { managed: session.env.paths.managed.clone(), ..Paths::in_dir(&home) };
    let theme = session.load().ok().and_then(|it| it.theme);
    write_settings(&paths.user_settings(), theme).map_err(no_folder)?;
    let env = ProcessEnv {
        variables: session.env.variables.restricted_to(&KEPT_VARIABLES),
        home,
        working_folder,
        paths,
        terminal: session.env.terminal,
    };
    let name = demo_server::NAME;
    let servers = json!({"mcpServers": {name: {"type": "sdk", "name": name}}});
    let global = GlobalOptions {
        mcp_config: vec![servers.to_string()],
        strict_mcp_config: true,
        answers: None,
        ..session.global.clone()
    };
    Ok(Invocation::new(env, global))
}

/// What only reads may be called; the rest is asked about. Colours are the person's own.
fn write_settings(settings: &Path, theme: Option<Theme>) -> std::io::Result<()> {
    let tools =
        ["now", "list_notes", "count_slowly"].map(|it| format!("mcp__{}__{it}", demo_server::NAME));
    if let Some(folder) = settings.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut written = json!({"permissions": {"allow": tools}});
    if let Some(theme) = theme {
        written["theme"] = match theme {
            Theme::Dark => json!("dark"),
            Theme::Light => json!("light"),
        };
    }
    std::fs::write(settings, written.to_string())
}

fn expect_allowed(session: &Invocation) -> Result<(), Failure> {
    let configuration = session.load()?;
    session.expect_unlocked(&configuration)?;
    match configuration.effective.winner(demo_server::NAME).map(|it| &it.state) {
        Some(ServerState::Ready) => Ok(()),
        Some(_) | None => {
            let message = "your administrator's rules do not let the demonstration's server run";
            Err(Failure::new(Exit::Policy, message)
                .hint(&format!("`swb policy why {}` names the rule", demo_server::NAME)))
        }
    }
}
