//! The seven scopes that a server's configuration may come from, highest first.
//! The order of precedence is defined only here; `merge` compares scopes.

use std::fmt;

/// The scope of a server's configuration. Declared highest first, so `<` means "takes precedence over".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `managed-mcp.json` of an administrator.
    Enterprise,
    /// `--mcp-config`, a file or inline JSON.
    Dynamic,
    /// The connectors of an account.
    Connectors,
    /// `.mcp.json` in the working folder or one of its parents.
    Project,
    /// One user in one project, stored outside of its tree.
    Local,
    /// One user in every project.
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

    /// The name in flags, tables and JSON.
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

    /// Parses the name of a scope. `claudeai` also means `connectors`, and `managed`, the former name,
    /// `plugin`.
    pub fn parse(text: &str) -> Option<Scope> {
        match text {
            "claudeai" => Some(Scope::Connectors),
            "managed" => Some(Scope::Plugin),
            _ => Scope::ALL.into_iter().find(|scope| scope.id() == text),
        }
    }

    /// Did a user, administrator or program configure the server, as opposed to an account or a plugin that
    /// provides it?
    pub fn is_manual(self) -> bool {
        match self {
            Scope::Enterprise | Scope::Dynamic | Scope::Project | Scope::Local | Scope::User => {
                true
            }
            Scope::Connectors | Scope::Plugin => false,
        }
    }

    /// May entries of the scope refer to secrets (`${keychain:…}`, `${file:…}`, `${cmd:…}`)? Only in files that
    /// only the user writes.
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
