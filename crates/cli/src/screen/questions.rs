//! The way from whoever asks to the person at the screen: the host, its servers and logins put questions, the window
//! takes them one at a time. A question whose asker is gone leaves the screen; a window that is gone answers no.

mod guidance;
mod queue;

pub use guidance::ScreenGuide;
pub use queue::Queue;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use switchboard::calling::{Consent, Consented, Consenting, PermissionQuestion};
use switchboard::form::Form;
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Sample, Subject, Visit, Waited, Waiting};
use switchboard::load::Configuration;
use switchboard::read::{self, Content, Kinds};
use switchboard::ruling::RuleFile;
use tokio::sync::{Notify, mpsc, oneshot};
use url::Url;

use crate::browser;
use crate::person::{SAID_NO, SAID_NOTHING};
use crate::screen::dialog::edit_preview::{self, Doing, EditPreview};
use crate::screen::dialog::form_dialog::FormDialog;
use crate::screen::dialog::login_dialog::{LoginDialog, LoginPage, Pasted};
use crate::screen::dialog::permission_dialog::{PermissionDialog, ProposedCall};
use crate::screen::dialog::project_dialog::{ProjectDialog, ProjectServer, Verdict};
use crate::screen::dialog::visit_dialog::{self, Visiting};
use crate::screen::dialog::{Dialog, sample_dialog};
use crate::session::Session;

/// How many questions may wait for the window to take them. Who asks more waits.
const WAITING: usize = 64;
/// How long a file that would change may take to be read.
const READING: Duration = Duration::from_millis(500);

/// What is asked, with everything that is needed to ask it.
#[derive(Debug)]
pub enum Question {
    /// May a tool be called?
    Permission(Box<ProposedCall>, oneshot::Sender<Consented>),
    /// A server wants to know something.
    Form(String, Form, oneshot::Sender<Reply>),
    /// A server wants somebody to go somewhere. Where that was tried, why it failed.
    Visit(String, Visit, Option<String>, oneshot::Sender<Visiting>),
    /// Somebody went there, and waits.
    Wait(String, Visit, oneshot::Sender<Waited>),
    /// A server wants to use the model.
    Sample(String, Sample, oneshot::Sender<Reply>),
    /// Somebody is to sign in.
    SignIn(LoginPage, oneshot::Sender<Pasted>),
    /// A project has servers that nobody decided on.
    Project(Vec<ProjectServer>, oneshot::Sender<Vec<Verdict>>),
}

impl Question {
    /// The dialog that asks it.
    pub fn dialog(self) -> Box<dyn Dialog> {
        match self {
            Question::Permission(call, reply) => Box::new(PermissionDialog::new(*call, reply)),
            Question::Form(server, form, reply) => Box::new(FormDialog::new(&server, form, reply)),
            Question::Visit(server, visit, trouble, reply) => {
                Box::new(visit_dialog::visit(&server, &visit, trouble.as_deref(), reply))
            }
            Question::Wait(server, visit, reply) => {
                Box::new(visit_dialog::wait(&server, &visit, reply))
            }
            Question::Sample(server, sample, reply) => {
                Box::new(sample_dialog::sample(&server, &sample, reply))
            }
            Question::SignIn(page, reply) => Box::new(LoginDialog::new(page, reply)),
            Question::Project(servers, reply) => Box::new(ProjectDialog::new(servers, reply)),
        }
    }
}

/// What comes to the window.
#[derive(Debug)]
pub enum Arrival {
    /// A question.
    Asked(Box<Question>),
    /// Something that somebody should know.
    Note(String),
    /// Some question may be wanted no more.
    Withdrawn,
}

/// The window's end. Dropping it answers no to everything.
#[derive(Debug)]
pub struct Arrivals {
    arrivals: mpsc::Receiver<Arrival>,
    withdrawn: Arc<Notify>,
}

impl Arrivals {
    /// What comes next; nothing where nobody is left who could ask. May be dropped and asked again.
    pub async fn next(&mut self) -> Option<Arrival> {
        tokio::select! {
            arrival = self.arrivals.recv() => arrival,
            () = self.withdrawn.notified() => Some(Arrival::Withdrawn),
        }
    }
}

/// Opens a page.
pub type Opener = Arc<dyn Fn(&Url) -> io::Result<()> + Send + Sync>;

/// What questions depend on.
#[derive(Clone)]
pub struct Circumstances {
    /// The file that rules are written to, as people read it.
    pub rule_file: String,
    /// Where paths in arguments begin.
    pub working_folder: PathBuf,
    /// Opens pages.
    pub opener: Opener,
}

impl Circumstances {
    /// Those of a session.
    pub fn of(session: &Session, configuration: &Configuration) -> Circumstances {
        let project_root = configuration.project_root.clone();
        let file = RuleFile::Local { project_root }.path(&session.machine.places);
        let preferred = session.person.browser().map(str::to_owned);
        Circumstances {
            rule_file: session.shown_path(&file),
            working_folder: session.machine.working_folder.clone(),
            opener: Arc::new(move |url| browser::open(url, preferred.as_deref())),
        }
    }
}

