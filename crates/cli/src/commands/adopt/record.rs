//! The record of adoptions: what was changed, and the texts before and after. Only the owner can read it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use switchboard::config::entry::server::sha256;
use switchboard::config::import::HostApp;
use switchboard::sources::atomic_file::{self, Privacy};
use switchboard::sources::text_file::{self, AllowedFiles, FileContent};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

const MANIFEST: &str = "manifest.json";
const VERSION: u64 = 1;

/// One change of one client's file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AdoptionRecord {
    /// Its number, which is part of the names of its backups.
    pub(super) number: u64,
    pub(super) client: HostApp,
    pub(super) file: PathBuf,
    /// When, in UTC.
    pub(super) at: String,
    pub(super) original: OriginalFile,
    /// The name of the entry in the client's file.
    pub(super) entry: String,
    pub(super) servers: Vec<ServerRecord>,
    pub(super) lists: Vec<ListRecord>,
}

/// The file before the adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OriginalFile {
    Absent,
    Empty,
    /// Its text is in the backup.
    Saved,
}

impl OriginalFile {
    pub(super) fn of(text: Option<&str>) -> OriginalFile {
        match text {
            None => OriginalFile::Absent,
            Some("") => OriginalFile::Empty,
            Some(_) => OriginalFile::Saved,
        }
    }

    fn id(self) -> &'static str {
        match self {
            OriginalFile::Absent => "absent",
            OriginalFile::Empty => "empty",
            OriginalFile::Saved => "saved",
        }
    }

    fn parse(id: &str) -> Option<OriginalFile> {
        let all = [OriginalFile::Absent, OriginalFile::Empty, OriginalFile::Saved];
        all.into_iter().find(|it| it.id() == id)
    }
}

/// A server that moved into Switchboard.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerRecord {
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// The hash of its entry as it was written.
    pub(super) hash: String,
    /// Did this adoption add it? Otherwise it was there.
    pub(super) is_added: bool,
}

/// A string that was added to a list of a settings file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListRecord {
    pub(super) file: PathBuf,
    /// The object that holds the list; empty for a top-level list.
    pub(super) object: String,
    pub(super) key: String,
    pub(super) text: String,
}

/// The hash of an entry, to see whether it was changed since.
pub(super) fn entry_hash(entry: &Map<String, Json>) -> String {
    sha256(Json::Object(entry.clone()).to_string().as_bytes())
}

/// The records of all adoptions, oldest first.
pub(super) struct Records<'i> {
    folder: PathBuf,
    invocation: &'i Invocation,
    /// The text of the manifest, to see whether another process changed it.
    text: String,
    pub(super) all: Vec<AdoptionRecord>,
}

impl<'i> Records<'i> {
    pub(super) fn load(invocation: &'i Invocation) -> Result<Records<'i>, Failure> {
        let folder = invocation.env.paths.adoptions();
        let path = folder.join(MANIFEST);
        let unusable = || {
            let shown = invocation.display_path(&path);
            let hint = format!("the backups are in {}", invocation.display_path(&folder));
            Failure::new(Exit::Configuration, &format!("{shown} cannot be used")).hint(&hint)
        };
        let (text, all) = match text_file::read_text(&path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Absent) => (String::new(), Vec::new()),
            Ok(FileContent::Text(text)) => {
                let json: Json =
                    serde_json::from_str(&text).map_err(|error| unusable().caused_by(error))?;
                let all = parse_all(&json).ok_or_else(unusable)?;
                (text, all)
            }
            Err(why) => {
                let mut failure = unusable();
                failure.causes.push(format!("the file {why}"));
                return Err(failure);
            }
        };
        Ok(Records { folder, invocation, text, all })
    }

    /// A number that no record or backup has.
    pub(super) fn next_number(&self) -> u64 {
        let in_folder = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let number_of = |name: String| name.split('-').next()?.parse::<u64>().ok();
        let backups =
            in_folder.filter_map(|it| number_of(it.file_name().to_string_lossy().into_owned()));
        self.all.iter().map(|record| record.number).chain(backups).max().unwrap_or(0) + 1
    }

    /// The path of the text before the adoption.
    pub(super) fn before_path(&self, record: &AdoptionRecord) -> PathBuf {
        self.backup(record, "before")
    }

    /// The path of the text after the adoption.
    fn after_path(&self, record: &AdoptionRecord) -> PathBuf {
        self.backup(record, "after")
    }

    /// The path of a changed text that `--undo --force` replaced.
    pub(super) fn replaced_path(&self, record: &AdoptionRecord) -> PathBuf {
        self.backup(record, "replaced")
    }

    fn backup(&self, record: &AdoptionRecord, suffix: &str) -> PathBuf {
        let name = record.file.file_name().map(|it| it.to_string_lossy().into_owned());
        let (number, client) = (record.number, record.client.id());
        self.folder.join(format!("{number}-{client}-{}.{suffix}", name.unwrap_or_default()))
    }

    /// Adds a record with its texts. They are on disk before the client's file is changed.
    pub(super) fn add(
        &mut self,
        record: AdoptionRecord,
        before: &str,
        after: &str,
    ) -> Result<(), Failure> {
        write_private(&self.before_path(&record), before)?;
        write_private(&self.after_path(&record), after)?;
        self.all.push(record);
        self.save()
    }

