//! Caches facts between runs, each with its time, in one JSON file per cache. A lost or damaged file only costs the
//! work of finding out again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::sources::atomic_file;
use crate::sources::atomic_file::{ChangeOutcome, Privacy};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The maximum number of entries in a file; the oldest are removed first.
const MAX_ENTRIES: usize = 1000;
/// The maximum number of files in a folder of whole files; the oldest are removed first.
const MAX_FILES: usize = 1000;
/// The maximum size of all files in such a folder.
const MAX_FOLDER_BYTES: u64 = 64 * 1024 * 1024;
/// How many writes may wait for the disk.
const QUEUE_CAPACITY: usize = 1024;

/// A cache file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtlCache {
    path: PathBuf,
    ttl: Duration,
}

/// A change to a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheEdit {
    /// Stores a value with the current time.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Stores a value; if the same value is stored already, its time stays.
    PutIfChanged {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Removes an entry.
    Remove {
        /// The key.
        key: String,
    },
}

/// Writes caches and state files on its own thread, in batches, so that callers never wait for the disk. Clones share
/// the thread.
#[derive(Debug, Clone)]
pub struct StateWriter(blocking::SyncSender<WriteCommand>);

#[derive(Debug)]
enum WriteCommand {
    Edit(TtlCache, CacheEdit),
    /// Replaces a whole file.
    WriteFile(PathBuf, String),
    /// Answered when everything before it is on disk.
    Flush(oneshot::Sender<()>),
}

impl StateWriter {
    /// Starts the thread, which ends when the last handle is dropped.
    pub fn start() -> io::Result<StateWriter> {
        let (commands, command_receiver) = blocking::sync_channel(QUEUE_CAPACITY);
        thread::Builder::new()
            .name("state-writer".to_owned())
            .spawn(move || run_writer(&command_receiver))?;
        Ok(StateWriter(commands))
    }

    /// Queues a change. If the queue is full, the change is dropped.
    pub fn edit(&self, cache: &TtlCache, edit: CacheEdit) {
        let _no_room = self.0.try_send(WriteCommand::Edit(cache.clone(), edit));
    }

    /// Queues a whole file, in a folder that holds only such files. If the queue is full, the write is dropped.
    pub fn write_file(&self, path: PathBuf, text: String) {
        let _no_room = self.0.try_send(WriteCommand::WriteFile(path, text));
    }

    /// Waits until all changes so far are on disk.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let commands = self.0.clone();
        let sent =
            tokio::task::spawn_blocking(move || commands.send(WriteCommand::Flush(done)).is_ok());
        if sent.await.unwrap_or(false) {
            let _writer_gone = flushed.await;
        }
    }
}

fn run_writer(commands: &blocking::Receiver<WriteCommand>) {
    while let Ok(first) = commands.recv() {
        let mut changes: BTreeMap<PathBuf, (TtlCache, Vec<CacheEdit>)> = BTreeMap::new();
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut flush_replies = Vec::new();
        for command in std::iter::once(first).chain(commands.try_iter().take(QUEUE_CAPACITY)) {
            match command {
                WriteCommand::Edit(cache, edit) => {
                    let entry = changes.entry(cache.path.clone());
                    entry.or_insert_with(|| (cache, Vec::new())).1.push(edit);
                }
                WriteCommand::WriteFile(path, text) => {
                    files.insert(path, text);
                }
                WriteCommand::Flush(done) => flush_replies.push(done),
            }
        }
        for (path, text) in files {
            write_file(&path, text);
        }
        for (cache, edits) in changes.into_values() {
            cache.apply(&edits);
        }
        for done in flush_replies {
            let _receiver_dropped = done.send(());
        }
    }
}

fn write_file(path: &Path, text: String) {
    let outcome = atomic_file::change(path, Privacy::Owner, |_| Ok(text));
    if let (Ok(ChangeOutcome::Written), Some(folder)) = (outcome, path.parent()) {
        prune_oldest(folder, MAX_FILES, MAX_FOLDER_BYTES);
    }
}

/// Removes the oldest files beyond `max_files`, and those beyond `max_bytes` in total.
fn prune_oldest(folder: &Path, max_files: usize, max_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let read = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok();
        let modified = metadata.as_ref().and_then(|it| it.modified().ok());
        (modified, entry.path(), metadata.map_or(0, |it| it.len()))
    };
    let mut files: Vec<_> = entries.flatten().map(read).collect();
    files.sort();
    let mut total: u64 = 0;
    for (index, (_, path, bytes)) in files.into_iter().rev().enumerate() {
        total = total.saturating_add(bytes);
        if index >= max_files || total > max_bytes {
            let _already_gone = fs::remove_file(path);
        }
    }
}

/// A cached value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CacheEntry {
    value: String,
    /// Seconds since 1970.
    at: u64,
}

type CacheEntries = BTreeMap<String, CacheEntry>;

impl TtlCache {
    /// A cache whose entries expire after `ttl`.
    pub fn new(path: &Path, ttl: Duration) -> TtlCache {
        TtlCache { path: path.to_owned(), ttl }
    }

