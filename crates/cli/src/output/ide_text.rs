//! IDEs as text and as JSON: the list of `/ide`, and the section of `swb doctor`.

use serde_json::{Value as Json, json};
use switchboard::ServerView;
use switchboard::config::display::printable;
use switchboard::ide::{FoundIdes, FoundLock, IdeChoice, IdeLock, IdeTransport, LockVerdict};

use crate::env::ProcessEnv;
use crate::output::style::{TextStyle, paint};

/// A warning line.
pub fn warning(text: &str) -> String {
    format!("{} {text}\n", paint(TextStyle::Warning, "warning:"))
}

/// An IDE by its name and port.
pub fn name(lock: &IdeLock) -> String {
    format!("{} (port {})", printable(&lock.name), lock.port)
}

fn folders(lock: &IdeLock) -> String {
    match lock.workspace_folders.is_empty() {
        true => "no folder".to_owned(),
        false => {
            let folders: Vec<String> =
                lock.workspace_folders.iter().map(|it| printable(it)).collect();
            folders.join(", ")
        }
    }
}

/// The state of the connected IDE.
pub fn status(view: &ServerView) -> String {
    match view.status.cause() {
        None => format!("The IDE is {}.", view.status.label()),
        Some(cause) => {
            let evidence: Vec<String> =
                cause.evidence.iter().map(|it| format!("\n  {}", printable(it.text()))).collect();
            format!(
                "The IDE is not connected: {}{}\nhint: {}",
                printable(&cause.to_string()),
                evidence.concat(),
                printable(&cause.remedy(&view.name))
            )
        }
    }
}

/// Why no IDE is connected although the user asked for one.
pub fn not_chosen(env: &ProcessEnv, found: &FoundIdes, choice: &IdeChoice<'_>) -> String {
    match choice {
        IdeChoice::Chosen(_) => String::new(),
        IdeChoice::NoneFound => {
            let looked_into: Vec<String> =
                found.scan.folders.iter().map(|it| env.display_path(&it.path)).collect();
            warning(&format!(
                "no IDE runs; lock files were looked for in {}; `swb doctor ide` shows each",
                looked_into.join(", ")
            ))
        }
        IdeChoice::NoneMatches => warning(&format!(
            "no IDE has this folder open: {}\n{}`/ide NUMBER` connects one of them",
            env.display_path(&found.scan.working_folder),
            compared(found)
        )),
        IdeChoice::Several(locks) => {
            let names: Vec<String> = locks.iter().map(|it| name(it)).collect();
            warning(&format!(
                "several IDEs have this folder open: {}; `/ide NUMBER` connects one, SWB_IDE_PORT selects one",
                names.join(", ")
            ))
        }
        IdeChoice::NothingAtPort(port) => warning(&format!(
            "no IDE listens at the port {port} of SWB_IDE_PORT; `swb doctor ide` shows the lock files"
        )),
    }
}

/// The folders that the working folder was compared with, a line for each IDE.
fn compared(found: &FoundIdes) -> String {
    let line = |lock: &&IdeLock| format!("  {}: {}\n", name(lock), folders(lock));
    found.running().iter().map(line).collect()
}

/// The list of `/ide`.
pub fn list(env: &ProcessEnv, found: &FoundIdes, connected: Option<&ServerView>) -> String {
    let mut text = match connected {
        Some(view) => format!("{}\n", status(view)),
        None => "No IDE is connected.\n".to_owned(),
    };
    let running = found.running();
    if running.is_empty() {
        let looked_into: Vec<String> =
            found.scan.folders.iter().map(|it| env.display_path(&it.path)).collect();
        text.push_str(&format!(
            "No IDE runs; lock files were looked for in {}.",
            looked_into.join(", ")
        ));
        return text;
    }
    text.push_str(&format!(
        "IDEs that run, compared with {}:\n",
        env.display_path(&found.scan.working_folder)
    ));
    for (number, lock) in (1..).zip(&running) {
        let matches = if found.is_match(lock) { "" } else { ", other folders open" };
        text.push_str(&format!("  {number}  {}{matches}: {}\n", name(lock), folders(lock)));
    }
    text.push_str("`/ide NUMBER` connects one, `/ide off` disconnects.");
    text
}

