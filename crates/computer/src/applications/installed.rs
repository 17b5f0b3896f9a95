//! Finds installed applications in the data folders, within a time limit: a folder may be slow or huge.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::applications::desktop_entry::{self, Application};

/// How long the search may take.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The most files that are read, and how much of each.
const MAX_FILES: usize = 2000;
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// The most applications in a description.
const MAX_DESCRIBED: usize = 60;

/// The applications in the `applications` folders of data folders, by name. An earlier folder wins.
pub(crate) fn find(data_folders: &[PathBuf]) -> Vec<Application> {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut by_id: BTreeMap<String, Option<Application>> = BTreeMap::new();
    for folder in data_folders {
        let Ok(entries) = fs::read_dir(folder.join("applications")) else { continue };
        for entry in entries.flatten() {
            if Instant::now() >= deadline || by_id.len() >= MAX_FILES {
                break;
            }
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|it| it.strip_suffix(".desktop")) else {
                continue;
            };
            if !by_id.contains_key(id) {
                let text = read_start(&entry.path()).unwrap_or_default();
                by_id.insert(id.to_owned(), desktop_entry::parse(id, &text));
            }
        }
    }
    let mut applications: Vec<Application> = by_id.into_values().flatten().collect();
    applications.sort_by_key(|it| it.name.to_lowercase());
    applications
}

/// The start of a regular file.
fn read_start(path: &Path) -> Option<String> {
    // A pipe would block.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A sentence about installed applications for a description; empty if none is known.
pub(crate) fn described(applications: &[Application]) -> String {
    let mut names: Vec<&str> = applications.iter().map(|it| it.name.as_str()).collect();
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let more = match names.len().saturating_sub(MAX_DESCRIBED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(MAX_DESCRIBED);
    format!(" Installed applications: {}{more}.", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, id: &str, name: &str) {
        let applications = folder.join("applications");
        fs::create_dir_all(&applications).expect("a folder");
        let text = format!("[Desktop Entry]\nType=Application\nName={name}\nExec={id}\n");
        fs::write(applications.join(format!("{id}.desktop")), text).expect("it is written");
    }

    #[test]
    fn an_earlier_folder_wins_and_can_hide_an_application() {
        let (user, system) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        write(user.path(), "paint", "My Paint");
        write(system.path(), "paint", "Paint");
        write(system.path(), "write", "Writer");
        write(system.path(), "old", "Old");
        let hidden = "[Desktop Entry]\nType=Application\nName=Old\nHidden=true\n";
        fs::write(user.path().join("applications/old.desktop"), hidden).expect("it is written");
        let folders = [user.path().to_owned(), system.path().to_owned(), PathBuf::from("/absent")];
        let names: Vec<String> = find(&folders).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["My Paint", "Writer"]);
        assert_eq!(described(&find(&folders)), " Installed applications: My Paint, Writer.");
    }

    #[test]
    fn a_long_list_is_cut_and_an_empty_one_is_not_mentioned() {
        assert_eq!(described(&[]), "");
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..70 {
            write(folder.path(), &format!("app{number}"), &format!("App {number}"));
        }
        let text = described(&find(&[folder.path().to_owned()]));
        assert!(text.ends_with(" and 10 more."), "{text}");
    }
}
