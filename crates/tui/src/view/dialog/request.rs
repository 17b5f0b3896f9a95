//! A request for a dialog, with the channel its answer goes to, and the dialog that each becomes.

use switchboard::call::pipeline::PermissionDecision;
use switchboard::elicitation::elicitor::{
    ElicitResult, SamplingRequest, UrlElicitation, WaitOutcome,
};
use switchboard::elicitation::form::Form;
use tokio::sync::oneshot;

use crate::view::dialog::form::FormDialog;
use crate::view::dialog::login::{LoginDialog, LoginInput, LoginPage};
use crate::view::dialog::permission::{PermissionDialog, ProposedCall};
use crate::view::dialog::project_servers::{ApprovalChoice, ProjectServer, ProjectServersDialog};
use crate::view::dialog::url::UrlChoice;
use crate::view::dialog::{sampling, url};
use crate::view::overlay::Dialog;

/// What is asked, with everything that is needed to ask it.
#[derive(Debug)]
pub enum DialogRequest {
    /// May a tool be called?
    Permission(Box<ProposedCall>, oneshot::Sender<PermissionDecision>),
    /// A server wants to know something.
    Form(String, Form, oneshot::Sender<ElicitResult>),
    /// A server wants somebody to go somewhere. Where that was tried, why it failed.
    Url(String, UrlElicitation, Option<String>, oneshot::Sender<UrlChoice>),
    /// Somebody went there, and waits.
    UrlWait(String, UrlElicitation, oneshot::Sender<WaitOutcome>),
    /// A server wants to use the model.
    Sampling(String, SamplingRequest, oneshot::Sender<ElicitResult>),
    /// Somebody is to sign in.
    Login(LoginPage, oneshot::Sender<LoginInput>),
    /// A project has servers that nobody decided on.
    ProjectServers(Vec<ProjectServer>, oneshot::Sender<Vec<ApprovalChoice>>),
}

impl DialogRequest {
    /// The dialog that asks it.
    pub fn into_dialog(self) -> Box<dyn Dialog> {
        match self {
            DialogRequest::Permission(call, reply) => Box::new(PermissionDialog::new(*call, reply)),
            DialogRequest::Form(server, form, reply) => {
                Box::new(FormDialog::new(&server, form, reply))
            }
            DialogRequest::Url(server, visit, open_error, reply) => {
                Box::new(url::url_dialog(&server, &visit, open_error.as_deref(), reply))
            }
            DialogRequest::UrlWait(server, visit, reply) => {
                Box::new(url::url_wait_dialog(&server, &visit, reply))
            }
            DialogRequest::Sampling(server, sample, reply) => {
                Box::new(sampling::sampling_dialog(&server, &sample, reply))
            }
            DialogRequest::Login(page, reply) => Box::new(LoginDialog::new(page, reply)),
            DialogRequest::ProjectServers(servers, reply) => {
                Box::new(ProjectServersDialog::new(servers, reply))
            }
        }
    }
}
