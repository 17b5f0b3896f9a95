//! Runs a conversation: chooses between the screen and plain lines, and sets the screen up.

use std::io;
use std::sync::Arc;

use switchboard::HostOptions;
use switchboard::connection::RetryPolicy;
use switchboard::sources::{ConfigWatcher, project_root};
use switchboard_tui::backend::SharedModel;
use switchboard_tui::demo::script::DemoScript;
use switchboard_tui::elicitor;
use switchboard_tui::input_history::InputHistory;
use switchboard_tui::screen::{Screen, ScreenOptions, ScreenSession};

use crate::chat_ui::conversation;
use crate::chat_ui::conversation::{ModelWait, StartOptions};
use crate::chat_ui::plain;
use crate::chat_ui::screen_backend::{ScreenBackend, elicitor_context};
use crate::chat_ui::terminal_theme;
use crate::commands::print::ConversationArgs;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::runtime::call_context;
use crate::runtime::channels;
use crate::runtime::host;
use crate::runtime::servers;

/// Who presses the keys.
pub enum InputSource {
    /// The user.
    User,
    /// A script, until the user presses a key; with the model that answers in it.
    Script(DemoScript, SharedModel),
}

/// Converses with the user, on the screen or in plain lines.
pub fn run(session: &Invocation, flags: &ConversationArgs) -> Result<CommandOutput, Failure> {
    let session = &session.with_user();
    match flags.plain || is_plain_terminal(session) {
        true => plain::run(session, flags),
        false => run_screen(session, flags, InputSource::User),
    }
}

/// Does the terminal lack what the screen needs, or does the user want plain lines?
pub fn is_plain_terminal(session: &Invocation) -> bool {
    let value = |name: &str| session.env.variables.get(name).filter(|it| !it.is_empty());
    value("TERM").is_none_or(|it| it == "dumb") || value("SWB_PLAIN").is_some()
}

/// Plays a script on the screen.
pub fn run_demo(
    session: &Invocation,
    flags: &ConversationArgs,
    script: DemoScript,
    model: SharedModel,
) -> Result<(), Failure> {
    run_screen(session, flags, InputSource::Script(script, model)).map(drop)
}

/// Runs the screen until the user leaves.
pub fn run_screen(
    session: &Invocation,
    flags: &ConversationArgs,
    input: InputSource,
) -> Result<CommandOutput, Failure> {
    let mut screen = Screen::open(screen_options(session)).map_err(terminal_failure)?;
    let flags = &match flags.resumable(session) {
        None => flags.clone(),
        Some(all) => match screen.pick_conversation(all).map_err(terminal_failure)? {
            Some(id) => ConversationArgs { resume: Some(id), ..flags.clone() },
            None => return Ok(CommandOutput::default()),
        },
    };
    // Before anything slow is read.
    screen.draw_first_frame().map_err(terminal_failure)?;
    let configuration = session.load_with_problems()?;
    let root = project_root(&session.env.working_folder);
    screen.configure(
        terminal_theme::detect(&session.env.variables, configuration.theme),
        InputHistory::for_project(&session.env.paths, &root),
    );
    let (screen_elicitor, elicitor_messages) =
        elicitor::channel(elicitor_context(session, &configuration));
    let host_elicitor = host::elicitor(session, Arc::new(screen_elicitor.clone()))?;
    let customize = |options: HostOptions| HostOptions { elicitor: host_elicitor, ..options };
    let (script, model) = match input {
        InputSource::User => (None, None),
        InputSource::Script(script, model) => (Some(script), Some(model)),
    };
    let (exit_message, audit) = host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        customize,
        async |host, interrupts| {
            let inbox = channels::open(session, host, &configuration).await;
            servers::apply_configuration(host, &configuration, &[]).await;
            let watcher = ConfigWatcher::start(session.load_options(), &configuration).ok();
            let prompt = Arc::new(screen_elicitor.clone());
            let options = StartOptions { flags, model_wait: ModelWait::Briefly, model };
            let started =
                conversation::start(session, host, (&configuration, options), (prompt, inbox))
                    .await?;
            let audit = started.call_context.audit.clone();
            let screen_session = ScreenSession {
                host: host.clone(),
                configuration,
                watcher,
                started,
                backend: Arc::new(ScreenBackend::new(session)),
                elicitor: screen_elicitor,
                elicitor_messages,
                script,
            };
            let status = screen.run(screen_session, async || interrupts.next().await).await;
            let exit_message =
                status.map(|it| conversation::exit_message(&it)).map_err(terminal_failure)?;
            Ok((exit_message, audit))
        },
    )?;
    call_context::warn_about_lost_records(session, &audit);
    Ok(CommandOutput::text(exit_message))
}

fn screen_options(session: &Invocation) -> ScreenOptions {
    let env = &session.env;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| env.variables.get(name).filter(|it| !it.trim().is_empty()));
    ScreenOptions {
        theme: terminal_theme::detect(&env.variables, None),
        folder: session.display_path(&env.working_folder),
        settings_file: session.display_path(&env.paths.user_settings()),
        editor: editor.cloned(),
    }
}

fn terminal_failure(error: io::Error) -> Failure {
    Failure::new(Exit::Failure, "the terminal cannot be used").caused_by(error)
}