    /// Removes a record and its texts.
    pub(super) fn remove(&mut self, number: u64) -> Result<(), Failure> {
        let Some(index) = self.all.iter().position(|it| it.number == number) else {
            return Ok(());
        };
        let record = self.all.remove(index);
        self.save()?;
        for path in [self.before_path(&record), self.after_path(&record)] {
            let _already_gone = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// The text before the adoption; `None` if there was no file.
    pub(super) fn original_text(&self, record: &AdoptionRecord) -> Result<Option<String>, Failure> {
        match record.original {
            OriginalFile::Absent => Ok(None),
            OriginalFile::Empty => Ok(Some(String::new())),
            OriginalFile::Saved => self.read_backup(&self.before_path(record)).map(Some),
        }
    }

    /// The text after the adoption.
    pub(super) fn adopted_text(&self, record: &AdoptionRecord) -> Result<String, Failure> {
        self.read_backup(&self.after_path(record))
    }

    fn read_backup(&self, path: &Path) -> Result<String, Failure> {
        match text_file::read_text(path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Text(text)) => Ok(text),
            Ok(FileContent::Absent) => Err(self.missing_backup(path, "does not exist")),
            Err(why) => Err(self.missing_backup(path, &why.to_string())),
        }
    }

    fn missing_backup(&self, path: &Path, why: &str) -> Failure {
        let shown = self.invocation.display_path(path);
        Failure::new(Exit::Failure, &format!("the backup {shown} {why}; nothing was changed"))
            .hint("restore it, or edit the client's file by hand")
    }

    /// Writes the manifest, unless another process changed it since it was read.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let records: Vec<Json> = self.all.iter().map(AdoptionRecord::to_json).collect();
        let json = json!({"version": VERSION, "adoptions": records});
        let after = format!("{json:#}\n");
        let mut has_changed = false;
        atomic_file::change(&self.folder.join(MANIFEST), Privacy::Owner, |text| {
            has_changed = text != self.text;
            Ok(if has_changed { text.to_owned() } else { after.clone() })
        })?;
        if has_changed {
            let message = "another `swb adopt` is running; nothing more was changed";
            return Err(Failure::new(Exit::Conflict, message).hint("run swb adopt again"));
        }
        self.text = after;
        Ok(())
    }
}

/// Writes a file that only the owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    atomic_file::change(path, Privacy::Owner, |_| Ok(text.to_owned()))?;
    Ok(())
}

impl AdoptionRecord {
    fn to_json(&self) -> Json {
        let servers: Vec<Json> = self
            .servers
            .iter()
            .map(|it| json!({"name": it.name, "file": it.file, "hash": it.hash, "isAdded": it.is_added}))
            .collect();
        let lists: Vec<Json> = self
            .lists
            .iter()
            .map(|it| json!({"file": it.file, "object": it.object, "key": it.key, "text": it.text}))
            .collect();
        json!({
            "number": self.number,
            "client": self.client.id(),
            "file": self.file,
            "at": self.at,
            "original": self.original.id(),
            "entry": self.entry,
            "servers": servers,
            "lists": lists,
        })
    }
}

fn parse_all(json: &Json) -> Option<Vec<AdoptionRecord>> {
    if json.get("version")?.as_u64()? != VERSION {
        return None;
    }
    json.get("adoptions")?.as_array()?.iter().map(parse_record).collect()
}

fn parse_record(json: &Json) -> Option<AdoptionRecord> {
    let text = |json: &Json, key: &str| Some(json.get(key)?.as_str()?.to_owned());
    let server = |json: &Json| {
        Some(ServerRecord {
            name: text(json, "name")?,
            file: text(json, "file")?.into(),
            hash: text(json, "hash")?,
            is_added: json.get("isAdded")?.as_bool()?,
        })
    };
    let list = |json: &Json| {
        Some(ListRecord {
            file: text(json, "file")?.into(),
            object: text(json, "object")?,
            key: text(json, "key")?,
            text: text(json, "text")?,
        })
    };
    Some(AdoptionRecord {
        number: json.get("number")?.as_u64()?,
        client: HostApp::parse(&text(json, "client")?)?,
        file: text(json, "file")?.into(),
        at: text(json, "at")?,
        original: OriginalFile::parse(json.get("original")?.as_str()?)?,
        entry: text(json, "entry")?,
        servers: json.get("servers")?.as_array()?.iter().map(server).collect::<Option<_>>()?,
        lists: json.get("lists")?.as_array()?.iter().map(list).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = AdoptionRecord {
            number: 3,
            client: HostApp::Zed,
            file: "/h/settings.json".into(),
            at: "2026-01-02T03:04:05Z".to_owned(),
            original: OriginalFile::Saved,
            entry: "switchboard".to_owned(),
            servers: vec![ServerRecord {
                name: "a".to_owned(),
                file: "/h/own.json".into(),
                hash: entry_hash(&Map::new()),
                is_added: true,
            }],
            lists: vec![ListRecord {
                file: "/h/own.json".into(),
                object: "permissions".to_owned(),
                key: "allow".to_owned(),
                text: "mcp__a__b".to_owned(),
            }],
        };
        let json = json!({"version": 1, "adoptions": [record.to_json()]});
        assert_eq!(parse_all(&json), Some(vec![record]));
        assert_eq!(parse_all(&json!({"version": 2, "adoptions": []})), None);
    }
}
