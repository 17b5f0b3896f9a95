//! Does what the chat decides: says things to the model, calls tools, runs slash commands, reads resources, changes
//! servers. What takes time runs beside the screen and comes back as an event.

mod calls;
mod changes;
mod prompts;
mod texts;

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::calling::Desk;
use switchboard::config::permission::Mode;
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard_chat::talk::Talk;
use switchboard_chat::utterance::Part;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::arguments::Verb;
use crate::commands::disable::Disable;
use crate::commands::enable::Enable;
use crate::commands::reject::Reject;
use crate::outcome::Failure;
use crate::report;
use crate::screen::chat::{Act, Event, ModelSeen, NO_MODEL, Returned};
use crate::screen::mention;
use crate::screen::opening::{self, Coming};
use crate::screen::overlay::Deed;
use crate::screen::questions::Questions;
use crate::screen::slash::Slash;
use crate::session::Session;
use calls::OwnCalls;
use changes::approve;

/// Everything that is needed to do things.
pub struct Deeds {
    /// The machine and the flags; its width is the window's.
    pub session: Session,
    /// The servers.
    pub host: Host,
    /// What calls depend on.
    pub desk: Arc<Desk>,
    /// What is configured.
    pub configuration: Arc<Configuration>,
    /// The conversation.
    pub talk: Talk,
    /// Where questions are put.
    pub questions: Questions,
    /// Where outcomes go.
    pub reports: mpsc::Sender<Event>,
    /// What is under way beside the screen. Dropping it ends it.
    pub tasks: JoinSet<()>,
    /// Who answers.
    pub model: Option<ModelSeen>,
    calls: OwnCalls,
    /// What the window hears when it has time. Bounded by what one act says.
    said: Vec<Event>,
}

/// What the window has to do itself.
#[derive(Debug, PartialEq, Eq)]
pub enum ForWindow {
    /// Leave.
    Quit,
    /// Let an editor have a text.
    Edit(String),
    /// Stop the program.
    Suspend,
    /// Draw everything anew.
    Repaint,
    /// Make a sound: somebody is wanted.
    Ring,
    /// Remember what was sent.
    Remember(String),
}

impl Deeds {
    /// Ready to do things.
    pub fn new(
        session: Session,
        host: Host,
        (desk, configuration): (Arc<Desk>, Arc<Configuration>),
        (talk, questions): (Talk, Questions),
        reports: mpsc::Sender<Event>,
    ) -> Deeds {
        Deeds {
            session,
            host,
            desk,
            configuration,
            talk,
            questions,
            reports,
            tasks: JoinSet::new(),
            model: None,
            calls: OwnCalls::default(),
            said: Vec::new(),
        }
    }

    /// Does something. Gives what only the window can do.
    pub async fn act(&mut self, act: Act) -> Option<ForWindow> {
        match act {
            Act::Quit | Act::Run(Slash::Quit) => return Some(ForWindow::Quit),
            Act::Edit(text) => return Some(ForWindow::Edit(text)),
            Act::Suspend => return Some(ForWindow::Suspend),
            Act::Repaint => return Some(ForWindow::Repaint),
            Act::Ring => return Some(ForWindow::Ring),
            Act::Remember(text) => return Some(ForWindow::Remember(text)),
            Act::Say(text) => self.say(text).await,
            Act::TakeBack => {
                let talk = self.talk.clone();
                self.beside(async move {
                    match talk.take_back().await {
                        true => Event::TakenBack(Returned::Yes),
                        false => Event::TakenBack(Returned::No),
                    }
                });
            }
            Act::Interrupt => {
                self.calls.stop();
                self.talk.interrupt().await;
            }
            Act::Run(slash) => self.run(slash).await,
            Act::Do(deed) => self.deed(deed),
            Act::SetMode(mode) => self.set_mode(mode).await,
            Act::GetPrompt(asked) => self.get_prompt(asked),
            Act::Complete { prompt, typed } => self.complete(prompt, typed),
        }
        None
    }

    /// Another configuration counts from now on.
    pub async fn reconfigure(&mut self, configuration: Configuration) {
        crate::live::apply(&self.host, &configuration, &[]).await;
        let servers = configuration.effective.servers.iter();
        let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
        let rules = self.desk.rules.clone();
        rules.replace(configuration.rules.clone());
        self.desk = Arc::new(Desk { trusted, ..Desk::clone(&self.desk) });
        self.talk.set_desk(self.desk.clone()).await;
        self.configuration = Arc::new(configuration);
    }

