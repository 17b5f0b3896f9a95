//! Decides which servers are channels of a session: what the administrator allows, what the command line selects, and what
//! the user confirmed.

use std::fmt;

use super::selector::ChannelSelector;
use crate::entry::TransportKind;
use crate::plugin::PluginId;

/// What settings say about channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelPolicy {
    /// `channelsEnabled` of an administrator.
    pub is_enabled: bool,
    /// `allowedChannelPlugins` of an administrator.
    pub allowed: Vec<PluginId>,
    /// Whether an administrator forbids channels that are not on the list.
    pub development: DevelopmentChannels,
    /// Whether settings turn the permission relay on or off, the administrator's first.
    pub relay: Option<ChannelRelay>,
    /// Whether an administrator turned the permission relay off, so that no option turns it on.
    pub is_relay_forbidden: bool,
}

/// Whether `--dangerously-load-development-channels` has an effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DevelopmentChannels {
    /// It has, once the user has confirmed it.
    #[default]
    Permitted,
    /// An administrator forbids it.
    Forbidden,
}

/// Whether pending permission requests are sent to channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelRelay {
    /// They are.
    On,
    /// They are not.
    #[default]
    Off,
}

/// The channels of a session. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelAccess {
    /// What settings say.
    pub policy: ChannelPolicy,
    /// What `--channels` selects.
    pub selected: Vec<ChannelSelector>,
    /// What `--dangerously-load-development-channels` selects and the user confirmed.
    pub development: Vec<ChannelSelector>,
    /// What it selects and the user did not confirm.
    pub unconfirmed: Vec<ChannelSelector>,
    /// Whether the session sends its pending permission requests to channels.
    pub relay: ChannelRelay,
}

/// What is known of a server that declares itself a channel.
#[derive(Debug, Clone, Copy)]
pub struct ServerIdentity<'a> {
    /// The configured name.
    pub name: &'a str,
    /// The plugin that it comes from, if it comes from one.
    pub plugin: Option<&'a PluginId>,
    /// Its transport.
    pub transport: TransportKind,
}

/// Why a server is not a channel of a session, although it declares to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelRefusal {
    /// The command takes no messages: it is no conversation, or one that ends with its answer.
    NoSession,
    /// The session was not started with it.
    NotSelected,
    /// No administrator has turned channels on.
    Disabled,
    /// The plugin is not on the administrator's list.
    NotListed(PluginId),
    /// The server comes from no plugin of a marketplace, so that no list can name it.
    NotAPlugin,
    /// An administrator forbids channels that are not on the list.
    DevelopmentForbidden,
    /// The user did not confirm it.
    NotConfirmed,
    /// It negotiated a version of the protocol that has no channels.
    ModernProtocol,
    /// It is not a program that this session started.
    Transport(TransportKind),
}

impl ChannelRefusal {
    /// The identifier in JSON.
    pub fn id(&self) -> &'static str {
        match self {
            ChannelRefusal::NoSession => "no-session",
            ChannelRefusal::NotSelected => "not-selected",
            ChannelRefusal::Disabled => "disabled",
            ChannelRefusal::NotListed(_) => "not-listed",
            ChannelRefusal::NotAPlugin => "not-a-plugin",
            ChannelRefusal::DevelopmentForbidden => "development-forbidden",
            ChannelRefusal::NotConfirmed => "not-confirmed",
            ChannelRefusal::ModernProtocol => "modern-protocol",
            ChannelRefusal::Transport(_) => "transport",
        }
    }
}

