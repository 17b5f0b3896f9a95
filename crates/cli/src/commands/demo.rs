//! `swb demo`: plays a scripted conversation on the screen or as plain text. Conversation loop, dialogs and server
//! are real; the model and the keys follow a script. Its files are in a temporary folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::config::merge::ServerState;
use switchboard::config::settings::Theme;
use switchboard::sources::Paths;
use switchboard_tui::backend::SharedModel;
use switchboard_tui::demo::script::{DemoScript, Speed};
use tempfile::TempDir;

use crate::commands::print::ConversationArgs;
use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::invocation::options::GlobalOptions;
use crate::outcome::{CommandOutput, Failure};

/// Variables that the demo needs: terminal, locale and programs.
const PASSED_VARIABLES: [&str; 12] = [
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

const CLOSING_TEXT: &str = "This was the real conversation loop with a scripted model. Nothing was saved.\n\n\
    Next:\n  \
    swb                         the same screen, with your servers and your model\n  \
    swb add NAME -- COMMAND …   a server of your own (or: swb add NAME URL)\n  \
    swb import --dry-run        what other programs have configured\n";

/// Arguments of `swb demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The playback speed: 2 is twice as fast
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    speed: u32,
    /// Print plain text instead of the screen; the default without a terminal
    #[arg(long)]
    plain: bool,
}

impl DemoArgs {
    /// Is plain text requested?
    pub fn is_plain(&self) -> bool {
        self.plain
    }
}

/// Plays a script in a conversation with its model.
pub type PlayScript =
    fn(&Invocation, &ConversationArgs, DemoScript, SharedModel) -> Result<(), Failure>;

/// The two ways to play the demo. The dispatcher provides them, because the UI depends on the commands.
#[derive(Debug, Clone, Copy)]
pub struct DemoPlayers {
    /// Whether the terminal lacks what the screen needs.
    pub is_plain_terminal: fn(&Invocation) -> bool,
    /// Plays on the screen.
    pub screen: PlayScript,
    /// Plays in plain lines.
    pub plain: PlayScript,
}

/// Runs the command.
pub fn run(
    arguments: &DemoArgs,
    invocation: &Invocation,
    players: DemoPlayers,
) -> Result<CommandOutput, Failure> {
    let has_screen = invocation.can_use_screen() && !(players.is_plain_terminal)(invocation);
    let speed = Speed(arguments.speed);
    // The folder is removed when it is dropped.
    let folder = tempfile::Builder::new().prefix("swb-demo-").tempdir().map_err(no_folder)?;
    let invocation = isolated(invocation, &folder)?;
    let flags = ConversationArgs::default();
    expect_allowed(&invocation)?;
    match has_screen && !arguments.plain {
        true => {
            let (script, model) = DemoScript::demo(speed, DemoScript::word_delay(speed));
            (players.screen)(&invocation, &flags, script, Arc::new(model))?;
        }
        false => {
            let (script, model) = DemoScript::demo(speed, Duration::ZERO);
            (players.plain)(&invocation, &flags, script, Arc::new(model))?;
        }
    }
    Ok(CommandOutput::text(CLOSING_TEXT))
}

fn no_folder(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failure, "the demo's temporary folder cannot be created").caused_by(error)
}

/// The same run in a temporary home with one server. The administrator's policy still applies.
fn isolated(invocation: &Invocation, folder: &TempDir) -> Result<Invocation, Failure> {
    let home = folder.path().canonicalize().map_err(no_folder)?;
    let working_folder = home.join("demonstration");
    // Makes the folder a project of its own.
    std::fs::create_dir_all(working_folder.join(".git")).map_err(no_folder)?;
    let paths = Paths { managed: invocation.env.paths.managed.clone(), ..Paths::in_dir(&home) };
    let theme = invocation.load_with_problems().ok().and_then(|it| it.theme);
    write_settings(&paths.user_settings(), theme).map_err(no_folder)?;
    let env = ProcessEnv {
        variables: invocation.env.variables.restricted_to(&PASSED_VARIABLES),
        home,
        working_folder,
        paths,
        build: invocation.env.build.clone(),
        terminal: invocation.env.terminal,
    };
    let name = demo_server::NAME;
    let servers = json!({"mcpServers": {name: {"type": "sdk", "name": name}}});
    let global = GlobalOptions {
        mcp_config: vec![servers.to_string()],
        strict_mcp_config: true,
        answers: None,
        no_share: true,
        ..invocation.global.clone()
    };
    Ok(Invocation::new(env, global))
}

/// Allows the read-only tools; the others ask. Keeps the user's theme.
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

fn expect_allowed(invocation: &Invocation) -> Result<(), Failure> {
    let configuration = invocation.load_with_problems()?;
    invocation.expect_unlocked(&configuration)?;
    match configuration.effective.winner(demo_server::NAME).map(|it| &it.state) {
        Some(ServerState::Ready) => Ok(()),
        Some(_) | None => {
            let message = "your administrator's policy does not allow the demo server";
            Err(Failure::new(Exit::Policy, message)
                .hint(&format!("`swb policy why {}` names the rule", demo_server::NAME)))
        }
    }
}
