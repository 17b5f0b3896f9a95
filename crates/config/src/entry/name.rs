//! Server names: which are valid, and which are reserved for built-in servers.

use std::fmt;

use thiserror::Error;

/// Names that are reserved for servers that run inside Switchboard, and for those that users know from other
/// applications.
pub const RESERVED: [&str; 7] = [
    "browser",
    "computer",
    "ide",
    "switchboard",
    "claude-in-chrome",
    "computer-use",
    "claude-vscode",
];

/// The prefix of a plugin's server in the names of tools and in permission rules.
const PLUGIN_PREFIX: &str = "plugin_";

/// The valid name of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(String);

/// Whether reserved names are allowed, as they are for servers of an embedding program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedNames {
    /// Allowed: the entry is of type `sdk`.
    Allowed,
    /// Refused.
    Refused,
}

/// Why a text is not a server name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// It is empty.
    #[error("a server name must not be empty")]
    Empty,
    /// It contains a character other than letters, digits, `-` and `_`.
    #[error("a server name may contain only letters, digits, `-` and `_`")]
    Character(char),
    /// It contains `__`, which separates server and tool in tool names.
    #[error("`__` is not allowed in a server name: it separates server and tool in tool names")]
    Separator,
    /// It is one of [`RESERVED`].
    #[error("the name is reserved for a built-in server")]
    Reserved,
    /// It begins with `plugin_`, so that a permission rule could not tell it from a plugin's server.
    #[error(
        "a server name must not begin with `plugin_`: permission rules name plugins' servers so"
    )]
    PluginPrefix,
}

impl ServerName {
    /// Parses the name of a server that a user configured.
    pub fn parse(text: &str, reserved: ReservedNames) -> Result<ServerName, NameError> {
        check_characters(text)?;
        if reserved == ReservedNames::Refused && RESERVED.contains(&text) {
            return Err(NameError::Reserved);
        }
        if text.starts_with(PLUGIN_PREFIX) {
            return Err(NameError::PluginPrefix);
        }
        Ok(ServerName(text.to_owned()))
    }

    /// Builds the name of a plugin's server, `plugin:<plugin>:<server>`, which no configured name can equal.
    pub fn for_plugin(plugin: &str, server: &str) -> Result<ServerName, NameError> {
        check_characters(plugin)?;
        check_characters(server)?;
        Ok(ServerName(format!("plugin:{plugin}:{server}")))
    }

    /// Parses the name of a connector, which may contain spaces and dots but no control characters.
    pub fn for_connector(text: &str) -> Result<ServerName, NameError> {
        if text.trim().is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(bad) = text.chars().find(|c| c.is_control() || *c == ':') {
            return Err(NameError::Character(bad));
        }
        if text.contains("__") {
            return Err(NameError::Separator);
        }
        Ok(ServerName(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Suggests a valid name that is similar to `text`.
    pub fn suggestion(text: &str) -> Option<ServerName> {
        let mut name = String::new();
        for c in text.chars() {
            let c = if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
            let doubled = (c == '-' || c == '_') && name.ends_with(['-', '_']);
            if !doubled {
                name.push(c);
            }
        }
        let name = name.trim_matches(['-', '_']);
        ServerName::parse(name, ReservedNames::Refused).ok()
    }
}

fn check_characters(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
        return Err(NameError::Character(bad));
    }
    if text.contains("__") {
        return Err(NameError::Separator);
    }
    Ok(())
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NameError>) {
        let found = ServerName::parse(text, ReservedNames::Refused);
        assert_eq!(found.as_ref().map(ServerName::as_str), expected.as_ref().copied());
    }

    #[test]
    fn letters_digits_dash_and_underscore_make_a_name() {
        check("github", Ok("github"));
        check("My-server_2", Ok("My-server_2"));
        check("", Err(NameError::Empty));
        check("a.b", Err(NameError::Character('.')));
        check("bad name", Err(NameError::Character(' ')));
        check("plugin:x:y", Err(NameError::Character(':')));
        check("naïve", Err(NameError::Character('ï')));
    }

    #[test]
    fn the_separator_of_tool_names_is_refused() {
        check("a__b", Err(NameError::Separator));
        check("__", Err(NameError::Separator));
        check("a_b_c", Ok("a_b_c"));
    }

    #[test]
    fn built_in_names_are_refused_except_for_an_embedding_program() {
        let names = [
            "browser",
            "computer",
            "ide",
            "switchboard",
            "claude-in-chrome",
            "computer-use",
            "claude-vscode",
        ];
        for name in names {
            check(name, Err(NameError::Reserved));
            assert!(ServerName::parse(name, ReservedNames::Allowed).is_ok());
        }
    }

    #[test]
    fn a_plugin_name_can_never_equal_a_manual_one() {
        let name = ServerName::for_plugin("tools", "db").expect("both halves are plain");
        assert_eq!(name.as_str(), "plugin:tools:db");
        check(name.as_str(), Err(NameError::Character(':')));
        assert_eq!(ServerName::for_plugin("a:b", "c"), Err(NameError::Character(':')));
    }

    #[test]
    fn a_manual_name_can_never_equal_a_plugin_s_name_in_rules() {
        check("plugin_tools_db", Err(NameError::PluginPrefix));
        check("plugins", Ok("plugins"));
    }

    #[test]
    fn a_connector_name_may_hold_spaces_but_no_control_characters() {
        assert!(ServerName::for_connector("claude.ai Linear").is_ok());
        assert_eq!(ServerName::for_connector("a\u{1b}[2J"), Err(NameError::Character('\u{1b}')));
        assert_eq!(ServerName::for_connector("  "), Err(NameError::Empty));
    }

    #[test]
    fn a_bad_name_gets_a_usable_suggestion() {
        let suggest = |text| ServerName::suggestion(text).map(|name| name.0);
        assert_eq!(suggest("my server.v2").as_deref(), Some("my-server-v2"));
        assert_eq!(suggest("a__b").as_deref(), Some("a_b"));
        assert_eq!(suggest("…"), None);
        assert_eq!(suggest("browser"), None);
    }
}
