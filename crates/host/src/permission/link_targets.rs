//! Follows symbolic links in the paths of a call's arguments, so that a rule about a file also applies where a link leads to it.
//! Which tools have such arguments is left to the permit; opening the file is left to the tool, which checks again.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

/// The arguments of file tools that are paths.
const PATH_ARGUMENTS: [&str; 3] = ["file_path", "path", "notebook_path"];

/// The arguments with every path resolved; `None` if that changes nothing.
pub(crate) async fn follow(arguments: &Json) -> Option<Json> {
    if !PATH_ARGUMENTS.iter().any(|name| arguments[name].is_string()) {
        return None;
    }
    let arguments = arguments.clone();
    tokio::task::spawn_blocking(move || follow_now(arguments)).await.ok().flatten()
}

fn follow_now(mut arguments: Json) -> Option<Json> {
    let mut is_changed = false;
    for name in PATH_ARGUMENTS {
        let Some(text) = arguments.get(name).and_then(Json::as_str) else { continue };
        let Some(target) = target(Path::new(text)) else { continue };
        let target = target.to_string_lossy().into_owned();
        is_changed |= target != text;
        arguments[name] = target.into();
    }
    is_changed.then_some(arguments)
}

/// The path behind all links. The end of the path need not exist: a tool may create it.
fn target(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|existing| {
        let existing_path = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        let resolved = std::fs::canonicalize(existing_path).ok()?;
        let rest = path.strip_prefix(existing).ok()?;
        Some(if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) })
    })
}

#[cfg(all(test, unix))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_followed_also_where_the_file_does_not_exist_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = std::fs::canonicalize(folder.path()).expect("it exists");
        std::fs::create_dir(root.join("secret")).expect("a folder");
        std::os::unix::fs::symlink(root.join("secret"), root.join("link")).expect("a link");
        let of =
            |path: &str| json!({"file_path": root.join(path).display().to_string(), "limit": 1});
        assert_eq!(follow_now(of("link/new.txt")), Some(of("secret/new.txt")));
        assert_eq!(follow_now(of("secret/new.txt")), None);
        assert_eq!(follow_now(json!({"command": "link"})), None);
    }
}
