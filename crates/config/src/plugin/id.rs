//! The names of plugins and marketplaces, and what a server's definition says about the plugin that it comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// How the key of decisions on the servers of a plugin begins. The path of a file is absolute.
const KEY_PREFIX: &str = "plugin ";
/// The maximum length of a name.
const MAX_NAME_LENGTH: usize = 64;

/// The folder of the plugin, in the entries of its servers and in their environment.
pub const PLUGIN_ROOT: &str = "CLAUDE_PLUGIN_ROOT";
/// The folder with the plugin's own data.
pub const PLUGIN_DATA: &str = "CLAUDE_PLUGIN_DATA";
/// The folder of the project.
pub const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
/// The variables whose values an approval does not depend on: another version of a plugin is in another folder, and a
/// plugin of the user is used in every project.
pub const NEUTRAL_VARIABLES: [&str; 3] = [PLUGIN_ROOT, "SWITCHBOARD_PLUGIN_ROOT", PROJECT_DIR];

/// A plugin, by its name and the marketplace that publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginId {
    /// Its name.
    pub plugin: String,
    /// The name of its marketplace; `None` for a folder that the user chose.
    pub marketplace: Option<String>,
}

/// The plugin that a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginOrigin {
    /// The plugin.
    pub id: PluginId,
    /// The key of the user's decisions on its servers; `None` if the user chose the folder itself, so that no further
    /// decision is needed.
    pub approval_key: Option<String>,
    /// The plugin's folder.
    pub root: PathBuf,
}

/// Why a text is not the name of a plugin or a marketplace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameFault {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it is longer than {MAX_NAME_LENGTH} characters")]
    TooLong,
    /// It begins with another character than a letter or a digit.
    #[error("it must begin with a letter or a digit")]
    Start,
    /// It contains a character that could be mistaken for another, or that means something in a path.
    #[error("it may contain only letters, digits, `-` and `_`")]
    Character,
    /// The same, for a marketplace.
    #[error("it may contain only letters, digits, `-`, `_` and single dots")]
    MarketplaceCharacter,
    /// It contains `__`, which separates server and tool in tool names.
    #[error("`__` is not allowed: it separates server and tool in tool names")]
    Separator,
}

impl PluginId {
    /// A plugin of a marketplace, if both names are valid.
    pub fn new(plugin: &str, marketplace: &str) -> Result<PluginId, NameFault> {
        check_plugin_name(plugin)?;
        check_marketplace_name(marketplace)?;
        Ok(PluginId { plugin: plugin.to_owned(), marketplace: Some(marketplace.to_owned()) })
    }

    /// A plugin in a folder that the user chose.
    pub fn of_folder(plugin: &str) -> PluginId {
        PluginId { plugin: plugin.to_owned(), marketplace: None }
    }

    /// Parses `plugin@marketplace`.
    pub fn parse(text: &str) -> Option<PluginId> {
        let (plugin, marketplace) = text.split_once('@')?;
        PluginId::new(plugin, marketplace).ok()
    }

    /// The folder with the plugin's own data, below the folder for the data of all plugins. No two plugins have the same.
    pub fn data_folder(&self) -> PathBuf {
        // No marketplace has the name `-`.
        Path::new(self.marketplace.as_deref().unwrap_or("-")).join(&self.plugin)
    }

    /// The key of the user's decisions on the servers of a plugin that the user enabled.
    pub fn approval_key(&self) -> String {
        format!("{KEY_PREFIX}{self}")
    }

    /// Is it the key of a plugin, and not of a project's file?
    pub fn is_approval_key(key: &str) -> bool {
        key.starts_with(KEY_PREFIX)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plugin)?;
        match &self.marketplace {
            Some(marketplace) => write!(f, "@{marketplace}"),
            None => Ok(()),
        }
    }
}

/// Checks the name of a plugin. It becomes a part of server names, of permission rules and of paths.
pub fn check_plugin_name(text: &str) -> Result<(), NameFault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    check_name(text, is_plain, NameFault::Character)?;
    match text.contains("__") {
        true => Err(NameFault::Separator),
        false => Ok(()),
    }
}

/// Checks the name of a marketplace. It becomes a part of paths.
pub fn check_marketplace_name(text: &str) -> Result<(), NameFault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    check_name(text, is_plain, NameFault::MarketplaceCharacter)?;
    match text.contains("..") || text.ends_with('.') {
        true => Err(NameFault::MarketplaceCharacter),
        false => Ok(()),
    }
}

fn check_name(text: &str, is_plain: fn(char) -> bool, fault: NameFault) -> Result<(), NameFault> {
    match text.chars().next() {
        None => return Err(NameFault::Empty),
        Some(first) if !is_plain(first) => return Err(fault),
        Some(first) if !first.is_ascii_alphanumeric() => return Err(NameFault::Start),
        Some(_) => {}
    }
    match (text.chars().all(is_plain), text.len() > MAX_NAME_LENGTH) {
        (false, _) => Err(fault),
        (true, true) => Err(NameFault::TooLong),
        (true, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_text_that_looks_like_nothing_else() {
        for name in ["a", "demo-2", "My_plugin"] {
            assert_eq!(check_plugin_name(name), Ok(()), "{name}");
            assert_eq!(check_marketplace_name(name), Ok(()), "{name}");
        }
        assert_eq!(check_marketplace_name("acme.tools"), Ok(()));
        for (name, fault) in [
            ("", NameFault::Empty),
            ("..", NameFault::Character),
            ("-x", NameFault::Start),
            ("a/b", NameFault::Character),
            ("a@b", NameFault::Character),
            ("a:b", NameFault::Character),
            ("a b", NameFault::Character),
            ("a\u{1b}[2J", NameFault::Character),
            ("dem\u{43e}", NameFault::Character),
            ("demo\u{200b}", NameFault::Character),
            ("a__b", NameFault::Separator),
        ] {
            assert_eq!(check_plugin_name(name), Err(fault), "{name:?}");
        }
        for name in ["..", "a..b", "a.", ".a", "a/b"] {
            assert!(check_marketplace_name(name).is_err(), "{name}");
        }
        assert_eq!(check_plugin_name(&"a".repeat(65)), Err(NameFault::TooLong));
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = PluginId::parse("demo@acme.tools").expect("an id");
        assert_eq!(
            (id.to_string().as_str(), id.data_folder()),
            ("demo@acme.tools", PathBuf::from("acme.tools/demo"))
        );
        for text in ["demo", "demo@", "@lab", "demo@lab@x", "../x@lab", "demo@../x"] {
            assert_eq!(PluginId::parse(text), None, "{text}");
        }
    }
}
