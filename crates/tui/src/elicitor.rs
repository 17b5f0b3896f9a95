//! The way from whoever asks to the person at the screen: the host, its servers and logins put questions, the window
//! takes them one at a time. A question whose asker is gone leaves the screen; a window that is gone answers no.

mod login_guide;

pub use login_guide::{LoginCancellation, ScreenLoginGuide};

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::url::Url;
use serde_json::Map;
use switchboard::call::pipeline::{
    DecisionFuture, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::elicitation::elicitor::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, UrlElicitation, WaitFuture,
    WaitOutcome,
};
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::view::dialog::DENIED_BY_USER;
use crate::view::dialog::edit_preview;
use crate::view::dialog::edit_preview::{EditKind, EditPreview};
use crate::view::dialog::permission::ProposedCall;
use crate::view::dialog::project_servers::{ApprovalChoice, ProjectServer};
use crate::view::dialog::request::DialogRequest;
use crate::view::dialog::url::UrlChoice;

/// The reason of a permission denial where the user never answered.
const NO_ANSWER: &str = "you did not answer";
/// How many questions may wait for the window to take them. Who asks more waits.
const REQUEST_BUFFER: usize = 64;
/// How long a file that would change may take to be read.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// What comes to the window.
#[derive(Debug)]
pub enum ElicitorMessage {
    /// A question.
    Request(Box<DialogRequest>),
    /// Something that somebody should know.
    Note(String),
    /// Some question may be wanted no more.
    Withdrawn,
}

/// The window's end. Dropping it answers no to everything.
#[derive(Debug)]
pub struct ElicitorReceiver {
    messages: mpsc::Receiver<ElicitorMessage>,
    withdrawn: Arc<Notify>,
}

impl ElicitorReceiver {
    /// What comes next; nothing where nobody is left who could ask. May be dropped and asked again.
    pub async fn next(&mut self) -> Option<ElicitorMessage> {
        tokio::select! {
            arrival = self.messages.recv() => arrival,
            () = self.withdrawn.notified() => Some(ElicitorMessage::Withdrawn),
        }
    }
}

/// Opens a page.
pub type UrlOpener = Arc<dyn Fn(&Url) -> io::Result<()> + Send + Sync>;

/// What questions depend on.
#[derive(Clone)]
pub struct ElicitorContext {
    /// The file that rules are written to, as people read it.
    pub rule_file: String,
    /// Where paths in arguments begin.
    pub working_folder: PathBuf,
    /// Opens pages.
    pub open_url: UrlOpener,
    /// How a login page is shown.
    pub browser_mode: BrowserMode,
}

/// How a login page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserMode {
    /// In a browser on this machine.
    Open,
    /// As a URL that the user opens, on whatever machine has a browser.
    ShowUrl,
}

/// The askers' end. Clones are the same one.
#[derive(Clone)]
pub struct ScreenElicitor {
    messages: mpsc::Sender<ElicitorMessage>,
    withdrawn: Arc<Notify>,
    context: Arc<ElicitorContext>,
}

impl fmt::Debug for ScreenElicitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScreenElicitor").finish_non_exhaustive()
    }
}

/// Makes both ends.
pub fn channel(context: ElicitorContext) -> (ScreenElicitor, ElicitorReceiver) {
    let (sender, arrivals) = mpsc::channel(REQUEST_BUFFER);
    let withdrawn = Arc::new(Notify::new());
    let context = Arc::new(context);
    let questions = ScreenElicitor { messages: sender, withdrawn: withdrawn.clone(), context };
    (questions, ElicitorReceiver { messages: arrivals, withdrawn })
}

/// Rings when whoever asked is gone, so that the window looks.
struct WithdrawalNotifier(Arc<Notify>);

impl Drop for WithdrawalNotifier {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl ScreenElicitor {
    /// Puts a question, and waits for what is said to it; nothing where the window is gone.
    async fn request<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> DialogRequest,
    ) -> Option<T> {
        // Before the channel, so that it rings once the channel is closed.
        let _bell = WithdrawalNotifier(self.withdrawn.clone());
        let (reply, answer) = oneshot::channel();
        self.messages.send(ElicitorMessage::Request(Box::new(question(reply)))).await.ok()?;
        answer.await.ok()
    }

