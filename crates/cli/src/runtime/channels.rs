//! The channels of a conversation: what options, settings and the user say together, for the host.

use switchboard::Host;
use switchboard::channel::{
    ChannelAccess, ChannelInbox, ChannelSelector, DevelopmentChannels, ServerIdentity,
};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::invocation::session_flags::ChannelFlags;
use crate::output::style::{TextStyle, paint};

/// Opens the queue of a conversation that stays open, and sets which servers may send into it. To be called before the
/// configuration is applied.
pub async fn open(
    invocation: &Invocation,
    host: &Host,
    configuration: &Configuration,
) -> Option<ChannelInbox> {
    let inbox = host.open_channel_inbox();
    apply(invocation, host, configuration).await;
    inbox
}

/// Sets which servers may send messages, for a configuration that is new.
pub async fn apply(invocation: &Invocation, host: &Host, configuration: &Configuration) {
    host.set_channels(access(invocation, configuration)).await;
}

/// What options, settings and the user say together.
pub fn access(invocation: &Invocation, configuration: &Configuration) -> ChannelAccess {
    let flags = &invocation.session.channels;
    let (development, unconfirmed) = match flags.confirmation.get() {
        Some(()) => (flags.development.clone(), Vec::new()),
        None => (Vec::new(), flags.development.clone()),
    };
    let policy = configuration.channels.clone();
    let relay = policy.relay_with(flags.relay);
    ChannelAccess { policy, selected: flags.selected.clone(), development, unconfirmed, relay }
}

/// The channels that a person has to confirm before they count.
pub fn unconfirmed<'i>(
    invocation: &'i Invocation,
    configuration: &Configuration,
) -> &'i [ChannelSelector] {
    let ChannelFlags { development, confirmation, .. } = &invocation.session.channels;
    match (configuration.channels.development, confirmation.get()) {
        (DevelopmentChannels::Permitted, None) => development,
        (DevelopmentChannels::Permitted, Some(())) | (DevelopmentChannels::Forbidden, _) => &[],
    }
}

/// Asks at a plain terminal whether development channels may be used. Without a person they may not.
pub async fn confirm_at_terminal(invocation: &Invocation, configuration: &Configuration) {
    let channels = unconfirmed(invocation, configuration);
    if channels.is_empty() || !invocation.prompt.is_interactive() {
        return;
    }
    let names: Vec<String> = channels.iter().map(|it| printable(&it.to_string())).collect();
    let text = format!(
        "{} {} would send messages into this conversation, from anyone that it lets in, and no administrator has \
         allowed that. Use it only if you develop it yourself.\nAllow it for this session? [y/N] ",
        paint(TextStyle::Warning, "warning:"),
        names.join(", "),
    );
    let answer = invocation.prompt.prompt_line(&text).await;
    if matches!(answer.as_deref().map(str::trim), Some("y" | "Y" | "yes")) {
        confirm(invocation);
    }
}

/// Notes that the user confirmed the development channels, for the rest of the run.
pub fn confirm(invocation: &Invocation) {
    let _confirmed_before = invocation.session.channels.confirmation.set(());
}

/// Warnings about selectors that no server matches; usually empty.
pub fn unmatched_text(invocation: &Invocation, configuration: &Configuration) -> String {
    let access = access(invocation, configuration);
    let servers = configuration.effective.servers.iter().filter(|it| it.is_selected());
    let identities: Vec<ServerIdentity<'_>> = servers.filter_map(identity).collect();
    let line = |it: &ChannelSelector| {
        let selector = printable(&it.to_string());
        let what = match it {
            ChannelSelector::Plugin(_) => "no enabled plugin of that name has a server",
            ChannelSelector::Server(_) => "no server of that name is configured",
        };
        format!("{} --channels {selector}: {what}\n", paint(TextStyle::Warning, "warning:"))
    };
    access.unmatched(&identities).map(line).collect()
}

fn identity(server: &ResolvedServer) -> Option<ServerIdentity<'_>> {
    let ResolvedServer { name, plugin, entry, .. } = server;
    let transport = entry.as_ref()?.transport.kind();
    Some(ServerIdentity { name, plugin: plugin.as_ref(), transport })
}

/// The note of a run that ends with its answer, where options select channels; usually empty.
pub fn not_taken_note(invocation: &Invocation) -> String {
    let flags = &invocation.session.channels;
    match flags.selected.is_empty() && flags.development.is_empty() {
        true => String::new(),
        false => "note: no messages of channels are taken: the run ends with its answer; \
                  `--input-format stream-json` stays open\n"
            .to_owned(),
    }
}

/// A line about a channel of this session, as a note.
pub fn notice_text(line: &str) -> String {
    format!("{} {line}\n", paint(TextStyle::Dim, "channel:"))
}