/// The askers' end. Clones are the same one.
#[derive(Clone)]
pub struct Questions {
    arrivals: mpsc::Sender<Arrival>,
    withdrawn: Arc<Notify>,
    circumstances: Arc<Circumstances>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

/// Makes both ends.
pub fn channel(circumstances: Circumstances) -> (Questions, Arrivals) {
    let (sender, arrivals) = mpsc::channel(WAITING);
    let withdrawn = Arc::new(Notify::new());
    let circumstances = Arc::new(circumstances);
    let questions = Questions { arrivals: sender, withdrawn: withdrawn.clone(), circumstances };
    (questions, Arrivals { arrivals, withdrawn })
}

/// Rings when whoever asked is gone, so that the window looks.
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Questions {
    /// Puts a question, and waits for what is said to it; nothing where the window is gone.
    async fn put<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        // Before the channel, so that it rings once the channel is closed.
        let _bell = Bell(self.withdrawn.clone());
        let (reply, answer) = oneshot::channel();
        self.arrivals.send(Arrival::Asked(Box::new(question(reply)))).await.ok()?;
        answer.await.ok()
    }

    /// Asks what is to become of a project's servers. Those that nobody decided on are for later.
    pub async fn project(&self, servers: Vec<ProjectServer>) -> Vec<Verdict> {
        let count = servers.len();
        let verdicts = self.put(|reply| Question::Project(servers, reply)).await;
        verdicts.unwrap_or_else(|| vec![Verdict::Later; count])
    }

    async fn consented(&self, ask: &PermissionQuestion<'_>) -> Consented {
        let mut call = ProposedCall::of(ask, &self.circumstances.rule_file);
        call.edit = self.preview(&call).await;
        let call = Box::new(call);
        let consented = self.put(|reply| Question::Permission(call, reply)).await;
        consented.unwrap_or_else(|| Consented::No(SAID_NOTHING.to_owned()))
    }

    /// What a call would change in a file. Nothing where that cannot be told: the arguments are shown anyway.
    async fn preview(&self, call: &ProposedCall) -> Option<EditPreview> {
        let edit = edit_preview::wanted(&call.arguments)?;
        let path = self.circumstances.working_folder.join(&edit.path);
        let reading = tokio::task::spawn_blocking(move || {
            let existing = match &edit.doing {
                Doing::Replaced(_) => None,
                Doing::Written(_) => match read::text(&path, Kinds::RegularOnly) {
                    Ok(Content::Text(text)) => Some(text),
                    Ok(Content::Absent) | Err(_) => None,
                },
            };
            edit.preview(existing.as_deref())
        });
        tokio::time::timeout(READING, reading).await.ok()?.ok()?
    }

    async fn answered(&self, inquiry: &Inquiry) -> Reply {
        let server = inquiry.server.clone();
        let reply = match inquiry.subject.clone() {
            Subject::Form(form) => self.put(|reply| Question::Form(server, form, reply)).await,
            Subject::Visit(visit) => Some(self.visited(&server, &visit).await),
            Subject::Sample(sample) => {
                self.put(|reply| Question::Sample(server, sample, reply)).await
            }
        };
        reply.unwrap_or_else(gone)
    }

    async fn visited(&self, server: &str, visit: &Visit) -> Reply {
        let mut trouble = None;
        loop {
            let (server, visit) = (server.to_owned(), visit.clone());
            let url = visit.url.clone();
            let said = self.put(|reply| Question::Visit(server, visit, trouble, reply)).await;
            match said {
                Some(Visiting::Myself) => return Reply::Accept(Map::new()),
                Some(Visiting::No) => return Reply::Decline(SAID_NO.to_owned()),
                None => return gone(),
                Some(Visiting::Open) => match (self.circumstances.opener)(&url) {
                    Ok(()) => return Reply::Accept(Map::new()),
                    Err(error) => trouble = Some(format!("no browser could be started: {error}")),
                },
            }
        }
    }

    async fn waited(&self, inquiry: &Inquiry) -> Waited {
        let Subject::Visit(visit) = inquiry.subject.clone() else {
            return std::future::pending().await;
        };
        let server = inquiry.server.clone();
        let waited = self.put(|reply| Question::Wait(server, visit, reply)).await;
        waited.unwrap_or(Waited::GivenUp)
    }
}

fn gone() -> Reply {
    Reply::Cancel("nobody answered".to_owned())
}

impl Ask for Questions {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        Box::pin(self.answered(inquiry))
    }

    fn wait<'a>(&'a self, inquiry: &'a Inquiry) -> Waiting<'a> {
        Box::pin(self.waited(inquiry))
    }
}

impl Consent for Questions {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(self.consented(ask))
    }

    fn note(&self, text: &str) {
        let _window_is_busy_or_gone = self.arrivals.try_send(Arrival::Note(text.to_owned()));
    }
}

#[cfg(test)]
mod tests;
