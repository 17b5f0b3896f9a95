//! The channels of a plugin: those of its servers that may send messages into a conversation, as its manifest lists
//! them. Whether one may do so is decided elsewhere.

use serde_json::Value as Json;
use thiserror::Error;

use crate::user_config::{OptionProblem, UserConfig};

/// How many channels are read.
const MAX_CHANNELS: usize = 64;

/// One channel in a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginChannel {
    /// The server, by its name in the plugin.
    pub server: String,
    /// The options of the channel.
    pub user_config: UserConfig,
}

/// What is wrong with `channels`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChannelProblem {
    /// The value is not a list of objects with a server.
    #[error("`channels` is not a list of objects that each name a `server`")]
    Malformed,
    /// There are too many.
    #[error("`channels` has more than {MAX_CHANNELS} entries")]
    TooMany,
    /// An option of a channel.
    #[error("a channel's {0}")]
    Option(OptionProblem),
}

impl PluginChannel {
    /// Reads the value of `channels`. Invalid entries are left out.
    pub fn parse_list(json: &Json) -> (Vec<PluginChannel>, Vec<ChannelProblem>) {
        let Json::Array(items) = json else {
            return (Vec::new(), vec![ChannelProblem::Malformed]);
        };
        let mut channels = Vec::new();
        let mut problems = Vec::new();
        if items.len() > MAX_CHANNELS {
            problems.push(ChannelProblem::TooMany);
        }
        for item in items.iter().take(MAX_CHANNELS) {
            let Some(server) = item.get("server").and_then(Json::as_str) else {
                problems.push(ChannelProblem::Malformed);
                continue;
            };
            let (user_config, found) =
                UserConfig::parse(item.get("userConfig").unwrap_or(&Json::Null));
            problems.extend(found.into_iter().map(ChannelProblem::Option));
            channels.push(PluginChannel { server: server.to_owned(), user_config });
        }
        (channels, problems)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn channels_name_a_server_and_what_is_wrong_costs_only_one() {
        let (channels, problems) = PluginChannel::parse_list(&json!([
            {"server": "chat", "userConfig": {"port": {"type": "number", "title": "t", "description": "d"}}},
            {"server": 1},
            "chat",
        ]));
        assert_eq!(channels.len(), 1);
        assert_eq!(channels[0].server, "chat");
        assert_eq!(channels[0].user_config.options[0].key, "port");
        assert_eq!(problems, [ChannelProblem::Malformed, ChannelProblem::Malformed]);
        assert_eq!(
            PluginChannel::parse_list(&json!({})),
            (Vec::new(), vec![ChannelProblem::Malformed])
        );
    }
}