impl fmt::Display for ChannelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelRefusal::NoSession => {
                f.write_str("this command is no conversation that stays open")
            }
            ChannelRefusal::NotSelected => {
                f.write_str("this session was not started with `--channels` for it")
            }
            ChannelRefusal::Disabled => f.write_str(
                "no administrator has turned channels on (`channelsEnabled` in managed settings)",
            ),
            ChannelRefusal::NotListed(plugin) => write!(
                f,
                "the administrator's list `allowedChannelPlugins` does not contain the plugin {plugin}"
            ),
            ChannelRefusal::NotAPlugin => {
                f.write_str("only plugins from a marketplace can be on the administrator's list")
            }
            ChannelRefusal::DevelopmentForbidden => {
                f.write_str("an administrator forbids channels that are not on the list")
            }
            ChannelRefusal::NotConfirmed => {
                f.write_str("the development channel was not confirmed by a person")
            }
            ChannelRefusal::ModernProtocol => {
                f.write_str("it speaks a version of the protocol that has no channels")
            }
            ChannelRefusal::Transport(kind) => {
                write!(f, "only programs that the session starts can be channels, not `{kind}`")
            }
        }
    }
}

impl ChannelAccess {
    /// Decides whether a server may send messages into the session.
    pub fn decide(&self, server: ServerIdentity<'_>) -> Result<(), ChannelRefusal> {
        let selection = self.selection(server)?;
        match server.transport {
            TransportKind::Stdio => {}
            other @ (TransportKind::Sse
            | TransportKind::Http
            | TransportKind::Ws
            | TransportKind::SseIde
            | TransportKind::WsIde
            | TransportKind::Sdk
            | TransportKind::ConnectorProxy) => return Err(ChannelRefusal::Transport(other)),
        }
        match selection {
            Selection::Development => Ok(()),
            Selection::Listed => self.policy.decide(server.plugin),
        }
    }

    /// Does the command line select the server, whether it may be a channel or not?
    pub fn selects(&self, server: ServerIdentity<'_>) -> bool {
        let all = [&self.selected, &self.development, &self.unconfirmed];
        all.into_iter().flatten().any(|it| it.is_for(server))
    }

    /// The selectors that are for none of these servers.
    pub fn unmatched<'s>(
        &'s self,
        servers: &'s [ServerIdentity<'_>],
    ) -> impl Iterator<Item = &'s ChannelSelector> {
        let all = [&self.selected, &self.development];
        all.into_iter().flatten().filter(|it| !servers.iter().any(|server| it.is_for(*server)))
    }

    fn selection(&self, server: ServerIdentity<'_>) -> Result<Selection, ChannelRefusal> {
        let is_in = |list: &[ChannelSelector]| list.iter().any(|it| it.is_for(server));
        if is_in(&self.development) {
            match self.policy.development {
                DevelopmentChannels::Permitted => return Ok(Selection::Development),
                DevelopmentChannels::Forbidden if !is_in(&self.selected) => {
                    return Err(ChannelRefusal::DevelopmentForbidden);
                }
                DevelopmentChannels::Forbidden => {}
            }
        }
        match (is_in(&self.selected), is_in(&self.unconfirmed)) {
            (true, _) => Ok(Selection::Listed),
            (false, true) => Err(match self.policy.development {
                DevelopmentChannels::Permitted => ChannelRefusal::NotConfirmed,
                DevelopmentChannels::Forbidden => ChannelRefusal::DevelopmentForbidden,
            }),
            (false, false) => Err(ChannelRefusal::NotSelected),
        }
    }
}

/// How the command line selects a server.
enum Selection {
    /// It has to be on the administrator's list.
    Listed,
    /// The user confirmed that it need not be.
    Development,
}

impl ChannelPolicy {
    /// Decides about a plugin that a session selects. The list is the only thing that allows one.
    pub fn decide(&self, plugin: Option<&PluginId>) -> Result<(), ChannelRefusal> {
        if !self.is_enabled {
            return Err(ChannelRefusal::Disabled);
        }
        // A plugin in a folder of the user's choice has no marketplace that could be listed.
        match plugin.filter(|it| it.marketplace.is_some()) {
            None => Err(ChannelRefusal::NotAPlugin),
            Some(plugin) if self.allowed.contains(plugin) => Ok(()),
            Some(plugin) => Err(ChannelRefusal::NotListed(plugin.clone())),
        }
    }

