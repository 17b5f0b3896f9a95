//! Takes the notifications of one server that are meant for a conversation: passes them on, or counts why not. Owned by the
//! task of the server's connection.

use std::collections::BTreeSet;

use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::capabilities::ServerDescription;
use switchboard_wire::protocol::era::Era;
use tracing::{info, warn};

use super::counts::{ChannelCounts, ChannelDrop};
use super::declaration::{ChannelDeclaration, declaration};
use super::hub::ChannelHub;
use super::inbox::ChannelSlots;
use super::message::{parse_answer, parse_message};
use super::record::ChannelRecord;
use super::view::{ChannelState, ChannelView};
use crate::sources::desired_server::DesiredServer;
use crate::storage::stderr_log::StderrLog;

const MESSAGE: &str = "notifications/claude/channel";
const ANSWER: &str = "notifications/claude/channel/permission";

/// Is a notification meant for a conversation?
pub(crate) fn is_channel_method(method: &str) -> bool {
    method == MESSAGE || method == ANSWER
}

/// Whether a view of the connection should be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntakeChange {
    /// Now: it is the first of its kind.
    First,
    /// With the next check: only numbers changed.
    MoreOfTheSame,
}

/// The channel side of one connection.
#[derive(Debug, Default)]
pub(crate) struct ChannelIntake {
    declaration: Option<ChannelDeclaration>,
    era: Option<Era>,
    counts: ChannelCounts,
    slots: ChannelSlots,
    has_noted_left_out_meta: bool,
    /// The last view that was published or written.
    published: Option<ChannelView>,
    noted: BTreeSet<&'static str>,
    /// How many notifications of this connection were dropped before they got here.
    unread: u64,
}

/// What an intake works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntakeContext<'a> {
    pub(crate) hub: &'a ChannelHub,
    pub(crate) desired: &'a DesiredServer,
    pub(crate) log: &'a StderrLog,
}

impl ChannelIntake {
    /// Notes what the server declares. The counts go on after a reconnect.
    pub(crate) fn connected(&mut self, server: &ServerDescription) {
        self.declaration = declaration(server);
        self.era = Some(server.era);
        self.unread = 0;
    }

    /// The server as a channel; `None` where it is none and sends no messages.
    pub(crate) fn view(&self, context: IntakeContext<'_>) -> Option<ChannelView> {
        // A server that the user selected is explained, also if it is none.
        let is_selected = self.era.is_some() && context.hub.selects(context.desired);
        if self.declaration.is_none() && self.counts.is_empty() && !is_selected {
            return None;
        }
        let state = context.hub.state(context.desired, self.declaration, self.era);
        Some(ChannelView { declaration: self.declaration, state, counts: self.counts() })
    }

    fn counts(&self) -> ChannelCounts {
        self.counts.clone().without_unaccepted(self.slots.not_accepted())
    }

    /// Notes how many notifications were dropped because they came too fast. Of a server that is no channel, they are not
    /// counted: they may be about anything.
    pub(crate) fn note_unread(&mut self, total: u64, context: IntakeContext<'_>) {
        let new = total.saturating_sub(self.unread);
        self.unread = total;
        if new > 0 && self.declaration.is_some() {
            self.count_dropped(&ChannelDrop::TooFast, new, context);
        }
    }

    /// Takes a notification for which [`is_channel_method`] holds.
    pub(crate) fn receive(
        &mut self,
        method: &str,
        params: Option<&Payload>,
        context: IntakeContext<'_>,
    ) -> IntakeChange {
        let taken = match method == ANSWER {
            true => self.answer(params, context),
            false => self.message(params, context),
        };
        match taken {
            Ok(change) => change,
            Err(reason) => self.count_dropped(&reason, 1, context),
        }
    }

    fn message(
        &mut self,
        params: Option<&Payload>,
        context: IntakeContext<'_>,
    ) -> Result<IntakeChange, ChannelDrop> {
        self.expect_registered(context)?;
        let message = parse_message(params)?;
        let server = context.desired.name();
        if message.left_out > 0 && !std::mem::replace(&mut self.has_noted_left_out_meta, true) {
            let text = "members of a channel message's `meta` were left out: names have letters, digits and `_` \
                        only, values are short texts, and `source` is not theirs to set";
            context.log.note(server, text);
        }
        context.hub.deliver(server, &self.slots, message)?;
        self.counts.delivered = self.counts.delivered.saturating_add(1);
        Ok(first_if(self.counts.delivered == 1))
    }

    fn answer(
        &mut self,
        params: Option<&Payload>,
        context: IntakeContext<'_>,
    ) -> Result<IntakeChange, ChannelDrop> {
        self.expect_registered(context)?;
        match self.declaration {
            Some(ChannelDeclaration::MessagesAndPermissions) => {}
            Some(ChannelDeclaration::Messages) | None => return Err(ChannelDrop::RelayNotDeclared),
        }
        let answer = parse_answer(params)?;
        let server = context.desired.name();
        context.hub.answer(server, answer)?;
        info!(server, "permission request answered by a channel");
        self.counts.answers = self.counts.answers.saturating_add(1);
        Ok(first_if(self.counts.answers == 1))
    }

    fn expect_registered(&self, context: IntakeContext<'_>) -> Result<(), ChannelDrop> {
        match context.hub.state(context.desired, self.declaration, self.era) {
            ChannelState::Registered => Ok(()),
            ChannelState::Undeclared => Err(ChannelDrop::NotDeclared),
            ChannelState::Refused(refusal) => Err(ChannelDrop::Refused(refusal)),
        }
    }

    /// Counts dropped messages. The log gets a line for the first of each reason, and the numbers at the end.
    fn count_dropped(
        &mut self,
        reason: &ChannelDrop,
        count: u64,
        context: IntakeContext<'_>,
    ) -> IntakeChange {
        let before = self.counts.count_dropped(reason, count);
        let server = context.desired.name();
        if self.noted.insert(reason.id()) {
            warn!(server, reason = reason.id(), "channel message dropped");
            let text = format!("a channel message was dropped: {reason}; more of them are counted");
            context.log.note(server, &text);
        }
        first_if(before == 0)
    }

    /// Whether the published view is out of date. The caller publishes.
    pub(crate) fn has_changed(&self, context: IntakeContext<'_>) -> bool {
        self.view(context) != self.published
    }

    /// Notes that the current view was published. Returns the text of the record for other processes, where a conversation
    /// takes messages and the record is new.
    pub(crate) fn published(&mut self, context: IntakeContext<'_>) -> Option<String> {
        let view = self.view(context);
        if view == self.published {
            return None;
        }
        self.published.clone_from(&view);
        let view = view.filter(|_| context.hub.has_inbox())?;
        // A session that has nothing to do with the channel does not replace what another one wrote.
        let is_used = view.state == ChannelState::Registered || !view.counts.is_empty();
        is_used.then(|| ChannelRecord::text_of(&view))
    }

    /// A line for the server's log about all messages, where some were received.
    pub(crate) fn summary(&self) -> Option<String> {
        (!self.counts.is_empty()).then(|| format!("channel messages: {}", self.counts()))
    }
}

fn first_if(is_first: bool) -> IntakeChange {
    match is_first {
        true => IntakeChange::First,
        false => IntakeChange::MoreOfTheSame,
    }
}
