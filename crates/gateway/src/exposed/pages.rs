//! A list as encoded pages, built once for all clients of an era.

use std::sync::Arc;

use bytes::Bytes;
use switchboard::catalogue::ListKind;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;

/// The largest number of entries in a page.
const PAGE_SIZE: usize = 1000;

/// The entries of a list, in order.
pub(crate) type ListEntries = Vec<Payload>;

/// The pages of one list. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ListPages {
    entries: Arc<ListEntries>,
    legacy: Arc<[Payload]>,
    modern: Arc<[Payload]>,
    revision: u64,
}

impl ListPages {
    pub(crate) fn new(list: ListKind, entries: ListEntries, revision: u64) -> ListPages {
        let pages = |era| -> Arc<[Payload]> {
            let chunks: Vec<&[Payload]> = match entries.is_empty() {
                true => vec![&[]],
                false => entries.chunks(PAGE_SIZE).collect(),
            };
            let last = chunks.len() - 1;
            let page = |(at, chunk): (usize, &&[Payload])| {
                let next = (at < last).then(|| cursor(revision, at + 1));
                page(list, chunk, next, era)
            };
            chunks.iter().enumerate().map(page).collect()
        };
        let (legacy, modern) = (pages(Era::Legacy), pages(Era::Modern));
        ListPages { entries: Arc::new(entries), legacy, modern, revision }
    }

    /// Increases with each change of the list.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Does the list have exactly these entries?
    pub(crate) fn has_entries(&self, entries: &ListEntries) -> bool {
        *self.entries == *entries
    }

    /// The page of a cursor, or the first page.
    pub(crate) fn page(&self, era: Era, requested: Option<&str>) -> Result<Payload, RpcError> {
        let pages = match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        };
        let at = match requested {
            None => Some(0),
            Some(cursor) => page_index(cursor, self.revision),
        };
        let page = at.and_then(|at| pages.get(at)).cloned();
        page.ok_or_else(|| server::invalid_params("the cursor is invalid or the list has changed"))
    }
}

fn cursor(revision: u64, page: usize) -> String {
    format!("{revision}.{page}")
}

fn page_index(cursor: &str, revision: u64) -> Option<usize> {
    let (of, page) = cursor.split_once('.')?;
    (of.parse() == Ok(revision)).then(|| page.parse().ok()).flatten()
}

fn page(list: ListKind, entries: &[Payload], next: Option<String>, era: Era) -> Payload {
    let size: usize = entries.iter().map(|it| it.as_bytes().len() + 1).sum();
    let mut text = Vec::with_capacity(size + 128);
    text.extend_from_slice(b"{");
    if era == Era::Modern {
        text.extend_from_slice(br#""resultType":"complete","ttlMs":0,"cacheScope":"private","#);
    }
    text.extend_from_slice(format!("\"{}\":[", list.id()).as_bytes());
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(entry.as_bytes());
    }
    text.push(b']');
    if let Some(next) = next {
        text.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
    }
    text.push(b'}');
    Payload::from_json(Bytes::from(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn a_long_list_is_paged_and_a_cursor_is_valid_for_its_revision_only() {
        let entries: ListEntries =
            (0..2500).map(|it| Payload::encode(&json!({"name": it})).expect("JSON")).collect();
        let pages = ListPages::new(ListKind::Tools, entries.clone(), 7);
        let mut cursor: Option<String> = None;
        let mut seen = Vec::new();
        loop {
            let page = pages.page(Era::Modern, cursor.as_deref()).expect("there is such a page");
            let page: Json = page.decode().expect("JSON");
            assert_eq!(page["cacheScope"], "private");
            seen.extend(
                page["tools"].as_array().expect("a list").iter().map(|it| it["name"].clone()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(seen.len(), 2500);
        for bad in ["", "7", "7.3", "6.1", "7.-1", "x.1"] {
            assert_eq!(pages.page(Era::Legacy, Some(bad)).expect_err(bad).code, -32602);
        }
        assert!(pages.has_entries(&entries) && !pages.has_entries(&ListEntries::new()));
    }

    #[test]
    fn an_empty_list_is_one_empty_page() {
        let pages = ListPages::new(ListKind::ResourceTemplates, ListEntries::new(), 1);
        let page: Json = pages.page(Era::Legacy, None).expect("a page").decode().expect("JSON");
        assert_eq!(page, json!({"resourceTemplates": []}));
    }
}
