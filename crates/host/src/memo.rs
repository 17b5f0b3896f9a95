//! Small things that are remembered between runs, each with the time it was learnt: one JSON file a kind.
//! A file that is lost or damaged costs nothing but a detour.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::read::{self, Content, Kinds};
use crate::store::{self, Outcome, Privacy};

/// The most that one file holds; the oldest go first.
const MOST: usize = 1000;
/// The most files that a folder of whole files holds; the oldest go first.
const MOST_FILES: usize = 1000;
/// How many changes may wait for the disk.
const WAITING: usize = 1024;

/// A file of remembered things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    path: PathBuf,
    lasts: Duration,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Remembers something from now on.
    Put {
        /// Under what.
        key: String,
        /// What.
        value: String,
    },
    /// Remembers something; where that is remembered already, its time runs on.
    Learn {
        /// Under what.
        key: String,
        /// What.
        value: String,
    },
    /// Forgets something.
    Forget {
        /// What it is under.
        key: String,
    },
}

/// Writes memories on a thread of its own, many in one go: nobody waits for the disk. Clones share the thread.
#[derive(Debug, Clone)]
pub struct Scribe(blocking::SyncSender<Order>);

#[derive(Debug)]
enum Order {
    Change(Memo, Edit),
    /// A whole file of its own.
    Keep(PathBuf, String),
    /// Everything before this is on disk when the answer comes.
    Settled(oneshot::Sender<()>),
}

impl Scribe {
    /// Starts the thread, which ends when the last handle is dropped.
    pub fn start() -> io::Result<Scribe> {
        let (orders, taken) = blocking::sync_channel(WAITING);
        thread::Builder::new().name("memories".to_owned()).spawn(move || write(&taken))?;
        Ok(Scribe(orders))
    }

    /// Has a change made soon. What finds no room costs a detour next time.
    pub fn change(&self, memo: &Memo, edit: Edit) {
        let _no_room = self.0.try_send(Order::Change(memo.clone(), edit));
    }

    /// Has a whole file written soon, in a folder that holds nothing else.
    pub fn keep(&self, path: PathBuf, text: String) {
        let _no_room = self.0.try_send(Order::Keep(path, text));
    }

    /// Comes back when every change so far is on disk.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        let orders = self.0.clone();
        let asked = tokio::task::spawn_blocking(move || orders.send(Order::Settled(done)).is_ok());
        if asked.await.unwrap_or(false) {
            let _writer_gone = settled.await;
        }
    }
}

fn write(orders: &blocking::Receiver<Order>) {
    while let Ok(first) = orders.recv() {
        let mut changes: BTreeMap<PathBuf, (Memo, Vec<Edit>)> = BTreeMap::new();
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut waiting = Vec::new();
        for order in std::iter::once(first).chain(orders.try_iter().take(WAITING)) {
            match order {
                Order::Change(memo, edit) => {
                    let place = changes.entry(memo.path.clone());
                    place.or_insert_with(|| (memo, Vec::new())).1.push(edit);
                }
                Order::Keep(path, text) => {
                    files.insert(path, text);
                }
                Order::Settled(done) => waiting.push(done),
            }
        }
        for (path, text) in files {
            keep(&path, text);
        }
        for (memo, edits) in changes.into_values() {
            memo.change(&edits);
        }
        for done in waiting {
            let _nobody_waits = done.send(());
        }
    }
}

fn keep(path: &Path, text: String) {
    let outcome = store::change(path, Privacy::Owner, |_| Ok(text));
    if let (Ok(Outcome::Written), Some(folder)) = (outcome, path.parent()) {
        make_room(folder, MOST_FILES);
    }
}

/// Removes the oldest files where there are too many.
fn make_room(folder: &Path, most: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let when = |entry: &fs::DirEntry| entry.metadata().and_then(|it| it.modified()).ok();
    let mut files: Vec<_> = entries.flatten().map(|it| (when(&it), it.path())).collect();
    files.sort();
    let surplus = files.len().saturating_sub(most);
    for (_, path) in files.into_iter().take(surplus) {
        let _already_gone = fs::remove_file(path);
    }
}

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fact {
    value: String,
    /// Seconds since 1970.
    at: u64,
}

type Facts = BTreeMap<String, Fact>;

impl Memo {
    /// A file whose facts hold for so long.
    pub fn new(path: &Path, lasts: Duration) -> Memo {
        Memo { path: path.to_owned(), lasts }
    }

    /// What is remembered under a key, unless that was too long ago. Reads the file; blocks.
    pub fn get(&self, key: &str) -> Option<String> {
        self.facts().remove(key).filter(|fact| self.holds(fact)).map(|fact| fact.value)
    }

