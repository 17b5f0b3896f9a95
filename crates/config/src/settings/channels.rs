//! Reads what settings say about channels: `channelsEnabled`, `allowedChannelPlugins` and `disableDevelopmentChannels` of an
//! administrator, and `channelPermissionRelay`. None of them is read from a project's file.

use crate::channel::{ChannelPolicy, ChannelRelay, DevelopmentChannels};
use crate::document::{Member, Node, Value, find_member};
use crate::plugin::PluginId;
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::source::Authority;

const ENABLED: &str = "channelsEnabled";
const ALLOWED: &str = "allowedChannelPlugins";
const DISABLE_DEVELOPMENT: &str = "disableDevelopmentChannels";
const RELAY: &str = "channelPermissionRelay";

/// Reads the keys of a settings file.
pub(crate) fn read(
    members: &[Member],
    authority: Authority,
    reporter: &mut Reporter<'_>,
) -> ChannelPolicy {
    Reader { members, authority, reporter }.policy()
}

struct Reader<'m, 'r, 'l> {
    members: &'m [Member],
    authority: Authority,
    reporter: &'r mut Reporter<'l>,
}

/// The value of a switch that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    Set(bool),
    /// Reported already.
    Invalid,
}

impl<'m> Reader<'m, '_, '_> {
    fn policy(mut self) -> ChannelPolicy {
        let is_enabled = self.managed(ENABLED).and_then(|it| self.switch(it, ENABLED));
        let development =
            self.managed(DISABLE_DEVELOPMENT).and_then(|it| self.switch(it, DISABLE_DEVELOPMENT));
        let relay = find_member(self.members, RELAY).and_then(|it| self.switch(it, RELAY));
        ChannelPolicy {
            is_enabled: is_enabled == Some(Switch::Set(true)),
            allowed: self.allowed(),
            development: match development {
                // A restriction that cannot be read must not count as none.
                Some(Switch::Set(true) | Switch::Invalid) => DevelopmentChannels::Forbidden,
                Some(Switch::Set(false)) | None => DevelopmentChannels::Permitted,
            },
            relay: match relay {
                Some(Switch::Set(true)) => Some(ChannelRelay::On),
                Some(Switch::Set(false) | Switch::Invalid) => Some(ChannelRelay::Off),
                None => None,
            },
            is_relay_forbidden: match self.authority {
                Authority::User => false,
                Authority::Administrator => {
                    matches!(relay, Some(Switch::Set(false) | Switch::Invalid))
                }
            },
        }
    }

    /// A member that counts in managed settings only; elsewhere it is reported.
    fn managed(&mut self, key: &'static str) -> Option<&'m Member> {
        let member = find_member(self.members, key)?;
        match self.authority {
            Authority::Administrator => Some(member),
            Authority::User => {
                let subject = ProblemSubject { server: None, key };
                self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
                None
            }
        }
    }

    fn switch(&mut self, member: &Member, key: &'static str) -> Option<Switch> {
        match &member.node.value {
            Value::Null => None,
            Value::Bool(value) => Some(Switch::Set(*value)),
            Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.report_wrong_type(&member.node, key, "true or false");
                Some(Switch::Invalid)
            }
        }
    }

    fn allowed(&mut self) -> Vec<PluginId> {
        let Some(member) = self.managed(ALLOWED) else { return Vec::new() };
        let Value::Array(nodes) = &member.node.value else {
            self.report_wrong_type(&member.node, ALLOWED, "an array");
            return Vec::new();
        };
        let entries = nodes.iter().enumerate();
        entries.filter_map(|(index, node)| self.allowed_plugin(index, node)).collect()
    }

    fn allowed_plugin(&mut self, index: usize, node: &Node) -> Option<PluginId> {
        let key = format!("{ALLOWED}[{index}]");
        let Value::Object(members) = &node.value else {
            self.report_wrong_type(node, &key, "an object with `marketplace` and `plugin`");
            return None;
        };
        let mut text = |name: &str| {
            let member = find_member(members, name);
            match member.map(|it| &it.node.value) {
                Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
                Some(_) | None => {
                    let at = member.map_or(node, |it| &it.node);
                    self.report_wrong_type(at, &format!("{key}.{name}"), "a name");
                    None
                }
            }
        };
        let (marketplace, plugin) = (text("marketplace"), text("plugin"));
        // A key that we do not know may be meant to restrict the entry.
        let unknown = members.iter().find(|it| it.key != "marketplace" && it.key != "plugin");
        if let Some(unknown) = unknown {
            let key = format!("{key}.{}", unknown.key);
            let subject = ProblemSubject { server: None, key: &key };
            let kind = ProblemKind::UnknownKey { nearest: None };
            self.reporter.report(unknown.key_span, subject, kind);
            return None;
        }
        match PluginId::new(&plugin?, &marketplace?) {
            Ok(plugin) => Some(plugin),
            Err(_) => {
                self.report_wrong_type(node, &key, "the names of a marketplace and a plugin");
                None
            }
        }
    }

    fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        let subject = ProblemSubject { server: None, key };
        self.reporter.report_wrong_type(node, subject, expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read};
    use crate::source::Source;

    fn managed(text: &str) -> Settings {
        let source = Source::file(Scope::Enterprise, "managed-settings.json");
        Settings::read(&source, text, Authority::Administrator)
    }

    #[test]
    fn an_administrator_turns_channels_on_and_lists_plugins() {
        let settings = managed(
            r#"{"channelsEnabled": true, "disableDevelopmentChannels": true,
                "channelPermissionRelay": false,
                "allowedChannelPlugins": [{"marketplace": "lab", "plugin": "chat"}]}"#,
        );
        assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
        let plugin = PluginId::new("chat", "lab").expect("two names");
        let expected = ChannelPolicy {
            is_enabled: true,
            allowed: vec![plugin],
            development: DevelopmentChannels::Forbidden,
            relay: Some(ChannelRelay::Off),
            is_relay_forbidden: true,
        };
        assert_eq!(settings.channels, expected);
        assert_eq!(managed("{}").channels, ChannelPolicy::default());
    }

    #[test]
    fn a_user_turns_the_relay_on_and_nothing_else() {
        let settings = read(
            r#"{"channelsEnabled": true, "allowedChannelPlugins": [], "disableDevelopmentChannels": false,
                "channelPermissionRelay": true}"#,
        );
        let keys = ["channelsEnabled", "disableDevelopmentChannels", "allowedChannelPlugins"];
        assert_eq!(problem_keys(&settings), keys);
        let relay = Some(ChannelRelay::On);
        assert_eq!(settings.channels, ChannelPolicy { relay, ..ChannelPolicy::default() });
    }

    #[test]
    fn an_entry_that_cannot_be_read_allows_nothing_and_the_others_count() {
        let settings = managed(
            r#"{"channelsEnabled": "yes", "allowedChannelPlugins": [
                "chat@lab", {"plugin": "a"}, {"marketplace": "m", "plugin": 3},
                {"marketplace": "m", "plugin": "p", "version": "1"}, {"marketplace": "m", "plugin": "*"},
                {"marketplace": "m", "plugin": "q"}]}"#,
        );
        let keys = [
            "channelsEnabled",
            "allowedChannelPlugins[0]",
            "allowedChannelPlugins[1].marketplace",
            "allowedChannelPlugins[2].plugin",
            "allowedChannelPlugins[3].version",
            "allowedChannelPlugins[4]",
        ];
        assert_eq!(problem_keys(&settings), keys);
        let names: Vec<String> =
            settings.channels.allowed.iter().map(ToString::to_string).collect();
        assert_eq!((names, settings.channels.is_enabled), (vec!["q@m".to_owned()], false));
        let odd = managed(r#"{"allowedChannelPlugins": {"m": "p"}}"#);
        assert_eq!(problem_keys(&odd), ["allowedChannelPlugins"]);
    }

    #[test]
    fn a_restriction_that_cannot_be_read_restricts() {
        let settings =
            managed(r#"{"disableDevelopmentChannels": "no", "channelPermissionRelay": "off"}"#);
        assert_eq!(settings.channels.development, DevelopmentChannels::Forbidden);
        assert!(settings.channels.is_relay_forbidden);
    }

    #[test]
    fn a_projects_file_says_nothing_about_channels() {
        let source = Source::file(Scope::Project, ".mcp.json");
        let text = r#"{"mcpServers": {}, "channelPermissionRelay": true, "channelsEnabled": true}"#;
        let settings = Settings::read_project(&source, text);
        assert_eq!(settings.channels, ChannelPolicy::default());
        assert_eq!(problem_keys(&settings), ["channelPermissionRelay", "channelsEnabled"]);
    }
}