    async fn set_mode(&mut self, mode: Mode) {
        self.desk = Arc::new(Desk { mode, ..Desk::clone(&self.desk) });
        self.talk.set_desk(self.desk.clone()).await;
    }

    /// Runs something beside the screen; its outcome comes back as an event.
    fn beside(&mut self, work: impl Future<Output = Event> + Send + 'static) {
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            let event = work.await;
            let _left = reports.send(event).await;
        });
        // What has ended need not be kept.
        while self.tasks.try_join_next().is_some() {}
    }

    async fn say(&mut self, text: String) {
        if mention::mentions(&text, &self.host.snapshot()).is_empty() {
            return self.talk.say(vec![Part::Text { text }]).await;
        }
        let (host, talk) = (self.host.clone(), self.talk.clone());
        let keep = self.desk.keep.clone();
        let limits = self.desk.limits;
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            let (parts, faults) = mention::parts(&host, &text, (&limits, &keep)).await;
            for fault in faults {
                let _left = reports.send(Event::Fault(fault)).await;
            }
            talk.say(parts).await;
        });
    }

    async fn run(&mut self, slash: Slash) {
        match slash {
            Slash::Call { tool, arguments } => self.call(tool, &arguments).await,
            Slash::Read { server, uri } => self.read(server, uri),
            Slash::Prompt { name, given } => self.begin_prompt(&name, &given).await,
            Slash::Clear => self.talk.clear().await,
            Slash::Quit => {}
            Slash::Model(Some(name)) => {
                let coming = opening::model(&self.session, Some(name));
                self.await_model(coming);
            }
            slash @ (Slash::Help
            | Slash::Mcp(_)
            | Slash::Tools(_)
            | Slash::Resources(_)
            | Slash::Permissions
            | Slash::Model(None)
            | Slash::Logs(_)
            | Slash::Doctor(_)) => self.text(slash).await,
        }
    }

    fn deed(&mut self, deed: Deed) {
        match deed {
            Deed::Reconnect(name) => {
                let host = self.host.clone();
                self.beside(async move {
                    match host.reconnect(&name).await {
                        Some(()) => Event::Drawn,
                        None => Event::Fault(format!("there is no server `{name}`")),
                    }
                });
            }
            Deed::ShowLog(name) => {
                let session = self.session.clone();
                self.beside(async move { texts::log(session, name).await });
            }
            Deed::Enable(name) => self.command(Verb::Enable(Enable { name })),
            Deed::Disable(name) => self.command(Verb::Disable(Disable { name, scope: None })),
            Deed::Approve(name) => self.command(approve(name)),
            Deed::ApproveShown { name, fingerprint } => {
                self.command(changes::approve_shown(name, fingerprint));
            }
            Deed::Reject(name) => {
                self.command(Verb::Reject(Reject { names: vec![name], all: false }));
            }
            Deed::SignIn(name) => self.sign_in(name),
            Deed::SignOut(name) => self.sign_out(name),
        }
    }

    /// Goes on with a model once it is there.
    pub fn await_model(&mut self, coming: Coming) {
        let talk = self.talk.clone();
        self.beside(async move {
            match coming.await {
                Ok(Ok(Some(model))) => {
                    let seen = ModelSeen::of(&model);
                    talk.set_model(Some(model)).await;
                    Event::Model(Some(seen))
                }
                Ok(Ok(None)) | Err(_) => Event::Fault(NO_MODEL.to_owned()),
                Ok(Err(failure)) => fault(&failure),
            }
        });
    }

    /// Says something to the window. It waits for us now, so it must not be waited for.
    fn tell(&mut self, event: Event) {
        self.said.push(event);
    }

    /// What was said to the window meanwhile.
    pub fn take_said(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.said)
    }
}

/// A failure as an event.
pub fn fault(failure: &Failure) -> Event {
    let text = report::failure_text(failure);
    let text = text.replace("\n\n", "\n");
    Event::Fault(text.trim_end().to_owned())
}

/// A path's folder, for whoever looks for files that were typed.
pub fn folder(session: &Session) -> PathBuf {
    session.machine.working_folder.clone()
}