    /// Whether a session relays permission requests, with the option for it or without.
    pub fn relay_with(&self, option: ChannelRelay) -> ChannelRelay {
        match (self.is_relay_forbidden, option, self.relay) {
            (true, _, _) => ChannelRelay::Off,
            (false, ChannelRelay::On, _) => ChannelRelay::On,
            (false, ChannelRelay::Off, relay) => relay.unwrap_or_default(),
        }
    }

    /// Adds settings that follow these, in the order of precedence.
    pub fn merge(self, next: ChannelPolicy) -> ChannelPolicy {
        ChannelPolicy {
            is_enabled: self.is_enabled || next.is_enabled,
            allowed: self.allowed.into_iter().chain(next.allowed).collect(),
            development: match (self.development, next.development) {
                (DevelopmentChannels::Permitted, DevelopmentChannels::Permitted) => {
                    DevelopmentChannels::Permitted
                }
                (DevelopmentChannels::Forbidden, _) | (_, DevelopmentChannels::Forbidden) => {
                    DevelopmentChannels::Forbidden
                }
            },
            relay: self.relay.or(next.relay),
            is_relay_forbidden: self.is_relay_forbidden || next.is_relay_forbidden,
        }
    }
}

impl ChannelSelector {
    fn is_for(&self, server: ServerIdentity<'_>) -> bool {
        match self {
            ChannelSelector::Plugin(plugin) => server.plugin == Some(plugin),
            // The servers of plugins have names with colons, which no selector can have.
            ChannelSelector::Server(name) => server.name == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> ChannelSelector {
        ChannelSelector::parse(text).expect("a selector")
    }

    fn plugin(plugin: &str, marketplace: &str) -> PluginId {
        PluginId::new(plugin, marketplace).expect("two names")
    }

    /// Decides about the server `chat` of the plugin `chat@lab`, or the server `mine` of none.
    #[track_caller]
    fn check(access: &ChannelAccess, server: &str, expected: Result<(), &str>) {
        let origin = plugin("chat", "lab");
        let identity = ServerIdentity {
            name: server,
            plugin: (server == "plugin:chat:chat").then_some(&origin),
            transport: TransportKind::Stdio,
        };
        let decided = access.decide(identity);
        assert_eq!(decided.as_ref().map_err(ChannelRefusal::id).copied(), expected);
    }

    fn access(enabled: bool, allowed: &[PluginId], selected: &[&str]) -> ChannelAccess {
        ChannelAccess {
            policy: ChannelPolicy {
                is_enabled: enabled,
                allowed: allowed.to_vec(),
                ..ChannelPolicy::default()
            },
            selected: selected.iter().map(|it| selector(it)).collect(),
            ..ChannelAccess::default()
        }
    }

    const CHAT: &str = "plugin:chat:chat";

    #[test]
    fn a_plugin_needs_both_the_list_and_the_selection() {
        let listed = [plugin("chat", "lab")];
        let option = ["plugin:chat@lab"];
        check(&access(true, &listed, &option), CHAT, Ok(()));
        check(&access(true, &listed, &[]), CHAT, Err("not-selected"));
        check(&access(true, &[], &option), CHAT, Err("not-listed"));
        check(&access(false, &listed, &option), CHAT, Err("disabled"));
        check(&ChannelAccess::default(), CHAT, Err("not-selected"));
    }

    #[test]
    fn the_marketplace_counts_as_much_as_the_plugin() {
        let option = ["plugin:chat@lab"];
        check(&access(true, &[plugin("chat", "other")], &option), CHAT, Err("not-listed"));
        check(&access(true, &[plugin("other", "lab")], &option), CHAT, Err("not-listed"));
        let listed = [plugin("chat", "lab")];
        check(&access(true, &listed, &["plugin:chat@other"]), CHAT, Err("not-selected"));
    }

    #[test]
    fn a_plugin_without_a_marketplace_is_on_no_list() {
        let policy = ChannelPolicy {
            allowed: vec![PluginId::of_folder("chat")],
            is_enabled: true,
            ..ChannelPolicy::default()
        };
        let decided = policy.decide(Some(&PluginId::of_folder("chat")));
        assert_eq!(decided, Err(ChannelRefusal::NotAPlugin));
    }

    #[test]
    fn a_configured_server_is_on_no_list() {
        let listed = [plugin("mine", "lab")];
        check(&access(true, &listed, &["server:mine"]), "mine", Err("not-a-plugin"));
        check(&access(true, &listed, &["plugin:mine@lab"]), "mine", Err("not-selected"));
        // A configured name cannot stand for the server of a plugin.
        check(&access(true, &listed, &["server:chat"]), CHAT, Err("not-selected"));
    }

    #[test]
    fn a_confirmed_development_channel_needs_no_list_but_an_administrator_can_forbid_it() {
        let mut access = access(false, &[], &[]);
        access.unconfirmed = vec![selector("server:mine")];
        check(&access, "mine", Err("not-confirmed"));
        access.development = std::mem::take(&mut access.unconfirmed);
        check(&access, "mine", Ok(()));
        check(&access, "other", Err("not-selected"));
        access.policy.development = DevelopmentChannels::Forbidden;
        check(&access, "mine", Err("development-forbidden"));
        access.unconfirmed = std::mem::take(&mut access.development);
        check(&access, "mine", Err("development-forbidden"));
    }

    #[test]
    fn forbidding_development_channels_does_not_take_listed_ones_away() {
        let mut access = access(true, &[plugin("chat", "lab")], &["plugin:chat@lab"]);
        access.development = vec![selector("plugin:chat@lab")];
        access.policy.development = DevelopmentChannels::Forbidden;
        check(&access, CHAT, Ok(()));
        access.policy.allowed.clear();
        check(&access, CHAT, Err("not-listed"));
    }

    #[test]
    fn only_programs_of_the_session_are_channels() {
        let access = ChannelAccess {
            development: vec![selector("server:mine")],
            ..ChannelAccess::default()
        };
        for kind in [TransportKind::Http, TransportKind::Sse, TransportKind::Ws, TransportKind::Sdk]
        {
            let server = ServerIdentity { name: "mine", plugin: None, transport: kind };
            assert_eq!(access.decide(server), Err(ChannelRefusal::Transport(kind)));
        }
    }

    #[test]
    fn selectors_without_a_server_are_named() {
        let access = access(true, &[], &["plugin:chat@lab", "server:mine", "server:gone"]);
        let origin = plugin("chat", "lab");
        let server = |name, plugin| ServerIdentity { name, plugin, transport: TransportKind::Http };
        let servers = [server(CHAT, Some(&origin)), server("mine", None)];
        let unmatched: Vec<String> = access.unmatched(&servers).map(ToString::to_string).collect();
        assert_eq!(unmatched, ["server:gone"]);
    }

    #[test]
    fn the_relay_is_off_unless_turned_on_and_an_administrator_has_the_last_word() {
        let policy = |relay, is_relay_forbidden| ChannelPolicy {
            relay,
            is_relay_forbidden,
            ..ChannelPolicy::default()
        };
        let (on, off) = (ChannelRelay::On, ChannelRelay::Off);
        assert_eq!(policy(None, false).relay_with(off), off);
        assert_eq!(policy(None, false).relay_with(on), on);
        assert_eq!(policy(Some(on), false).relay_with(off), on);
        assert_eq!(policy(Some(off), false).relay_with(on), on);
        assert_eq!(policy(Some(off), true).relay_with(on), off);
        let merged = policy(Some(off), true).merge(policy(Some(on), false));
        assert_eq!(merged.relay_with(on), off);
    }
}
