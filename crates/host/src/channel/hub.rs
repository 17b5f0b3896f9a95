//! What the connections of a host share about channels: which servers may be one, the queue of the conversation, and the open
//! permission requests.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use switchboard_config::channel::{ChannelAccess, ChannelRefusal, ChannelRelay, ServerIdentity};
use switchboard_wire::protocol::era::Era;
use tokio::sync::watch;

use super::counts::ChannelDrop;
use super::declaration::ChannelDeclaration;
use super::inbox::{ChannelInbox, ChannelSlots, InboxFull, InboxSender, inbox};
use super::message::{ReceivedAnswer, ReceivedMessage};
use super::relay::{OpenRequests, RelayedRequest};
use super::view::{ChannelState, ChannelView};
use crate::sources::desired_server::DesiredServer;

/// What connections share about channels.
#[derive(Debug)]
pub(crate) struct ChannelHub {
    access: watch::Receiver<Arc<ChannelAccess>>,
    setter: watch::Sender<Arc<ChannelAccess>>,
    /// The queue of the conversation, once there is one that takes messages.
    inbox: OnceLock<InboxSender>,
    open_requests: OpenRequests,
}

impl Default for ChannelHub {
    fn default() -> ChannelHub {
        let (setter, access) = watch::channel(Arc::default());
        ChannelHub {
            access,
            setter,
            inbox: OnceLock::new(),
            open_requests: OpenRequests::default(),
        }
    }
}

/// What the servers of a host are to channels.
pub(crate) fn identity(desired: &DesiredServer) -> ServerIdentity<'_> {
    ServerIdentity {
        name: desired.name(),
        plugin: desired.plugin.as_ref(),
        transport: desired.spec.transport.kind(),
    }
}

impl ChannelHub {
    /// Sets which servers are channels of this session. It holds at once, also for servers that are connected.
    pub(crate) fn set_access(&self, access: ChannelAccess) {
        // There is always a receiver: our own.
        let _sent = self.setter.send(Arc::new(access));
    }

    /// Opens the queue of the conversation; `None` where it is open already.
    pub(crate) fn open_inbox(&self) -> Option<ChannelInbox> {
        let (sender, receiver) = inbox();
        self.inbox.set(sender).is_ok().then_some(receiver)
    }

    /// Is there a conversation that takes messages?
    pub(crate) fn has_inbox(&self) -> bool {
        self.inbox.get().is_some()
    }

    /// Does this session use the server as a channel, if it is one? Then it is not shared with other sessions.
    pub(crate) fn selects(&self, desired: &DesiredServer) -> bool {
        self.has_inbox() && self.access.borrow().selects(identity(desired))
    }

    /// The state of a server that is connected.
    pub(super) fn state(
        &self,
        desired: &DesiredServer,
        declaration: Option<ChannelDeclaration>,
        era: Option<Era>,
    ) -> ChannelState {
        if declaration.is_none() {
            return ChannelState::Undeclared;
        }
        if !self.has_inbox() {
            return ChannelState::Refused(ChannelRefusal::NoSession);
        }
        match (self.access.borrow().decide(identity(desired)), era) {
            (Err(refusal), _) => ChannelState::Refused(refusal),
            (Ok(()), Some(Era::Modern)) => ChannelState::Refused(ChannelRefusal::ModernProtocol),
            (Ok(()), Some(Era::Legacy) | None) => ChannelState::Registered,
        }
    }

    /// Queues a message for the conversation.
    pub(super) fn deliver(
        &self,
        server: &str,
        slots: &ChannelSlots,
        message: ReceivedMessage,
    ) -> Result<(), ChannelDrop> {
        let Some(inbox) = self.inbox.get() else {
            return Err(ChannelDrop::Refused(ChannelRefusal::NoSession));
        };
        let sent = inbox.send(slots, server, (message.content, message.meta));
        sent.map_err(|InboxFull| ChannelDrop::QueueFull)
    }

    /// Takes the answer of a channel.
    pub(super) fn answer(&self, server: &str, answer: ReceivedAnswer) -> Result<(), ChannelDrop> {
        match self.access.borrow().relay {
            ChannelRelay::Off => return Err(ChannelDrop::RelayOff),
            ChannelRelay::On => {}
        }
        self.open_requests.answer(server, answer).map_err(|_| ChannelDrop::UnknownRequest)
    }

    /// May the server get and answer permission requests?
    pub(crate) fn relays_to(&self, desired: &DesiredServer, view: &ChannelView, era: Era) -> bool {
        // Not the state in the view: settings may have changed since it was published.
        view.declaration == Some(ChannelDeclaration::MessagesAndPermissions)
            && self.state(desired, view.declaration, Some(era)) == ChannelState::Registered
    }

    /// Opens a permission request for these servers; `None` where requests are not relayed, or to no server.
    pub(crate) fn open_request(&self, recipients: BTreeSet<String>) -> Option<RelayedRequest> {
        match (self.access.borrow().relay, recipients.is_empty()) {
            (ChannelRelay::Off, _) | (ChannelRelay::On, true) => None,
            (ChannelRelay::On, false) => Some(self.open_requests.open(recipients)),
        }
    }
}