    /// The value of a key, unless it has expired. Reads the file; blocks.
    pub fn get(&self, key: &str) -> Option<String> {
        self.entries().remove(key).filter(|entry| self.is_fresh(entry)).map(|entry| entry.value)
    }

    /// Applies several changes in one write. Blocks. A failed write is ignored: the value is found out again next
    /// time.
    pub fn apply(&self, edits: &[CacheEdit]) {
        let current = self.entries();
        if !edits.iter().any(|edit| self.is_change(&current, edit)) {
            return;
        }
        self.rewrite(|entries| {
            for edit in edits {
                match edit {
                    CacheEdit::Put { key, value } | CacheEdit::PutIfChanged { key, value } => {
                        entries.insert(key.clone(), CacheEntry { value: value.clone(), at: now() });
                    }
                    CacheEdit::Remove { key } => {
                        entries.remove(key);
                    }
                }
            }
            while entries.len() > MAX_ENTRIES {
                let oldest = entries.iter().min_by_key(|(_, entry)| entry.at);
                let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
                entries.remove(&oldest);
            }
        });
    }

    /// Removes an entry. Blocks.
    pub fn remove(&self, key: &str) {
        self.apply(&[CacheEdit::Remove { key: key.to_owned() }]);
    }

    fn is_change(&self, current: &CacheEntries, edit: &CacheEdit) -> bool {
        match edit {
            CacheEdit::Put { .. } => true,
            CacheEdit::PutIfChanged { key, value } => {
                let entry = current.get(key).filter(|entry| self.is_fresh(entry));
                entry.is_none_or(|entry| entry.value != *value)
            }
            CacheEdit::Remove { key } => current.contains_key(key),
        }
    }

    fn is_fresh(&self, entry: &CacheEntry) -> bool {
        now().checked_sub(entry.at).is_some_and(|age| age < self.ttl.as_secs())
    }

    fn entries(&self) -> CacheEntries {
        match text_file::read_text(&self.path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
            Ok(FileContent::Absent) | Err(_) => CacheEntries::new(),
        }
    }

    fn rewrite(&self, edit: impl FnOnce(&mut CacheEntries)) {
        let _found_out_again = atomic_file::change(&self.path, Privacy::Owner, |text| {
            let mut entries: CacheEntries = serde_json::from_str(text).unwrap_or_default();
            edit(&mut entries);
            Ok(serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n")
        });
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn put(cache: &TtlCache, key: &str, value: &str) {
        cache.apply(&[CacheEdit::Put { key: key.to_owned(), value: value.to_owned() }]);
    }

    #[test]
    fn a_value_stays_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let cache = TtlCache::new(&folder.path().join("state/eras.json"), HOUR);
        assert_eq!(cache.get("a"), None);
        put(&cache, "a", "legacy");
        put(&cache, "b", "modern");
        assert_eq!(
            (cache.get("a").as_deref(), cache.get("b").as_deref()),
            (Some("legacy"), Some("modern"))
        );
        cache.remove("a");
        assert_eq!((cache.get("a"), cache.get("b").as_deref()), (None, Some("modern")));
    }

    #[test]
    fn expired_and_future_entries_are_ignored() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        let text = format!(
            r#"{{"old": {{"value": "v", "at": 5}}, "ahead": {{"value": "v", "at": {}}}}}"#,
            now() + 9999
        );
        std::fs::write(&path, text).expect("written");
        let cache = TtlCache::new(&path, HOUR);
        assert_eq!((cache.get("old"), cache.get("ahead")), (None, None));
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        std::fs::write(&path, "{nonsense").expect("written");
        let cache = TtlCache::new(&path, HOUR);
        assert_eq!(cache.get("a"), None);
        put(&cache, "a", "v");
        assert_eq!(cache.get("a").as_deref(), Some("v"));
    }

    #[test]
    fn the_oldest_files_are_pruned() {
        let folder = tempfile::tempdir().expect("a temp folder");
        for number in 0..5_u64 {
            let path = folder.path().join(format!("{}.json", 9 - number));
            fs::write(&path, "{}").expect("a file");
            let file = fs::File::options().append(true).open(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1000 + number)).expect("a time");
        }
        prune_oldest(folder.path(), 2, u64::MAX);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .map(|it| it.file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["5.json", "6.json"]);
    }

    #[test]
    fn the_oldest_entries_are_evicted() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        let start = now() - 2000;
        let entries: CacheEntries = (0..MAX_ENTRIES as u64)
            .map(|number| {
                (format!("k{number:04}"), CacheEntry { value: "v".into(), at: start + number })
            })
            .collect();
        std::fs::write(&path, serde_json::to_string(&entries).expect("JSON")).expect("written");
        let cache = TtlCache::new(&path, HOUR);
        put(&cache, "new", "v");
        assert_eq!((cache.get("k0000"), cache.get("k0001").is_some()), (None, true));
    }
}
