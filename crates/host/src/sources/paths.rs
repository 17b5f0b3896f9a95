//! File and folder names of Switchboard's own files. The caller chooses the base folders.

use std::path::{Path, PathBuf};

use switchboard_config::entry::server::sha256;

/// The base folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The user's settings.
    pub config: PathBuf,
    /// Files that the user installed, such as plugins.
    pub data: PathBuf,
    /// State between runs, such as approvals.
    pub state: PathBuf,
    /// The administrator's files. Only an administrator can write here; the location depends only on the platform.
    pub managed: PathBuf,
}

impl Paths {
    /// Puts all folders below one folder, the administrator's too: for programs without an administrator.
    pub fn in_dir(folder: &Path) -> Paths {
        Paths {
            config: folder.join("config"),
            data: folder.join("data"),
            state: folder.join("state"),
            managed: folder.join("managed"),
        }
    }

    /// The user's settings for all projects.
    pub fn user_settings(&self) -> PathBuf {
        self.config.join("settings.json")
    }

    /// The user's settings for one project, stored outside its tree.
    pub fn local_settings(&self, root: &Path) -> PathBuf {
        self.config.join("projects").join(project_key(root)).join("settings.json")
    }

    /// Saved conversations of one project, one file each.
    pub fn conversations(&self, root: &Path) -> PathBuf {
        self.all_conversations().join(project_key(root))
    }

    /// The folders of the saved conversations of all projects.
    pub fn all_conversations(&self) -> PathBuf {
        self.data.join("conversations")
    }

    /// The lock files of IDEs.
    pub fn ide_locks(&self) -> PathBuf {
        self.config.join("ide")
    }

    /// The plugins, one folder each.
    pub fn plugins(&self) -> PathBuf {
        self.data.join("plugins")
    }

    /// Everything about plugins from marketplaces.
    pub fn plugin_store(&self) -> PathBuf {
        self.data.join("installed-plugins")
    }

    /// The known marketplaces.
    pub fn known_marketplaces(&self) -> PathBuf {
        self.plugin_store().join("known_marketplaces.json")
    }

    /// The installed plugins.
    pub fn installed_plugins(&self) -> PathBuf {
        self.plugin_store().join("installed_plugins.json")
    }

    /// The data of plugins, which outlives their versions.
    pub fn plugin_data(&self) -> PathBuf {
        self.plugin_store().join("data")
    }

    /// The unpacked bundles, one folder each, named by their hash.
    pub fn bundles(&self) -> PathBuf {
        self.data.join("bundles")
    }

    /// The stderr logs, up to two files per server.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The program's own log, where the terminal cannot show it.
    pub fn program_log(&self) -> PathBuf {
        self.state.join("swb.log")
    }

    /// The cache of servers that require a login; entries live for 15 minutes.
    pub fn auth_required_cache(&self) -> PathBuf {
        self.state.join("mcp-needs-auth-cache.json")
    }

    /// The cache of the protocol era of each server.
    pub fn era_cache(&self) -> PathBuf {
        self.state.join("eras.json")
    }

    /// The cache of servers that turned out to belong to one session.
    pub fn session_bound_cache(&self) -> PathBuf {
        self.state.join("session-bound.json")
    }

    /// What became of the messages of channels, by server.
    pub fn channel_records(&self) -> PathBuf {
        self.state.join("channels.json")
    }

    /// The log of the shared host.
    pub fn shared_host_log(&self) -> PathBuf {
        self.state.join("host.log")
    }

    /// Stored logins.
    pub fn logins(&self) -> PathBuf {
        self.data.join("logins")
    }

    /// The pinned definitions of approved tools.
    pub fn pins(&self) -> PathBuf {
        self.state.join("pins.json")
    }

    /// The audit log of tool calls.
    pub fn audit(&self) -> PathBuf {
        self.state.join("audit.jsonl")
    }

    /// Large results and files from servers.
    pub fn results(&self) -> PathBuf {
        self.data.join("results")
    }

    /// The lists of servers as of their last connection.
    pub fn remembered_catalogues(&self) -> PathBuf {
        self.data.join("lists")
    }

    /// Cached catalogues of servers, for completion.
    pub fn completion_cache(&self) -> PathBuf {
        self.data.join("catalogues")
    }

    /// Connector listings, one file per account.
    pub fn connectors(&self) -> PathBuf {
        self.data.join("connectors")
    }

    /// Control sockets of running Switchboard processes.
    pub fn control_sockets(&self) -> PathBuf {
        self.state.join("running")
    }

    /// The user's approvals of project servers.
    pub fn approvals(&self) -> PathBuf {
        self.state.join("approvals.json")
    }

    /// Records and backups of adopted clients.
    pub fn adoptions(&self) -> PathBuf {
        self.state.join("adopt")
    }

    /// The administrator's servers; while this file exists, they are the only ones.
    pub fn managed_servers(&self) -> PathBuf {
        self.managed.join("managed-mcp.json")
    }

    /// The administrator's settings and policy.
    pub fn managed_settings(&self) -> PathBuf {
        self.managed.join("managed-settings.json")
    }
}

/// The project's folder name and a hash of its path, as one path component.
fn project_key(root: &Path) -> String {
    let sanitize =
        |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let name: String = root
        .file_name()
        .map(|name| name.to_string_lossy().chars().take(40).map(sanitize).collect())
        .unwrap_or_else(|| "root".to_owned());
    let key = &sha256(root.as_os_str().as_encoded_bytes())[..16];
    format!("{name}-{key}")
}

/// The file in which a project configures its servers.
pub const PROJECT_FILE: &str = ".mcp.json";

/// The folder that identifies a project: the nearest one with `.git`, else the nearest with a `.mcp.json`, else the
/// working folder.
pub fn project_root(working_folder: &Path) -> PathBuf {
    let nearest_with = |name: &str| {
        working_folder.ancestors().find(|folder| folder.join(name).symlink_metadata().is_ok())
    };
    nearest_with(".git").or_else(|| nearest_with(PROJECT_FILE)).unwrap_or(working_folder).to_owned()
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
