//! What panels and dialogs want changed: servers switched, approved, signed in to. The commands do it; what they change in
//! files is picked up by whoever follows the configuration.

use switchboard::config::display::printable;
use switchboard::login::server_login::LoginRequest;

use super::{EffectRunner, error_event};
use crate::args::CommandArgs;
use crate::commands::approve::ApproveArgs;
use crate::commands::reject::RejectArgs;
use crate::dispatch;
use crate::output::login_text;
use crate::prompt::login_prompt::BrowserMode;
use crate::runtime::login;
use crate::runtime::servers;
use crate::tui::elicitor::ScreenLoginGuide;
use crate::tui::state::screen_state::ScreenEvent;
use crate::tui::view::dialog::project_servers::{ApprovalChoice, ProjectServer};

/// The command that approves a server.
pub fn approve_command(name: String) -> CommandArgs {
    CommandArgs::Approve(ApproveArgs { names: vec![name], all: false, hash: None })
}

/// The same, as long as it is still what was shown.
pub fn approve_shown_command(name: String, fingerprint: String) -> CommandArgs {
    CommandArgs::Approve(ApproveArgs { names: vec![name], all: false, hash: Some(fingerprint) })
}

impl EffectRunner {
    /// Runs a command that changes files, beside the screen.
    pub(crate) fn run_change(&mut self, verb: CommandArgs) {
        let session = self.session.clone();
        self.spawn(async move {
            let run = move || dispatch::run(verb, &session);
            match tokio::task::spawn_blocking(run).await {
                Ok(Ok(done)) => ScreenEvent::Note(format!("{}{}", done.text, done.notes)),
                Ok(Err(failure)) => error_event(&failure),
                Err(_) => ScreenEvent::Error("it could not be done".to_owned()),
            }
        });
    }

    /// Asks about servers of the project that nobody decided on, where there are some.
    pub fn request_project_approvals(&mut self) {
        let waiting = ProjectServer::pending(&self.session, &self.configuration);
        if waiting.is_empty() {
            return;
        }
        let (questions, session) = (self.elicitor.clone(), self.session.clone());
        self.spawn(async move {
            let choices = questions.request_project_approvals(waiting.clone()).await;
            let decide = move || {
                let mut said = String::new();
                for (server, choice) in waiting.into_iter().zip(choices) {
                    let verb = match choice {
                        // What was shown is what is approved.
                        ApprovalChoice::Approve => {
                            approve_shown_command(server.name, server.fingerprint)
                        }
                        ApprovalChoice::Reject => {
                            CommandArgs::Reject(RejectArgs { names: vec![server.name], all: false })
                        }
                        ApprovalChoice::Later => continue,
                    };
                    let done = dispatch::run(verb, &session)?;
                    said.push_str(&done.text);
                }
                Ok(said)
            };
            match tokio::task::spawn_blocking(decide).await {
                Ok(Ok(said)) if said.is_empty() => ScreenEvent::Redraw,
                Ok(Ok(said)) => ScreenEvent::Note(said),
                Ok(Err(failure)) => error_event(&failure),
                Err(_) => ScreenEvent::Error("it could not be written down".to_owned()),
            }
        });
    }

    pub(crate) fn log_in(&mut self, name: String) {
        let (host, session) = (self.host.clone(), self.session.clone());
        let browser_mode = BrowserMode::detect(&session.env, false);
        let whom = format!("`{}`", printable(&name));
        let (guide, mut cancellation) = ScreenLoginGuide::new(&self.elicitor, browser_mode, &whom);
        if let Some(server) = self.configuration.effective.winner(&name) {
            login::forget_auth_required(&session, server);
        }
        self.spawn(async move {
            let login_request = LoginRequest::default();
            let outcome = tokio::select! {
                outcome = host.login(&name, &guide, &login_request) => outcome,
                () = cancellation.cancelled() => return ScreenEvent::Note(format!("Not signed in to {whom}.")),
            };
            match outcome {
                Ok(login) => {
                    let _gone = host.reconnect(&name).await;
                    ScreenEvent::Note(format!("Signed in to {whom}.\n{}", login_text::details_text(&login)))
                }
                Err(error) => error_event(&login_text::login_failure(&whom, &error)),
            }
        });
    }

    pub(crate) fn log_out(&mut self, name: String) {
        let host = self.host.clone();
        let whom = format!("`{}`", printable(&name));
        let desired = servers::desired_servers(&self.configuration, std::slice::from_ref(&name));
        let Some(desired) = desired.into_iter().next() else {
            let text = format!("there is no server {whom}");
            return self.spawn(async move { ScreenEvent::Error(text) });
        };
        self.spawn(async move {
            match host.forget_login(&desired).await {
                Ok(outcome) => {
                    let _gone = host.reconnect(&name).await;
                    let done = login_text::logout_output(&whom, &outcome);
                    ScreenEvent::Note(format!("{}{}", done.text, done.notes))
                }
                Err(error) => error_event(&login_text::login_failure(&whom, &error)),
            }
        });
    }
}