/// The section of `swb doctor`.
pub fn section(env: &ProcessEnv, found: &FoundIdes) -> String {
    let mut text = "IDEs\n".to_owned();
    for folder in &found.scan.folders {
        let path = env.display_path(&folder.path);
        let locks: Vec<(usize, &FoundLock)> = found
            .scan
            .locks
            .iter()
            .enumerate()
            .filter(|(_, it)| it.path.parent() == Some(&folder.path))
            .collect();
        match (&folder.error, locks.is_empty()) {
            (Some(error), _) => text.push_str(&format!("  {path}: {error}\n")),
            (None, true) => text.push_str(&format!("  {path}: no lock files\n")),
            (None, false) => text.push_str(&format!("  {path}\n")),
        }
        for (at, lock) in locks {
            text.push_str(&format!("    {}\n", lock_text(env, found, (at, lock))));
        }
    }
    text
}

fn lock_text(env: &ProcessEnv, found: &FoundIdes, (at, lock): (usize, &FoundLock)) -> String {
    let file = lock.path.file_name().map(|it| it.to_string_lossy().into_owned());
    let file = printable(&file.unwrap_or_default());
    let verdict = verdict_text(env, found, (at, lock));
    match &lock.lock {
        Ok(ide) => {
            let transport = match ide.transport {
                IdeTransport::WebSocket => "WebSocket",
                IdeTransport::Sse => "SSE",
            };
            let pid = ide.pid.map(|it| format!(", process {it}")).unwrap_or_default();
            format!("{file}  {}, {transport}{pid}: {verdict}", printable(&ide.name))
        }
        Err(_) => format!("{file}  {verdict}"),
    }
}

fn verdict_text(env: &ProcessEnv, found: &FoundIdes, (at, lock): (usize, &FoundLock)) -> String {
    let folders = lock.lock.as_ref().map(folders).unwrap_or_default();
    match &found.verdicts[at] {
        LockVerdict::Valid => format!("can be connected (open: {folders})"),
        LockVerdict::OtherWorkspace => format!(
            "has other folders open than {} (open: {folders})",
            env.display_path(&found.scan.working_folder)
        ),
        LockVerdict::Duplicate { of } => format!(
            "skipped: the same IDE as in {}",
            found.scan.locks.get(*of).map_or_else(String::new, |it| env.display_path(&it.path))
        ),
        LockVerdict::Dead => {
            "skipped: the IDE has ended; its process is gone and its port is closed".to_owned()
        }
        LockVerdict::NotListening => {
            format!("skipped: nothing listens at its port on {}", printable(&found.host))
        }
        LockVerdict::Invalid(error) => format!("skipped: {error}"),
    }
}

/// The section as JSON.
pub fn section_json(found: &FoundIdes) -> Json {
    let lock = |(found, verdict): (&FoundLock, &LockVerdict)| {
        let mut json = json!({"file": found.path, "verdict": verdict_id(verdict)});
        match &found.lock {
            Ok(lock) => {
                json["name"] = json!(lock.name);
                json["port"] = json!(lock.port);
                json["pid"] = json!(lock.pid);
                json["workspaceFolders"] = json!(lock.workspace_folders);
            }
            Err(error) => json["reason"] = json!(error.to_string()),
        }
        json
    };
    let locks: Vec<Json> = found.scan.locks.iter().zip(&found.verdicts).map(lock).collect();
    let folders: Vec<Json> = found.scan.folders.iter().map(|it| json!(it.path)).collect();
    json!({"workingFolder": found.scan.working_folder, "lockFolders": folders, "locks": locks})
}

fn verdict_id(verdict: &LockVerdict) -> &'static str {
    match verdict {
        LockVerdict::Valid => "valid",
        LockVerdict::OtherWorkspace => "other-workspace",
        LockVerdict::Duplicate { .. } => "duplicate",
        LockVerdict::Dead => "dead",
        LockVerdict::NotListening => "not-listening",
        LockVerdict::Invalid(_) => "invalid",
    }
}
