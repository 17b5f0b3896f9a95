//! Channels: which servers are one in this session, their messages, and the permission requests that are sent to them.

use std::collections::BTreeSet;

use crate::channel::{ChannelAccess, ChannelInbox, PermissionQuestion, RelayedRequest};
use crate::connection::handle::ConnectionHandle;
use crate::host::Host;

/// Asks a channel.
const PERMISSION_REQUEST: &str = "notifications/claude/channel/permission_request";

impl Host {
    /// Sets which servers are channels of this session. It holds at once, also for servers that are connected.
    pub async fn set_channels(&self, access: ChannelAccess) {
        self.context().channels.set_access(access);
        for handle in self.engine().connections().values() {
            handle.publish().await;
        }
    }

    /// Says that a conversation takes the messages of channels, and returns its queue; `None` where one does already. To be
    /// called before [`Host::apply`], because a server that is shared with other sessions is no channel of this one.
    pub fn open_channel_inbox(&self) -> Option<ChannelInbox> {
        self.context().channels.open_inbox()
    }

    /// Sends a permission request to the channels that declare to relay them; `None` where there is none, or where requests
    /// are not relayed. A channel is not asked about a tool of the server `asked_about` if that is itself or comes from
    /// the same plugin: it would decide about itself.
    pub fn relay_permission_request(
        &self,
        asked_about: &str,
        question: &PermissionQuestion,
    ) -> Option<RelayedRequest> {
        let connections = self.engine().connections();
        let own = connections.get(asked_about);
        let own_plugin = own.and_then(|it| it.desired().plugin.as_ref());
        let is_recipient = |handle: &&ConnectionHandle| {
            let (desired, view) = (handle.desired(), handle.view());
            let is_own = desired.name() == asked_about
                || (own_plugin.is_some() && desired.plugin.as_ref() == own_plugin);
            match (&view.channel, &view.server_info) {
                (Some(channel), Some(server)) if view.active.is_some() && !is_own => {
                    self.context().channels.relays_to(desired, channel, server.era)
                }
                (_, _) => false,
            }
        };
        let recipients: Vec<&ConnectionHandle> =
            connections.values().filter(is_recipient).collect();
        let names: BTreeSet<String> =
            recipients.iter().map(|it| it.desired().name().to_owned()).collect();
        let mut request = self.context().channels.open_request(names)?;
        let params = request.params(question);
        for handle in recipients {
            let (handle, params) = (handle.clone(), params.clone());
            request.spawn(async move { handle.notify_with(PERMISSION_REQUEST, &params).await });
        }
        Some(request)
    }
}
