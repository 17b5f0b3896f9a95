//! Asks the user through the screen's dialogs: elicitations of servers, permission requests and logins. Requests go
//! through a channel to the screen. A dropped request closes its dialog; a closed screen denies every request.

mod login_guide;

pub use login_guide::{LoginCancellation, ScreenLoginGuide};

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::url::Url;
use serde_json::Map;
use switchboard::elicitation::{
    DENIED_BY_USER, ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
    UrlElicitation, WaitFuture, WaitOutcome,
};
use switchboard::permission::{
    DecisionFuture, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::view::dialog::channels::ChannelsChoice;
use crate::view::dialog::edit_preview;
use crate::view::dialog::edit_preview::{EditKind, EditPreview};
use crate::view::dialog::permission::ProposedCall;
use crate::view::dialog::project_servers::{ApprovalChoice, ProjectServer};
use crate::view::dialog::request::DialogRequest;
use crate::view::dialog::url::UrlChoice;

/// How many requests may wait for the screen; further callers wait for room.
const REQUEST_BUFFER: usize = 64;
/// How long reading a file for its edit preview may take.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// A message to the screen.
#[derive(Debug)]
pub enum ElicitorMessage {
    /// A request for a dialog.
    Request(Box<DialogRequest>),
    /// A note to show.
    Note(String),
    /// A caller has dropped its request.
    Withdrawn,
}

/// The screen's end of the channel. Dropping it denies every request.
#[derive(Debug)]
pub struct ElicitorReceiver {
    messages: mpsc::Receiver<ElicitorMessage>,
    withdrawn: Arc<Notify>,
}

impl ElicitorReceiver {
    /// The next message; `None` once every elicitor is dropped. May be dropped and called again.
    pub async fn next(&mut self) -> Option<ElicitorMessage> {
        tokio::select! {
            message = self.messages.recv() => message,
            () = self.withdrawn.notified() => Some(ElicitorMessage::Withdrawn),
        }
    }
}

/// Opens a URL in a browser.
pub type UrlOpener = Arc<dyn Fn(&Url) -> io::Result<()> + Send + Sync>;

/// What dialogs depend on.
#[derive(Clone)]
pub struct ElicitorContext {
    /// The file that permission rules are written to, as it is displayed.
    pub rule_file: String,
    /// The folder that relative paths in arguments start from.
    pub working_folder: PathBuf,
    /// Opens URLs.
    pub open_url: UrlOpener,
    /// How a login page is shown.
    pub browser_mode: BrowserMode,
}

/// How a login page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserMode {
    /// In a browser on this machine.
    Open,
    /// As a URL that the user opens, on any machine that has a browser.
    ShowUrl,
}

/// The callers' end of the channel. Clones share it.
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

/// Makes both ends of the channel.
pub fn channel(context: ElicitorContext) -> (ScreenElicitor, ElicitorReceiver) {
    let (sender, messages) = mpsc::channel(REQUEST_BUFFER);
    let withdrawn = Arc::new(Notify::new());
    let context = Arc::new(context);
    let elicitor = ScreenElicitor { messages: sender, withdrawn: withdrawn.clone(), context };
    (elicitor, ElicitorReceiver { messages, withdrawn })
}

/// Notifies the screen, when it is dropped, that a request may have been withdrawn.
struct WithdrawalNotifier(Arc<Notify>);

impl Drop for WithdrawalNotifier {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl ScreenElicitor {
    /// Sends a request and waits for the answer; `None` where the screen is closed.
    async fn request<T>(
        &self,
        request_with: impl FnOnce(oneshot::Sender<T>) -> DialogRequest,
    ) -> Option<T> {
        // Declared before the channel, so that it is dropped after the channel is closed.
        let _bell = WithdrawalNotifier(self.withdrawn.clone());
        let (reply, answer) = oneshot::channel();
        self.messages.send(ElicitorMessage::Request(Box::new(request_with(reply)))).await.ok()?;
        answer.await.ok()
    }

    /// Asks which servers of the project to approve. A closed screen answers `Later` for all.
    pub async fn request_project_approvals(
        &self,
        servers: Vec<ProjectServer>,
    ) -> Vec<ApprovalChoice> {
        let count = servers.len();
        let choices = self.request(|reply| DialogRequest::ProjectServers(servers, reply)).await;
        choices.unwrap_or_else(|| vec![ApprovalChoice::Later; count])
    }

    /// Asks whether channels may be used that no administrator allows. A closed screen refuses.
    pub(crate) async fn confirm_channels(&self, channels: Vec<String>) -> ChannelsChoice {
        let choice =
            self.request(|reply| DialogRequest::DevelopmentChannels(channels, reply)).await;
        choice.unwrap_or(ChannelsChoice::Refuse)
    }

    async fn request_permission(&self, request: &PermissionRequest<'_>) -> PermissionDecision {
        let mut call = ProposedCall::from_request(request, &self.context.rule_file);
        call.edit = self.preview_edit(&call).await;
        let call = Box::new(call);
        let decision = self.request(|reply| DialogRequest::Permission(call, reply)).await;
        decision.unwrap_or(PermissionDecision::NoAnswer)
    }

    /// The change that a call would make to a file. `None` where it cannot be told; the dialog then shows the arguments only.
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
            ElicitationKind::Url(elicited) => Some(self.elicit_url(&server, &elicited).await),
            ElicitationKind::Sampling(sample) => {
                self.request(|reply| DialogRequest::Sampling(server, sample, reply)).await
            }
        };
        reply.unwrap_or_else(no_answer)
    }

    async fn elicit_url(&self, server: &str, elicited: &UrlElicitation) -> ElicitResult {
        let mut open_error = None;
        loop {
            let (server, elicited) = (server.to_owned(), elicited.clone());
            let url = elicited.url.clone();
            let choice =
                self.request(|reply| DialogRequest::Url(server, elicited, open_error, reply)).await;
            match choice {
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
        let ElicitationKind::Url(elicited) = elicitation.kind.clone() else {
            return std::future::pending().await;
        };
        let server = elicitation.server.clone();
        let outcome = self.request(|reply| DialogRequest::UrlWait(server, elicited, reply)).await;
        outcome.unwrap_or(WaitOutcome::GivenUp)
    }
}

fn no_answer() -> ElicitResult {
    ElicitResult::Cancel("the user did not answer".to_owned())
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
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(self.request_permission(request))
    }

    fn warn(&self, text: &str) {
        let _window_is_busy_or_gone =
            self.messages.try_send(ElicitorMessage::Note(text.to_owned()));
    }
}

#[cfg(test)]
mod tests;