    /// Makes many changes in one. Blocks; a failure costs a detour next time and nothing else.
    pub fn change(&self, edits: &[Edit]) {
        let known = self.facts();
        if !edits.iter().any(|edit| self.is_news(&known, edit)) {
            return;
        }
        self.rewrite(|facts| {
            for edit in edits {
                match edit {
                    Edit::Put { key, value } | Edit::Learn { key, value } => {
                        facts.insert(key.clone(), Fact { value: value.clone(), at: now() });
                    }
                    Edit::Forget { key } => {
                        facts.remove(key);
                    }
                }
            }
            while facts.len() > MOST {
                let oldest = facts.iter().min_by_key(|(_, fact)| fact.at);
                let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
                facts.remove(&oldest);
            }
        });
    }

    /// Forgets something. Blocks.
    pub fn forget(&self, key: &str) {
        self.change(&[Edit::Forget { key: key.to_owned() }]);
    }

    fn is_news(&self, known: &Facts, edit: &Edit) -> bool {
        match edit {
            Edit::Put { .. } => true,
            Edit::Learn { key, value } => {
                let fact = known.get(key).filter(|fact| self.holds(fact));
                fact.is_none_or(|fact| fact.value != *value)
            }
            Edit::Forget { key } => known.contains_key(key),
        }
    }

    fn holds(&self, fact: &Fact) -> bool {
        now().checked_sub(fact.at).is_some_and(|age| age < self.lasts.as_secs())
    }

    fn facts(&self) -> Facts {
        match read::text(&self.path, Kinds::RegularOnly) {
            Ok(Content::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
            Ok(Content::Absent) | Err(_) => Facts::new(),
        }
    }

    fn rewrite(&self, edit: impl FnOnce(&mut Facts)) {
        let _costs_a_detour = store::change(&self.path, Privacy::Owner, |text| {
            let mut facts: Facts = serde_json::from_str(text).unwrap_or_default();
            edit(&mut facts);
            Ok(serde_json::to_string_pretty(&facts).unwrap_or_default() + "\n")
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

    fn put(memo: &Memo, key: &str, value: &str) {
        memo.change(&[Edit::Put { key: key.to_owned(), value: value.to_owned() }]);
    }

    #[test]
    fn what_was_put_is_there_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let memo = Memo::new(&folder.path().join("state/eras.json"), HOUR);
        assert_eq!(memo.get("a"), None);
        put(&memo, "a", "legacy");
        put(&memo, "b", "modern");
        assert_eq!(
            (memo.get("a").as_deref(), memo.get("b").as_deref()),
            (Some("legacy"), Some("modern"))
        );
        memo.forget("a");
        assert_eq!((memo.get("a"), memo.get("b").as_deref()), (None, Some("modern")));
    }

    #[test]
    fn what_is_too_old_or_from_the_future_does_not_count() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        let text = format!(
            r#"{{"old": {{"value": "v", "at": 5}}, "ahead": {{"value": "v", "at": {}}}}}"#,
            now() + 9999
        );
        std::fs::write(&path, text).expect("written");
        let memo = Memo::new(&path, HOUR);
        assert_eq!((memo.get("old"), memo.get("ahead")), (None, None));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        std::fs::write(&path, "{nonsense").expect("written");
        let memo = Memo::new(&path, HOUR);
        assert_eq!(memo.get("a"), None);
        put(&memo, "a", "v");
        assert_eq!(memo.get("a").as_deref(), Some("v"));
    }

    #[test]
    fn of_too_many_files_the_oldest_go() {
        let folder = tempfile::tempdir().expect("a temp folder");
        for number in 0..5_u64 {
            let path = folder.path().join(format!("{}.json", 9 - number));
            fs::write(&path, "{}").expect("a file");
            let file = fs::File::options().append(true).open(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1000 + number)).expect("a time");
        }
        make_room(folder.path(), 2);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .map(|it| it.file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["5.json", "6.json"]);
    }

    #[test]
    fn the_oldest_make_room() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("x.json");
        let start = now() - 2000;
        let facts: Facts = (0..MOST as u64)
            .map(|number| (format!("k{number:04}"), Fact { value: "v".into(), at: start + number }))
            .collect();
        std::fs::write(&path, serde_json::to_string(&facts).expect("JSON")).expect("written");
        let memo = Memo::new(&path, HOUR);
        put(&memo, "new", "v");
        assert_eq!((memo.get("k0000"), memo.get("k0001").is_some()), (None, true));
    }
}
