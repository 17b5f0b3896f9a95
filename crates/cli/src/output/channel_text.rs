//! Channels as text and JSON: whether a server is one, and what became of its messages. Texts of servers are not in them.

use serde_json::{Value as Json, json};
use switchboard::Paths;
use switchboard::channel::{
    ChannelDeclaration, ChannelPolicy, ChannelRecord, ChannelState, ChannelView,
};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::ServerView;

/// What a server's JSON says about it as a channel; null where it is none, as far as is known.
pub fn channel_json(paths: &Paths, server: &str, connection: Option<&ServerView>) -> Json {
    let view = connection.and_then(|it| it.channel.as_ref());
    let record = ChannelRecord::load(paths, server);
    if view.is_none() && record.is_none() {
        return Json::Null;
    }
    let declaration = view.and_then(|it| it.declaration);
    let reason = view.and_then(|it| match &it.state {
        ChannelState::Refused(refusal) => Some(refusal.to_string()),
        ChannelState::Registered | ChannelState::Undeclared => None,
    });
    json!({
        "declared": view.map(|_| declaration.is_some()),
        "permissions": view.map(|_| declaration == Some(ChannelDeclaration::MessagesAndPermissions)),
        "state": view.map(|it| it.state.id()),
        "reason": reason,
        "delivered": view.map(|it| it.counts.delivered),
        "answered": view.map(|it| it.counts.answers),
        "dropped": view.map(|it| &it.counts.dropped),
        "lastSession": record,
    })
}

/// One line about what became of a channel's messages in the session that ran last; `None` where none is known.
pub fn record_text(paths: &Paths, server: &str) -> Option<String> {
    let record = ChannelRecord::load(paths, server)?;
    let (time, counts) = (printable(&record.time), printable(&record.counts.to_string()));
    Some(format!("last session ({time}): {counts}"))
}

/// Lines of `doctor` about a channel: whether a conversation can take its messages, and what became of the last ones.
pub fn diagnosis_lines(
    paths: &Paths,
    server: &ResolvedServer,
    view: &ServerView,
    policy: &ChannelPolicy,
) -> Vec<String> {
    let mut lines: Vec<String> =
        view.channel.iter().map(|it| ability_text(server, it, policy)).collect();
    lines.extend(record_text(paths, &server.name));
    lines
}

fn ability_text(server: &ResolvedServer, view: &ChannelView, policy: &ChannelPolicy) -> String {
    let plugin = server.plugin.as_ref();
    let relay = match view.declaration {
        None => return "it sends messages without declaring `claude/channel`".to_owned(),
        Some(ChannelDeclaration::Messages) => "",
        Some(ChannelDeclaration::MessagesAndPermissions) => " and answer permission requests",
    };
    match (policy.decide(plugin), plugin) {
        (Ok(()), Some(plugin)) => {
            let plugin = printable(&plugin.to_string());
            format!("it can send messages{relay}: `swb --channels plugin:{plugin}`")
        }
        (Ok(()), None) => format!("it can send messages{relay}"),
        (Err(refusal), _) => {
            let refusal = printable(&refusal.to_string());
            format!("it wants to send messages{relay}, which is not allowed: {refusal}")
        }
    }
}
