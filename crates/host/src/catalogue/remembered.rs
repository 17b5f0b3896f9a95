//! What is remembered of a server: its lists and instructions at its last connection, stored for use before the next one.
//! One file for each definition of a server; a changed definition has another file. What is read passes the same checks
//! as a response of the server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_config::entry::server::Fingerprint;

use crate::catalogue::completion_cache;
use crate::catalogue::fetch;
use crate::catalogue::lists::{Catalogue, ListIssueKind, ListKind};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The maximum size of a stored catalogue.
pub const MAX_CATALOGUE_BYTES: usize = 2 * 1024 * 1024;
/// The maximum length of instructions. A client has cut them at this length when it got them.
const MAX_INSTRUCTIONS_CHARS: usize = 2100;
/// The format of the file. A file of another format is ignored.
const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct StoredCatalogue<'a> {
    format: u32,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(borrow)]
    lists: BTreeMap<&'a str, &'a RawValue>,
}

/// A server as it was at its last connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RememberedServer {
    /// Its lists.
    pub catalogue: Arc<Catalogue>,
    /// Its instructions.
    pub instructions: Option<String>,
}

/// The text of the file of a catalogue; `None` where a list could not be fetched, so that the old file stays. A
/// catalogue that is too large is replaced by one that counts as unknown.
pub(crate) fn to_json(catalogue: &Catalogue, instructions: Option<&str>) -> Option<String> {
    if catalogue.issues().any(|issue| matches!(issue.kind, ListIssueKind::Failed(_))) {
        return None;
    }
    let instructions = serde_json::to_string(&instructions).ok()?;
    let mut text = format!("{{\"format\":{FORMAT},\"instructions\":{instructions},\"lists\":{{");
    for (index, list) in ListKind::ALL.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&format!("\"{}\":[", list.id()));
        for (index, item) in catalogue.items(list).iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(std::str::from_utf8(item.raw.as_bytes()).ok()?);
            if text.len() > MAX_CATALOGUE_BYTES {
                return Some("{}\n".to_owned());
            }
        }
        text.push(']');
    }
    text.push_str("}}\n");
    Some(text)
}

/// The server in a file; `None` where the text is not one.
fn parse(text: &str) -> Option<RememberedServer> {
    let stored: StoredCatalogue<'_> = serde_json::from_str(text).ok()?;
    if stored.format != FORMAT {
        return None;
    }
    let listed = ListKind::ALL.into_iter().filter_map(|list| {
        let items = stored.lists.get(list.id())?;
        Some(fetch::parse_items(list, items).map(|listed| (list, listed)))
    });
    let lists: Vec<_> = listed.collect::<Option<_>>()?;
    let instructions = stored.instructions;
    Some(RememberedServer {
        catalogue: Arc::new(Catalogue::default().updated_with(lists)),
        instructions: instructions.map(|it| it.chars().take(MAX_INSTRUCTIONS_CHARS).collect()),
    })
}

impl RememberedServer {
    /// Loads what is remembered of a definition; `None` where there is nothing. Reads a file; blocks.
    pub fn load(
        folder: &Path,
        server: &str,
        fingerprint: &Fingerprint,
    ) -> Option<RememberedServer> {
        let path = catalogue_path(folder, server, fingerprint);
        match text_file::read_text(&path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Text(text)) if text.len() <= 2 * MAX_CATALOGUE_BYTES => parse(&text),
            Ok(FileContent::Text(_) | FileContent::Absent) | Err(_) => None,
        }
    }
}

/// The file of a definition.
pub(crate) fn catalogue_path(folder: &Path, server: &str, fingerprint: &Fingerprint) -> PathBuf {
    completion_cache::cache_path(folder, server, fingerprint)
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::Payload;

    use super::*;
    use crate::catalogue::lists::{FetchedList, ListIssue, ListItem};

    fn catalogue(tools: &[&str]) -> Catalogue {
        let item = |raw: &&str| {
            let raw = Payload::from_json((*raw).to_owned().into());
            let name = raw.decode::<serde_json::Value>().expect("JSON")["name"].clone();
            ListItem { name: name.as_str().expect("a name").to_owned(), raw }
        };
        let items = tools.iter().map(item).collect();
        let listed = FetchedList { items, ..FetchedList::default() };
        Catalogue::default().updated_with(vec![(ListKind::Tools, listed)])
    }

    #[test]
    fn a_catalogue_is_remembered_byte_for_byte() {
        let known = catalogue(&[r#"{"name": "a",  "x": 1.0}"#, r#"{"name":"b\u0007"}"#]);
        let text = to_json(&known, Some("say \"please\"")).expect("it is complete");
        let RememberedServer { catalogue, instructions } = parse(&text).expect("it is valid");
        assert_eq!(catalogue.items(ListKind::Tools), known.items(ListKind::Tools));
        assert!(catalogue.items(ListKind::Prompts).is_empty());
        assert_eq!(instructions.as_deref(), Some("say \"please\""));
    }

    #[test]
    fn a_file_is_checked_like_a_response() {
        let text = r#"{"format":1,"lists":{"tools":[{"name":"a"},{"name":"a"},7,{"x":1}]}}"#;
        let remembered = parse(text).expect("it is valid");
        assert_eq!(remembered.catalogue.items(ListKind::Tools).len(), 1);
        for invalid in [
            "",
            "{}",
            "[]",
            r#"{"format":2,"lists":{}}"#,
            r#"{"format":1,"lists":{"tools":{}}}"#,
            r#"{"format":1,"lists":[]}"#,
        ] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_catalogue_that_is_too_large_is_unknown_and_an_incomplete_one_is_not_stored() {
        let big = format!(r#"{{"name":"a","x":"{}"}}"#, "x".repeat(MAX_CATALOGUE_BYTES));
        let text = to_json(&catalogue(&[&big]), None).expect("the old file is replaced");
        assert_eq!((text.len(), parse(&text)), (3, None));
        let kind = ListIssueKind::Failed("no response".to_owned());
        let issues = vec![ListIssue { list: ListKind::Tools, kind }];
        let failed = FetchedList { issues, ..FetchedList::default() };
        let incomplete = Catalogue::default().updated_with(vec![(ListKind::Tools, failed)]);
        assert_eq!(to_json(&incomplete, None), None);
    }
}