    /// Asks what is to become of a project's servers. Those that nobody decided on are for later.
    pub async fn request_project_approvals(
        &self,
        servers: Vec<ProjectServer>,
    ) -> Vec<ApprovalChoice> {
        let count = servers.len();
        let choices = self.request(|reply| DialogRequest::ProjectServers(servers, reply)).await;
        choices.unwrap_or_else(|| vec![ApprovalChoice::Later; count])
    }

    async fn request_permission(&self, ask: &PermissionRequest<'_>) -> PermissionDecision {
        let mut call = ProposedCall::from_request(ask, &self.context.rule_file);
        call.edit = self.preview_edit(&call).await;
        let call = Box::new(call);
        let consented = self.request(|reply| DialogRequest::Permission(call, reply)).await;
        consented.unwrap_or_else(|| PermissionDecision::Deny(NO_ANSWER.to_owned()))
    }

    /// What a call would change in a file. Nothing where that cannot be told: the arguments are shown anyway.
    async fn preview_edit(&self, call: &ProposedCall) -> Option<EditPreview> {
        let edit = edit_preview::detect_edit(&call.arguments)?;
        let path = self.context.working_folder.join(&edit.path);
        let reading = tokio::task::spawn_blocking(move || {
            let existing = match &edit.kind {
                EditKind::Replace(_) => None,
                EditKind::Overwrite(_) => {
                    match text_file::read_text(&path, AllowedFiles::RegularOnly) {
                        Ok(FileContent::Text(text)) => Some(text),
                        Ok(FileContent::Absent) | Err(_) => None,
                    }
                }
            };
            edit.preview(existing.as_deref())
        });
        tokio::time::timeout(READ_TIMEOUT, reading).await.ok()?.ok()?
    }

    async fn elicit(&self, elicitation: &Elicitation) -> ElicitResult {
        let server = elicitation.server.clone();
        let reply = match elicitation.kind.clone() {
            ElicitationKind::Form(form) => {
                self.request(|reply| DialogRequest::Form(server, form, reply)).await
            }
            ElicitationKind::Url(visit) => Some(self.elicit_url(&server, &visit).await),
            ElicitationKind::Sampling(sample) => {
                self.request(|reply| DialogRequest::Sampling(server, sample, reply)).await
            }
        };
        reply.unwrap_or_else(no_answer)
    }

    async fn elicit_url(&self, server: &str, visit: &UrlElicitation) -> ElicitResult {
        let mut open_error = None;
        loop {
            let (server, visit) = (server.to_owned(), visit.clone());
            let url = visit.url.clone();
            let said =
                self.request(|reply| DialogRequest::Url(server, visit, open_error, reply)).await;
            match said {
                Some(UrlChoice::OpenManually) => return ElicitResult::Accept(Map::new()),
                Some(UrlChoice::Decline) => {
                    return ElicitResult::Decline(DENIED_BY_USER.to_owned());
                }
                None => return no_answer(),
                Some(UrlChoice::Open) => match (self.context.open_url)(&url) {
                    Ok(()) => return ElicitResult::Accept(Map::new()),
                    Err(error) => {
                        open_error = Some(format!("no browser could be started: {error}"))
                    }
                },
            }
        }
    }

    async fn wait_for_url(&self, elicitation: &Elicitation) -> WaitOutcome {
        let ElicitationKind::Url(visit) = elicitation.kind.clone() else {
            return std::future::pending().await;
        };
        let server = elicitation.server.clone();
        let waited = self.request(|reply| DialogRequest::UrlWait(server, visit, reply)).await;
        waited.unwrap_or(WaitOutcome::GivenUp)
    }
}

fn no_answer() -> ElicitResult {
    ElicitResult::Cancel("nobody answered".to_owned())
}

impl Elicitor for ScreenElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(self.elicit(elicitation))
    }

    fn wait_for_completion<'a>(&'a self, elicitation: &'a Elicitation) -> WaitFuture<'a> {
        Box::pin(self.wait_for_url(elicitation))
    }
}

impl PermissionPrompt for ScreenElicitor {
    fn decide<'a>(&'a self, ask: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(self.request_permission(ask))
    }

    fn warn(&self, text: &str) {
        let _window_is_busy_or_gone =
            self.messages.try_send(ElicitorMessage::Note(text.to_owned()));
    }
}

#[cfg(test)]
mod tests;
