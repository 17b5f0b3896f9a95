//! Adoption of a client's file: the servers leave, one entry that runs Switchboard stays, and the merge of an
//! unchanged file restores it.

use std::path::Path;

use switchboard_config::adopt::{self, FileChange, PoolEntry, ServerRemoval};
use switchboard_config::import::{
    self, FileScope, HostApp, HostAppFile, ImportNote, ImportedServer, SkipReason,
};

/// - A file that can be imported can be adopted or is refused; nothing panics.
/// - The adopted file has none of the servers that left, and the entry.
/// - A merge of the adopted file with its original restores the original.
pub(super) fn check(text: &str) {
    let project = Path::new("project");
    for app in HostApp::ALL {
        adopt::masked_text(app, text);
        let file = HostAppFile { app, path: "file".into(), scope: FileScope::User };
        let Ok(before) = import::read(&file, text, project) else { continue };
        let removal =
            |it: &ImportedServer| ServerRemoval { name: it.name.clone(), scope: it.scope };
        let removals: Vec<ServerRemoval> = before.servers.iter().map(removal).collect();
        let entry = PoolEntry::new("fuzz-entry", "swb");
        let change = FileChange { file: &file, project, removals: &removals, entry: Some(&entry) };
        let Ok(adopted) = adopt::rewrite(&change, text) else { continue };
        let after = import::read(&file, &adopted, project).expect("the adopted file is valid");
        assert!(after.servers.is_empty(), "{app:?}: a server stayed:\n{adopted}");
        let own = ImportNote::ServerSkipped {
            server: entry.name.clone(),
            reason: SkipReason::RunsSwitchboard,
        };
        assert!(after.notes.contains(&own), "{app:?}: the entry is missing:\n{adopted}");
        let restored = adopt::merge_lines(&adopted, text, &adopted);
        assert_eq!(restored.as_deref(), Some(text), "{app:?}: the merge changed something");
    }
}
