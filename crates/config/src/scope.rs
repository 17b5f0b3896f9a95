//! The seven places a server's configuration may come from, highest first.
//! Order lives here alone; `cascade` compares, nobody else ranks scopes.

use std::fmt;

/// Where a server's configuration came from. Declared highest first, so `<` means "wins over".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `managed-mcp.json`, kept by an administrator.
    Enterprise,
    /// `--mcp-config`, a file or inline JSON.
    Dynamic,
    /// An account's connectors.
    Connectors,
    /// `.mcp.json` in the working folder or one of its parents.
    Project,
    /// One person, one project, kept outside the tree.
    Local,
    /// One person, every project.
    User,
    /// Plugins.
    Plugin,
}

impl Scope {
    /// Every scope, highest first.
    pub const ALL: [Scope; 7] = [
        Scope::Enterprise,
        Scope::Dynamic,
        Scope::Connectors,
        Scope::Project,
        Scope::Local,
        Scope::User,
        Scope::Plugin,
    ];

    /// The word used in flags, tables and JSON.
    pub fn id(self) -> &'static str {
        match self {
            Scope::Enterprise => "enterprise",
            Scope::Dynamic => "dynamic",
            Scope::Connectors => "connectors",
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::User => "user",
            Scope::Plugin => "plugin",
        }
    }

    /// Parses the word for a scope. `claudeai` also means `connectors`, and `managed`, the former word, `plugin`.
    pub fn parse(text: &str) -> Option<Scope> {
        match text {
            "claudeai" => Some(Scope::Connectors),
            "managed" => Some(Scope::Plugin),
            _ => Scope::ALL.into_iter().find(|scope| scope.id() == text),
        }
    }

    /// A person or program wrote the entry on purpose, as opposed to an account or a plugin that brought it along.
    pub fn is_manual(self) -> bool {
        match self {
            Scope::Enterprise | Scope::Dynamic | Scope::Project | Scope::Local | Scope::User => {
                true
            }
            Scope::Connectors | Scope::Plugin => false,
        }
    }

    /// May the scope name secrets (`${keychain:…}`, `${file:…}`, `${cmd:…}`)? Only files that nobody but this person writes.
    pub fn may_name_secrets(self) -> bool {
        match self {
            Scope::Local | Scope::User => true,
            Scope::Enterprise
            | Scope::Dynamic
            | Scope::Connectors
            | Scope::Project
            | Scope::Plugin => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn scopes_rank_from_enterprise_down_to_plugins() {
        let mut shuffled = [
            Scope::User,
            Scope::Plugin,
            Scope::Dynamic,
            Scope::Local,
            Scope::Enterprise,
            Scope::Project,
            Scope::Connectors,
        ];
        shuffled.sort();
        assert_eq!(shuffled, Scope::ALL);
    }

    #[test]
    fn every_scope_reads_back_from_its_word() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.id()), Some(scope));
        }
        assert_eq!(Scope::parse("claudeai"), Some(Scope::Connectors));
        assert_eq!(Scope::parse("managed"), Some(Scope::Plugin));
        assert_eq!(Scope::parse("User"), None);
    }
}
