//! The actions of panels and dialogs on servers: enable, approve, sign in. The backend makes the changes; those to files
//! take effect through the configuration watcher.

use switchboard::config::display::printable;

use super::{EffectContext, EffectRunner, error_event};
use crate::backend::ServerChange;
use crate::elicitor::ScreenLoginGuide;
use crate::state::event::ScreenEvent;
use crate::view::dialog::channels::ChannelsChoice;
use crate::view::dialog::project_servers::ApprovalChoice;
use crate::view::overlay::ServerAction;

impl EffectRunner {
    pub(crate) fn run_server_action(&mut self, action: ServerAction) {
        match action {
            ServerAction::Reconnect(name) => {
                let host = self.context.host.clone();
                self.spawn(async move {
                    match host.reconnect(&name).await {
                        Some(()) => ScreenEvent::Redraw,
                        None => ScreenEvent::Error(format!("there is no server `{name}`")),
                    }
                });
            }
            ServerAction::ShowLog(name) => self.show_log(name),
            ServerAction::Enable(name) => self.change_server(ServerChange::Enable(name)),
            ServerAction::Disable(name) => self.change_server(ServerChange::Disable(name)),
            ServerAction::Approve(name) => {
                self.change_server(ServerChange::Approve { name, fingerprint: None });
            }
            ServerAction::ApproveShown { name, fingerprint } => {
                let fingerprint = Some(fingerprint);
                self.change_server(ServerChange::Approve { name, fingerprint });
            }
            ServerAction::Reject(name) => self.change_server(ServerChange::Reject(name)),
            ServerAction::SignIn(name) => self.log_in(name),
            ServerAction::SignOut(name) => self.log_out(name),
        }
    }

    /// Makes a change beside the screen.
    fn change_server(&mut self, change: ServerChange) {
        let backend = self.context.backend.clone();
        self.spawn(async move {
            match tokio::task::spawn_blocking(move || backend.change_server(change)).await {
                Ok(Ok(text)) => ScreenEvent::Note(text),
                Ok(Err(error)) => error_event(&error),
                Err(_) => ScreenEvent::Error("the change could not be made".to_owned()),
            }
        });
    }

    /// Asks the user about servers of the project that wait for approval, where there are any.
    pub fn request_project_approvals(&mut self) {
        let pending = self.context.backend.pending_project_servers(&self.context.configuration);
        if pending.is_empty() {
            return;
        }
        let (elicitor, backend) = (self.context.elicitor.clone(), self.context.backend.clone());
        self.spawn(async move {
            let choices = elicitor.request_project_approvals(pending.clone()).await;
            let decide = move || {
                let mut output = String::new();
                for (server, choice) in pending.into_iter().zip(choices) {
                    let name = server.name;
                    let change = match choice {
                        // The fingerprint binds the approval to what the user saw.
                        ApprovalChoice::Approve => {
                            let fingerprint = Some(server.fingerprint);
                            ServerChange::Approve { name, fingerprint }
                        }
                        ApprovalChoice::Reject => ServerChange::Reject(name),
                        ApprovalChoice::Later => continue,
                    };
                    output.push_str(&backend.change_server(change)?);
                }
                Ok(output)
            };
            match tokio::task::spawn_blocking(decide).await {
                Ok(Ok(output)) if output.is_empty() => ScreenEvent::Redraw,
                Ok(Ok(output)) => ScreenEvent::Note(output),
                Ok(Err(error)) => error_event(&error),
                Err(_) => ScreenEvent::Error("the decision could not be stored".to_owned()),
            }
        });
    }

    /// Asks whether the channels may be used that no administrator allows.
    pub fn request_channel_confirmation(&mut self) {
        let EffectContext { backend, configuration, host, elicitor, .. } = &self.context;
        let channels = backend.unconfirmed_channels(configuration);
        if channels.is_empty() {
            return;
        }
        let (backend, configuration) = (backend.clone(), configuration.clone());
        let (host, elicitor) = (host.clone(), elicitor.clone());
        self.spawn(async move {
            match elicitor.confirm_channels(channels).await {
                ChannelsChoice::Allow => backend.confirm_channels(&host, &configuration).await,
                ChannelsChoice::Refuse => {}
            }
            ScreenEvent::Redraw
        });
    }

    fn log_in(&mut self, name: String) {
        let (host, backend) = (self.context.host.clone(), self.context.backend.clone());
        let configuration = self.context.configuration.clone();
        let label = format!("`{}`", printable(&name));
        let (guide, mut cancellation) = ScreenLoginGuide::new(&self.context.elicitor, &label);
        self.spawn(async move {
            let outcome = tokio::select! {
                outcome = backend.log_in(&host, &configuration, &name, &guide) => outcome,
                () = cancellation.cancelled() => {
                    return ScreenEvent::Note(format!("Not signed in to {label}."));
                }
            };
            match outcome {
                Ok(text) => ScreenEvent::Note(text),
                Err(error) => error_event(&error),
            }
        });
    }

    fn log_out(&mut self, name: String) {
        let (host, backend) = (self.context.host.clone(), self.context.backend.clone());
        let configuration = self.context.configuration.clone();
        self.spawn(async move {
            match backend.log_out(&host, &configuration, &name).await {
                Ok(text) => ScreenEvent::Note(text),
                Err(error) => error_event(&error),
            }
        });
    }
}
