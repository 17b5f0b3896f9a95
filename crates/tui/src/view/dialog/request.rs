//! A request for a dialog, with the channel its answer goes to, and the dialog that each becomes.

use switchboard::elicitation::{ElicitResult, Form, SamplingRequest, UrlElicitation, WaitOutcome};
use switchboard::permission::PermissionDecision;
use tokio::sync::oneshot;

use crate::view::dialog::channels::{ChannelsChoice, channels_dialog};
use crate::view::dialog::form::FormDialog;
use crate::view::dialog::login::{LoginDialog, LoginInput, LoginPage};
use crate::view::dialog::permission::{PermissionDialog, ProposedCall};
use crate::view::dialog::project_servers::{ApprovalChoice, ProjectServer, ProjectServersDialog};
use crate::view::dialog::url::UrlChoice;
use crate::view::dialog::{sampling, url};
use crate::view::overlay::Dialog;

/// A request for a dialog.
#[derive(Debug)]
pub enum DialogRequest {
    /// Permission for a tool call.
    Permission(Box<ProposedCall>, oneshot::Sender<PermissionDecision>),
    /// A form elicitation of a server.
    Form(String, Form, oneshot::Sender<ElicitResult>),
    /// A URL elicitation of a server, and the error of the last attempt to open it.
    Url(String, UrlElicitation, Option<String>, oneshot::Sender<UrlChoice>),
    /// Waits while the user is at the URL of an elicitation.
    UrlWait(String, UrlElicitation, oneshot::Sender<WaitOutcome>),
    /// A sampling request of a server.
    Sampling(String, SamplingRequest, oneshot::Sender<ElicitResult>),
    /// A login.
    Login(LoginPage, oneshot::Sender<LoginInput>),
    /// Servers of the project that wait for approval.
    ProjectServers(Vec<ProjectServer>, oneshot::Sender<Vec<ApprovalChoice>>),
    /// Channels that no administrator allows.
    DevelopmentChannels(Vec<String>, oneshot::Sender<ChannelsChoice>),
}

impl DialogRequest {
    /// The dialog for the request.
    pub fn into_dialog(self) -> Box<dyn Dialog> {
        match self {
            DialogRequest::Permission(call, reply) => Box::new(PermissionDialog::new(*call, reply)),
            DialogRequest::Form(server, form, reply) => {
                Box::new(FormDialog::new(&server, form, reply))
            }
            DialogRequest::Url(server, elicitation, open_error, reply) => {
                Box::new(url::url_dialog(&server, &elicitation, open_error.as_deref(), reply))
            }
            DialogRequest::UrlWait(server, elicitation, reply) => {
                Box::new(url::url_wait_dialog(&server, &elicitation, reply))
            }
            DialogRequest::Sampling(server, request, reply) => {
                Box::new(sampling::sampling_dialog(&server, &request, reply))
            }
            DialogRequest::Login(page, reply) => Box::new(LoginDialog::new(page, reply)),
            DialogRequest::ProjectServers(servers, reply) => {
                Box::new(ProjectServersDialog::new(servers, reply))
            }
            DialogRequest::DevelopmentChannels(channels, reply) => {
                Box::new(channels_dialog(&channels, reply))
            }
        }
    }
}
