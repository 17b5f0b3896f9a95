//! What the options of a conversation say about the rest of the program: settings, folders and built-in tools.

use std::sync::{Arc, OnceLock};

use switchboard::channel::{ChannelRelay, ChannelSelector};
use switchboard::config::permission::PermissionRules;
use switchboard::sources::loader::SettingSources;
use switchboard::sources::plugins::SessionPlugin;
use switchboard_builtin::workspace::AddedRoots;

/// What the options of a conversation say about settings, folders and built-in tools.
#[derive(Debug, Clone, Default)]
pub struct SessionFlags {
    /// The value of `--settings`, a path or JSON.
    pub settings: Option<String>,
    /// The settings that are loaded.
    pub setting_sources: SettingSources,
    /// The folders of `--add-dir`, absolute. A program may change them while its session runs.
    pub added_folders: AddedRoots,
    /// The built-in tools.
    pub tools: ToolSelection,
    /// The rules of `--allowed-tools` and `--disallowed-tools`.
    pub rules: PermissionRules,
    /// Whether the computer server is used.
    pub computer: ComputerUse,
    /// Whether a user converses in this run.
    pub user: UserPresence,
    /// The channels.
    pub channels: ChannelFlags,
    /// The plugins of this run.
    pub plugins: Vec<SessionPlugin>,
}

/// The servers that may send messages into the conversation, according to the options.
#[derive(Debug, Clone, Default)]
pub struct ChannelFlags {
    /// The values of `--channels`.
    pub selected: Vec<ChannelSelector>,
    /// The values of `--dangerously-load-development-channels`.
    pub development: Vec<ChannelSelector>,
    /// Whether permission requests are sent to channels.
    pub relay: ChannelRelay,
    /// Set once a person has confirmed the development channels. Shared by all copies of a run.
    pub confirmation: Arc<OnceLock<()>>,
}

/// Whether the computer server is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComputerUse {
    /// Only where a configuration names it.
    #[default]
    AsConfigured,
    /// `--computer` asks for it.
    AskedFor,
}

/// Whether a user converses in this run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UserPresence {
    /// A command, or a program.
    #[default]
    Absent,
    /// A conversation on the screen or in plain lines.
    Present,
}

/// The built-in tools of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// None.
    #[default]
    None,
    /// All of them.
    All,
    /// Those with these names.
    Named(Vec<String>),
}

impl ToolSelection {
    /// Parses names separated by commas; an empty text means none.
    pub fn parse(text: &str) -> ToolSelection {
        let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        match names.as_slice() {
            [] => ToolSelection::None,
            [word] if word == "default" => ToolSelection::All,
            [..] => ToolSelection::Named(names),
        }
    }
}
