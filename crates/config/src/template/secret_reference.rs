//! References to secrets: `${keychain:NAME}`, `${file:PATH}`, `${cmd:COMMAND}`. `host` fetches the values.

use std::fmt;

use crate::display;

/// A reference to a secret.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretReference {
    /// `${keychain:NAME}`: an entry of the system's keychain.
    Keychain(String),
    /// `${file:PATH}`: the content of a file.
    File(String),
    /// `${cmd:COMMAND}`: the output of a command.
    Command(String),
}

impl SecretReference {
    /// Returns the reference for users. The command is masked, because it may itself contain a secret.
    pub fn masked(&self) -> String {
        match self {
            SecretReference::Command(command) => {
                format!("${{cmd:{}}}", display::masked_command(command))
            }
            SecretReference::Keychain(_) | SecretReference::File(_) => self.to_string(),
        }
    }

    pub(super) fn parse(inside: &str) -> Option<SecretReference> {
        let (kind, rest) = inside.split_once(':')?;
        if rest.is_empty() {
            return None;
        }
        match kind {
            "keychain" => Some(SecretReference::Keychain(rest.to_owned())),
            "file" => Some(SecretReference::File(rest.to_owned())),
            "cmd" => Some(SecretReference::Command(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Debug for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

/// The full reference, as it is written and hashed. For users, see [`SecretReference::masked`].
impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretReference::Keychain(name) => write!(f, "${{keychain:{name}}}"),
            SecretReference::File(path) => write!(f, "${{file:{path}}}"),
            SecretReference::Command(command) => write!(f, "${{cmd:{command}}}"),
        }
    }
}
