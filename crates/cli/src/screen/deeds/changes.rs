//! What panels and dialogs want changed: servers switched, approved, signed in to. The commands do it; what they change in
//! files is picked up by whoever follows the configuration.

use switchboard::config::shown::printable;
use switchboard::signing::LoginWish;

use super::{Deeds, fault};
use crate::arguments::Verb;
use crate::commands;
use crate::commands::approve::Approve;
use crate::commands::login;
use crate::commands::reject::Reject;
use crate::live;
use crate::login_text;
use crate::screen::chat::Event;
use crate::screen::dialog::project_dialog::{ProjectServer, Verdict};
use crate::screen::questions::ScreenGuide;
use crate::signpost::Showing;

/// The command that approves a server.
pub fn approve(name: String) -> Verb {
    Verb::Approve(Approve { names: vec![name], all: false, hash: None })
}

/// The same, as long as it is still what was shown.
pub fn approve_shown(name: String, fingerprint: String) -> Verb {
    Verb::Approve(Approve { names: vec![name], all: false, hash: Some(fingerprint) })
}

impl Deeds {
    /// Runs a command that changes files, beside the screen.
    pub(super) fn command(&mut self, verb: Verb) {
        let session = self.session.clone();
        self.beside(async move {
            let run = move || commands::run(verb, &session);
            match tokio::task::spawn_blocking(run).await {
                Ok(Ok(done)) => Event::Note(format!("{}{}", done.text, done.notes)),
                Ok(Err(failure)) => fault(&failure),
                Err(_) => Event::Fault("it could not be done".to_owned()),
            }
        });
    }

    /// Asks about servers of the project that nobody decided on, where there are some.
    pub fn ask_about_project(&mut self) {
        let waiting = ProjectServer::waiting(&self.session, &self.configuration);
        if waiting.is_empty() {
            return;
        }
        let (questions, session) = (self.questions.clone(), self.session.clone());
        self.beside(async move {
            let verdicts = questions.project(waiting.clone()).await;
            let decide = move || {
                let mut said = String::new();
                for (server, verdict) in waiting.into_iter().zip(verdicts) {
                    let verb = match verdict {
                        // What was shown is what is approved.
                        Verdict::Approve => approve_shown(server.name, server.fingerprint),
                        Verdict::Reject => {
                            Verb::Reject(Reject { names: vec![server.name], all: false })
                        }
                        Verdict::Later => continue,
                    };
                    let done = commands::run(verb, &session)?;
                    said.push_str(&done.text);
                }
                Ok(said)
            };
            match tokio::task::spawn_blocking(decide).await {
                Ok(Ok(said)) if said.is_empty() => Event::Drawn,
                Ok(Ok(said)) => Event::Note(said),
                Ok(Err(failure)) => fault(&failure),
                Err(_) => Event::Fault("it could not be written down".to_owned()),
            }
        });
    }

    pub(super) fn sign_in(&mut self, name: String) {
        let (host, session) = (self.host.clone(), self.session.clone());
        let showing = Showing::of(&session.machine, false);
        let whom = format!("`{}`", printable(&name));
        let (guide, mut departure) = ScreenGuide::new(&self.questions, showing, &whom);
        if let Some(server) = self.configuration.effective.winner(&name) {
            login::forget_wall(&session, server);
        }
        self.beside(async move {
            let wish = LoginWish::default();
            let outcome = tokio::select! {
                outcome = host.login(&name, &guide, &wish) => outcome,
                () = departure.left() => return Event::Note(format!("Not signed in to {whom}.")),
            };
            match outcome {
                Ok(login) => {
                    let _gone = host.reconnect(&name).await;
                    Event::Note(format!("Signed in to {whom}.\n{}", login_text::lines(&login)))
                }
                Err(error) => fault(&login_text::failure(&whom, &error)),
            }
        });
    }

    pub(super) fn sign_out(&mut self, name: String) {
        let host = self.host.clone();
        let whom = format!("`{}`", printable(&name));
        let wanted = live::chosen(&self.configuration, std::slice::from_ref(&name));
        let Some(wanted) = wanted.into_iter().next() else {
            let text = format!("there is no server {whom}");
            return self.beside(async move { Event::Fault(text) });
        };
        self.beside(async move {
            match host.forget_login(&wanted).await {
                Ok(outcome) => {
                    let _gone = host.reconnect(&name).await;
                    let done = login_text::logged_out(&whom, &outcome);
                    Event::Note(format!("{}{}", done.text, done.notes))
                }
                Err(error) => fault(&login_text::failure(&whom, &error)),
            }
        });
    }
}
