//! Small things that are remembered between runs, each with the time it was learnt: one JSON file a kind.
//! A file that is lost or damaged costs nothing but a detour.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::read::{self, Content, Kinds};
use crate::store::{self, Privacy};

/// The most that one file holds; the oldest go first.
const MOST: usize = 1000;

/// A file of remembered things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    path: PathBuf,
    lasts: Duration,
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
        let fact = self.facts().remove(key)?;
        let age = now().checked_sub(fact.at)?;
        (age < self.lasts.as_secs()).then_some(fact.value)
    }

    /// Remembers something. Blocks; a failure costs a detour next time and nothing else.
    pub fn put(&self, key: &str, value: &str) {
        self.change(|facts| {
            facts.insert(key.to_owned(), Fact { value: value.to_owned(), at: now() });
            while facts.len() > MOST {
                let oldest = facts.iter().min_by_key(|(_, fact)| fact.at);
                let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
                facts.remove(&oldest);
            }
        });
    }

    /// Forgets something. Blocks.
    pub fn forget(&self, key: &str) {
        if self.facts().contains_key(key) {
            self.change(|facts| {
                facts.remove(key);
            });
        }
    }

    fn facts(&self) -> Facts {
        match read::text(&self.path, Kinds::RegularOnly) {
            Ok(Content::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
            Ok(Content::Absent) | Err(_) => Facts::new(),
        }
    }

    fn change(&self, edit: impl FnOnce(&mut Facts)) {
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

    #[test]
    fn what_was_put_is_there_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let memo = Memo::new(&folder.path().join("state/eras.json"), HOUR);
        assert_eq!(memo.get("a"), None);
        memo.put("a", "legacy");
        memo.put("b", "modern");
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
        memo.put("a", "v");
        assert_eq!(memo.get("a").as_deref(), Some("v"));
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
        memo.put("new", "v");
        assert_eq!((memo.get("k0000"), memo.get("k0001").is_some()), (None, true));
    }
}
