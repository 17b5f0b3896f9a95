//! Files that pages take and give: uploads only from allowed folders, downloads saved only into them.

use std::path::{Component, Path, PathBuf};

use serde_json::json;

use crate::actions::page::Page;
use crate::actions::world::ElementRef;
use crate::cdp::connection::CdpError;
use crate::error::{BrowserError, Result};
use crate::page::downloads::{Download, DownloadState};

/// How many files are uploaded at once, and how large one may be.
const MAX_FILES: usize = 20;
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// An existing file below an allowed folder, with links followed.
pub(crate) fn readable(path: &str, folders: &[PathBuf]) -> Result<PathBuf> {
    let fail = |reason: &str| BrowserError::File { path: path.into(), reason: reason.to_owned() };
    let base = folders.first().ok_or_else(|| fail("no folder is allowed"))?;
    let real = base.join(path).canonicalize().map_err(|it| fail(&it.kind().to_string()))?;
    if !is_below(&real, folders) {
        return Err(fail("it is outside the allowed folders"));
    }
    match real.metadata() {
        Ok(it) if !it.is_file() => Err(fail("it is not a file")),
        Ok(it) if it.len() > MAX_FILE_BYTES => Err(fail("it is larger than 512 MB")),
        Ok(_) => Ok(real),
        Err(error) => Err(fail(&error.kind().to_string())),
    }
}

/// A path for a new file below an allowed folder. The folder has to exist, the file must not.
pub(crate) fn creatable(path: &str, folders: &[PathBuf]) -> Result<PathBuf> {
    let fail = |reason: &str| BrowserError::File { path: path.into(), reason: reason.to_owned() };
    let base = folders.first().ok_or_else(|| fail("no folder is allowed"))?;
    let whole = base.join(path);
    let name = match whole.components().next_back() {
        Some(Component::Normal(name)) => name.to_owned(),
        Some(_) | None => return Err(fail("it does not name a file")),
    };
    let parent = whole.parent().ok_or_else(|| fail("it does not name a file"))?;
    let parent = parent.canonicalize().map_err(|_| fail("its folder does not exist"))?;
    if !is_below(&parent, folders) {
        return Err(fail("it is outside the allowed folders"));
    }
    let target = parent.join(name);
    match target.symlink_metadata() {
        Ok(_) => Err(fail("it exists already")),
        Err(_) => Ok(target),
    }
}

fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().filter_map(|it| it.canonicalize().ok()).any(|it| path.starts_with(it))
}

/// Copies a download to a new file, and never over an existing one.
pub(crate) fn save(from: &Path, to: &Path) -> Result<u64> {
    let fail = |error: std::io::Error| BrowserError::File {
        path: to.to_owned(),
        reason: error.kind().to_string(),
    };
    let mut source = std::fs::File::open(from).map_err(fail)?;
    let mut target =
        std::fs::OpenOptions::new().write(true).create_new(true).open(to).map_err(fail)?;
    std::io::copy(&mut source, &mut target).map_err(fail)
}

/// One line about a download.
pub(crate) fn described(download: &Download) -> String {
    let size = match (download.state, download.total) {
        (DownloadState::InProgress, total) if total > 0 => {
            format!("{} of {total} bytes", download.received)
        }
        _ => format!("{} bytes", download.received),
    };
    let saved = download.saved_as.as_ref();
    let saved = saved.map(|it| format!(", saved as {}", it.display())).unwrap_or_default();
    let url =
        crate::shown_text::shown(download.url.split(['?', '#']).next().unwrap_or_default(), 120);
    let name = crate::shown_text::quoted(&download.suggested_name, 120);
    format!("{}: {name} {}, {size}, from {url}{saved}", download.number, download.state.id())
}

impl Page {
    /// Gives files to a file field, or to the file chooser that is open.
    pub(crate) async fn upload(
        &self,
        element: Option<&ElementRef>,
        files: &[PathBuf],
    ) -> Result<String> {
        if files.is_empty() || files.len() > MAX_FILES {
            let expected = format!("a list of 1 to {MAX_FILES} paths");
            return Err(BrowserError::Argument { name: "paths", expected });
        }
        let (session, mut params) = match element {
            Some(element) => {
                let (session, object) = self.object_of(element).await?;
                (session, json!({"objectId": object}))
            }
            None => {
                let chooser = self.with(|it| it.chooser.clone())?;
                let chooser = chooser.ok_or(BrowserError::NoChooser)?;
                if files.len() > 1 && !chooser.takes_many {
                    let expected = "one path: the page takes only one file".to_owned();
                    return Err(BrowserError::Argument { name: "paths", expected });
                }
                (chooser.session, json!({"backendNodeId": chooser.node}))
            }
        };
        params["files"] = json!(files);
        let method = "DOM.setFileInputFiles";
        if let Err(error) = self.browser.cdp.call(Some(&session), method, params).await {
            let what =
                element.map_or_else(|| "the field".to_owned(), |it| format!("e{}", it.number));
            return match error {
                CdpError::Refused { .. } => {
                    let reason =
                        "is not a file field; use the ref of the field, or click its button first"
                            .to_owned();
                    Err(BrowserError::WrongElement { what, reason })
                }
                CdpError::Closed
                | CdpError::SessionEnded
                | CdpError::Timeout { .. }
                | CdpError::Unreadable { .. }
                | CdpError::TooLong { .. } => Err(error.into()),
            };
        }
        self.with(|it| it.chooser = None)?;
        let names: Vec<String> = files
            .iter()
            .filter_map(|it| it.file_name())
            .map(|it| crate::shown_text::quoted(&it.to_string_lossy(), 60))
            .collect();
        Ok(format!("uploaded {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_allowed_folders_are_read() {
        let outer = tempfile::tempdir().expect("a folder");
        let inner = outer.path().join("work");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(inner.join("a.txt"), "a").expect("a file");
        std::fs::write(outer.path().join("secret"), "s").expect("a file");
        std::os::unix::fs::symlink(outer.path().join("secret"), inner.join("link"))
            .expect("a link");
        let folders = [inner.clone()];
        assert!(readable("a.txt", &folders).is_ok());
        assert!(readable(inner.join("a.txt").to_str().expect("text"), &folders).is_ok());
        for path in ["../secret", "link", "/etc/passwd", "none", "."] {
            assert!(readable(path, &folders).is_err(), "{path}");
        }
        assert!(readable("a.txt", &[]).is_err());
    }

    #[test]
    fn a_download_is_saved_below_the_allowed_folders_and_over_nothing() {
        let outer = tempfile::tempdir().expect("a folder");
        let inner = outer.path().join("work");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(inner.join("old"), "old").expect("a file");
        std::os::unix::fs::symlink(outer.path(), inner.join("out")).expect("a link");
        std::os::unix::fs::symlink("/nowhere/x", inner.join("dangling")).expect("a link");
        let folders = [inner.clone()];
        assert_eq!(
            creatable("new", &folders).expect("a path"),
            inner.canonicalize().expect("a path").join("new")
        );
        for path in ["old", "../new", "out/new", "dangling", "none/new", ".."] {
            assert!(creatable(path, &folders).is_err(), "{path}");
        }
        let target = inner.join("copy");
        assert_eq!(save(&inner.join("old"), &target).expect("a copy"), 3);
        assert!(save(&inner.join("old"), &target).is_err());
    }
}
