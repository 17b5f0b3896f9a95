//! The servers that a command line selects as channels: `plugin:NAME@MARKETPLACE` and `server:NAME`.

use std::fmt;

use thiserror::Error;

use crate::plugin::PluginId;

/// The longest name in a selector, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The servers that one value of `--channels` selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChannelSelector {
    /// The servers of a plugin.
    Plugin(PluginId),
    /// A configured server, by its name.
    Server(String),
}

/// Why a text selects no channel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// It has neither of the two prefixes.
    #[error("a channel is `plugin:NAME@MARKETPLACE` or `server:NAME`")]
    Form,
    /// A plugin without its marketplace.
    #[error(
        "name the marketplace of the plugin: `plugin:{0}@MARKETPLACE`; the list of an administrator names both"
    )]
    NoMarketplace(String),
    /// A name that no server or plugin has.
    #[error("it names no server or plugin: names have letters, digits, `-` and `_` only")]
    Name,
}

impl ChannelSelector {
    /// Parses `plugin:NAME@MARKETPLACE` or `server:NAME`.
    pub fn parse(text: &str) -> Result<ChannelSelector, SelectorError> {
        if let Some(name) = text.strip_prefix("server:") {
            return match is_name(name) {
                true => Ok(ChannelSelector::Server(name.to_owned())),
                false => Err(SelectorError::Name),
            };
        }
        let Some(id) = text.strip_prefix("plugin:") else { return Err(SelectorError::Form) };
        let Some((plugin, marketplace)) = id.split_once('@') else {
            return Err(match is_name(id) {
                true => SelectorError::NoMarketplace(id.to_owned()),
                false => SelectorError::Name,
            });
        };
        let plugin = PluginId::new(plugin, marketplace).map_err(|_| SelectorError::Name)?;
        Ok(ChannelSelector::Plugin(plugin))
    }
}

fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.chars().all(is_allowed)
}

impl fmt::Display for ChannelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelSelector::Plugin(plugin) => write!(f, "plugin:{plugin}"),
            ChannelSelector::Server(name) => write!(f, "server:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, SelectorError>) {
        let found = ChannelSelector::parse(text);
        assert_eq!(found.map(|it| it.to_string()), expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn a_selector_names_a_plugin_with_its_marketplace_or_a_server() {
        check("plugin:fakechat@official", Ok("plugin:fakechat@official"));
        check("server:my_chat-2", Ok("server:my_chat-2"));
        check("plugin:fakechat", Err(SelectorError::NoMarketplace("fakechat".to_owned())));
        check("fakechat@official", Err(SelectorError::Form));
        check("", Err(SelectorError::Form));
        for bad in [
            "server:",
            "server:plugin:a:b",
            "server:a b",
            "plugin:@m",
            "plugin:a@",
            "plugin:a@b@c",
            "plugin:a/b@m",
            "plugin:é@m",
        ] {
            check(bad, Err(SelectorError::Name));
        }
    }
}
