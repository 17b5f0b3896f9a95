//! What a server says in its handshake about channels. Pure.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_wire::protocol::capabilities::ServerDescription;

const CHANNEL: &str = "claude/channel";
const PERMISSION: &str = "claude/channel/permission";

/// What a channel declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelDeclaration {
    /// It sends messages.
    Messages,
    /// It sends messages, and answers permission requests.
    MessagesAndPermissions,
}

#[derive(Deserialize)]
struct HandshakeCapabilities {
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    experimental: Map<String, Json>,
}

/// Reads the declaration of a server; `None` where it declares no channel. `false` and `null` declare nothing.
pub(super) fn declaration(server: &ServerDescription) -> Option<ChannelDeclaration> {
    let handshake: HandshakeCapabilities = server.raw.decode().ok()?;
    of_experimental(&handshake.capabilities.experimental)
}

fn of_experimental(experimental: &Map<String, Json>) -> Option<ChannelDeclaration> {
    let declares = |name: &str| {
        experimental.get(name).is_some_and(|it| !matches!(it, Json::Null | Json::Bool(false)))
    };
    match (declares(CHANNEL), declares(PERMISSION)) {
        (true, true) => Some(ChannelDeclaration::MessagesAndPermissions),
        (true, false) => Some(ChannelDeclaration::Messages),
        (false, true | false) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(experimental: &Json, expected: Option<ChannelDeclaration>) {
        let handshake: HandshakeCapabilities =
            serde_json::from_value(json!({"capabilities": {"experimental": experimental}}))
                .expect("a handshake");
        let found = of_experimental(&handshake.capabilities.experimental);
        assert_eq!(found, expected, "{experimental}");
    }

    #[test]
    fn false_declares_no_channel() {
        use ChannelDeclaration::{Messages, MessagesAndPermissions};
        check(&json!({"claude/channel": {}}), Some(Messages));
        check(&json!({"claude/channel": true}), Some(Messages));
        check(&json!({"claude/channel": false}), None);
        check(&json!({"claude/channel": null}), None);
        check(&json!({}), None);
        let both = json!({"claude/channel": {}, "claude/channel/permission": {}});
        check(&both, Some(MessagesAndPermissions));
        let denied = json!({"claude/channel": {}, "claude/channel/permission": false});
        check(&denied, Some(Messages));
        check(&json!({"claude/channel/permission": {}}), None);
        check(&json!({"claude/channel": false, "claude/channel/permission": {}}), None);
    }
}
