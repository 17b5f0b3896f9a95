//! The content of a lock file, with which an IDE says where its server listens. Pure.

use std::path::Path;

use serde_json::Value as Json;
use switchboard_config::secret::Secret;
use thiserror::Error;

/// The extension of a lock file. Its name before the extension is the port.
pub(super) const EXTENSION: &str = "lock";
/// The most workspace folders that count.
const MAX_FOLDERS: usize = 100;
/// The longest text that counts, in bytes.
const MAX_TEXT: usize = 4096;

/// What an IDE says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeLock {
    /// The port of its server.
    pub port: u16,
    /// The process of the IDE.
    pub pid: Option<u32>,
    /// The folders that are open in it, as it writes them.
    pub workspace_folders: Vec<String>,
    /// Its name, for users. Not escaped.
    pub name: String,
    /// The transport of its server.
    pub transport: IdeTransport,
    /// The token that it requires.
    pub auth_token: Option<Secret>,
    /// Where the IDE runs.
    pub platform: IdePlatform,
}

/// The transport of an IDE's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeTransport {
    /// WebSocket.
    WebSocket,
    /// HTTP with server-sent events, as of 2024.
    Sse,
}

/// Where an IDE runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdePlatform {
    /// On this system.
    Local,
    /// On Windows, while this system runs inside it: the process id and the paths are those of Windows.
    Windows,
}

/// Why a file is not the lock file of an IDE.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LockError {
    /// The name is not a port.
    #[error("its name is not a port")]
    NotAPort,
    /// It is no regular file.
    #[error("it is a link or no regular file")]
    NotRegularFile,
    /// It is too large.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// It is not a JSON object.
    #[error("it is not a JSON object")]
    NotJson,
    /// It names a transport that does not exist.
    #[error("its `transport` is not known")]
    UnknownTransport,
}

impl IdeLock {
    /// The port that the name of a lock file states.
    pub(super) fn port_of(path: &Path) -> Result<u16, LockError> {
        let stem = path.file_stem().and_then(|it| it.to_str()).ok_or(LockError::NotAPort)?;
        let is_plain = !stem.is_empty() && stem.bytes().all(|it| it.is_ascii_digit());
        let port = stem.parse().ok().filter(|port| is_plain && *port > 0);
        port.ok_or(LockError::NotAPort)
    }

    /// Reads the content of the lock file of a port.
    pub fn parse(port: u16, text: &str) -> Result<IdeLock, LockError> {
        let json: Json = serde_json::from_str(text).map_err(|_| LockError::NotJson)?;
        let members = json.as_object().ok_or(LockError::NotJson)?;
        let text = |key: &str| {
            members.get(key).and_then(Json::as_str).filter(|it| !it.is_empty()).map(cut)
        };
        let transport = match members.get("transport") {
            None | Some(Json::Null) => IdeTransport::Sse,
            Some(Json::String(name)) => match name.as_str() {
                "ws" => IdeTransport::WebSocket,
                "sse" => IdeTransport::Sse,
                _ => return Err(LockError::UnknownTransport),
            },
            Some(_) => return Err(LockError::UnknownTransport),
        };
        let folders = members.get("workspaceFolders").and_then(Json::as_array);
        let folders = folders.into_iter().flatten().filter_map(Json::as_str);
        Ok(IdeLock {
            port,
            pid: members
                .get("pid")
                .and_then(Json::as_u64)
                .and_then(|it| u32::try_from(it).ok())
                .filter(|it| *it > 0),
            workspace_folders: folders
                .filter(|it| !it.is_empty() && it.len() <= MAX_TEXT)
                .take(MAX_FOLDERS)
                .map(str::to_owned)
                .collect(),
            name: text("ideName").unwrap_or_else(|| "IDE".to_owned()),
            transport,
            auth_token: text("authToken").map(Secret::new),
            platform: match members.get("runningInWindows").and_then(Json::as_bool) {
                Some(true) => IdePlatform::Windows,
                Some(false) | None => IdePlatform::Local,
            },
        })
    }

    /// The URL of the IDE's server on a host.
    pub fn url(&self, host: &str) -> String {
        let port = self.port;
        match self.transport {
            IdeTransport::WebSocket => format!("ws://{host}:{port}"),
            IdeTransport::Sse => format!("http://{host}:{port}/sse"),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT / 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_process_folders_and_transport_and_hides_its_token() {
        let lock = IdeLock::parse(
            4711,
            r#"{"pid": 12, "workspaceFolders": ["/w/a", "", 3, "/w/b"], "ideName": "Neovim",
                "transport": "ws", "authToken": "canary", "other": {}}"#,
        )
        .expect("a lock");
        assert_eq!((lock.port, lock.pid), (4711, Some(12)));
        assert_eq!(lock.workspace_folders, ["/w/a", "/w/b"]);
        assert_eq!(lock.url("127.0.0.1"), "ws://127.0.0.1:4711");
        assert_eq!(lock.platform, IdePlatform::Local);
        assert!(!format!("{lock:?}").contains("canary"));
    }

    #[test]
    fn a_lock_without_transport_is_of_an_sse_server() {
        let lock = IdeLock::parse(80, r#"{"runningInWindows": true}"#).expect("a lock");
        assert_eq!(lock.url("localhost"), "http://localhost:80/sse");
        assert_eq!((lock.pid, lock.platform), (None, IdePlatform::Windows));
        assert_eq!(lock.name, "IDE");
    }

    #[test]
    fn what_is_no_lock_has_a_reason() {
        assert_eq!(IdeLock::parse(1, "not JSON"), Err(LockError::NotJson));
        assert_eq!(IdeLock::parse(1, "[]"), Err(LockError::NotJson));
        assert_eq!(IdeLock::parse(1, r#"{"transport": 1}"#), Err(LockError::UnknownTransport));
        for name in ["x.lock", "0.lock", "+80.lock", "65536.lock", ".lock"] {
            assert_eq!(IdeLock::port_of(Path::new(name)), Err(LockError::NotAPort), "{name}");
        }
        assert_eq!(IdeLock::port_of(Path::new("/x/80.lock")), Ok(80));
    }
}
