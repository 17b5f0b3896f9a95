//! Where Switchboard keeps its things. The caller decides the folders; the names in them are decided here.

use std::path::{Path, PathBuf};

use switchboard_config::entry::server::sha256;

/// The folders that everything of ours lives in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Settings of the person.
    pub config: PathBuf,
    /// What the person installed, plugins for one.
    pub data: PathBuf,
    /// What we remember, approvals for one.
    pub state: PathBuf,
    /// What an administrator keeps. Only an administrator can write here, and nothing but the platform says where it is.
    pub managed: PathBuf,
}

impl Paths {
    /// Everything below one folder, an administrator's files too: for programs that have no administrator.
    pub fn in_dir(folder: &Path) -> Paths {
        Paths {
            config: folder.join("config"),
            data: folder.join("data"),
            state: folder.join("state"),
            managed: folder.join("managed"),
        }
    }

    /// The person's settings for every project.
    pub fn user_settings(&self) -> PathBuf {
        self.config.join("settings.json")
    }

    /// The person's settings for one project, kept outside its tree.
    pub fn local_settings(&self, root: &Path) -> PathBuf {
        self.config.join("projects").join(project_key(root)).join("settings.json")
    }

    /// Conversations that were had in one project, a file each.
    pub fn conversations(&self, root: &Path) -> PathBuf {
        self.data.join("conversations").join(project_key(root))
    }

    /// The folder of plugins, one folder each.
    pub fn plugins(&self) -> PathBuf {
        self.data.join("plugins")
    }

    /// What servers say on standard error, a file or two each.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Which servers want a login, for a quarter of an hour.
    pub fn auth_required_cache(&self) -> PathBuf {
        self.state.join("mcp-needs-auth-cache.json")
    }

    /// Which era servers live in.
    pub fn era_cache(&self) -> PathBuf {
        self.state.join("eras.json")
    }

    /// Logins at servers.
    pub fn logins(&self) -> PathBuf {
        self.data.join("logins")
    }

    /// What tools looked like when they were approved.
    pub fn pins(&self) -> PathBuf {
        self.state.join("pins.json")
    }

    /// Who called which tool.
    pub fn audit(&self) -> PathBuf {
        self.state.join("audit.jsonl")
    }

    /// Results that are too large to be shown, and files that servers sent.
    pub fn results(&self) -> PathBuf {
        self.data.join("results")
    }

    /// What servers had when we last saw them.
    pub fn completion_cache(&self) -> PathBuf {
        self.data.join("catalogues")
    }

    /// What accounts said of their connectors, a file each.
    pub fn connectors(&self) -> PathBuf {
        self.data.join("connectors")
    }

    /// Where running programs of ours can be spoken to.
    pub fn control_sockets(&self) -> PathBuf {
        self.state.join("running")
    }

    /// What the person said of projects' servers.
    pub fn approvals(&self) -> PathBuf {
        self.state.join("approvals.json")
    }

    /// An administrator's servers; while this exists they are the only ones.
    pub fn managed_servers(&self) -> PathBuf {
        self.managed.join("managed-mcp.json")
    }

    /// An administrator's policy.
    pub fn managed_settings(&self) -> PathBuf {
        self.managed.join("managed-settings.json")
    }
}

/// A project's name as one part of a path: something to read, and what tells it from others of that name.
fn project_key(root: &Path) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let name: String = root
        .file_name()
        .map(|name| name.to_string_lossy().chars().take(40).map(plain).collect())
        .unwrap_or_else(|| "root".to_owned());
    let key = &sha256(root.as_os_str().as_encoded_bytes())[..16];
    format!("{name}-{key}")
}

/// The file that a project keeps its servers in.
pub const PROJECT_FILE: &str = ".mcp.json";

/// The folder that a project's local settings are keyed by: the nearest one under version control,
/// else the nearest with servers of its own, else the working folder itself.
pub fn project_root(working_folder: &Path) -> PathBuf {
    let holding = |name: &str| {
        working_folder.ancestors().find(|folder| folder.join(name).symlink_metadata().is_ok())
    };
    holding(".git").or_else(|| holding(PROJECT_FILE)).unwrap_or(working_folder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_projects_of_one_name_have_two_local_settings() {
        let paths = Paths {
            config: "/c".into(),
            data: "/d".into(),
            state: "/s".into(),
            managed: "/m".into(),
        };
        let one = paths.local_settings(Path::new("/a/app"));
        let other = paths.local_settings(Path::new("/b/app"));
        assert_ne!(one, other);
        assert!(one.starts_with("/c/projects"), "{one:?}");
        assert!(paths.local_settings(Path::new("/")).starts_with("/c/projects"));
    }

    #[test]
    fn the_root_is_the_repository_then_the_project_file_then_the_folder() {
        let home = tempfile::tempdir().expect("a temp folder");
        let deep = home.path().join("repo/a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        assert_eq!(project_root(&deep), deep);
        std::fs::write(home.path().join("repo/a/.mcp.json"), "{}").expect("a file");
        assert_eq!(project_root(&deep), home.path().join("repo/a"));
        std::fs::write(home.path().join("repo/.git"), "gitdir: elsewhere").expect("a file");
        assert_eq!(project_root(&deep), home.path().join("repo"));
    }
}
