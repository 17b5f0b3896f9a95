//! Results of tools and contents of resources, cut to what a caller takes, and texts of others on their way to a
//! terminal: `host::yielded` and `config::shown`. The input is an answer's JSON; any other text is only shown.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use switchboard::yielded::keep::Keep;
use switchboard::yielded::picture::PictureLimits;
use switchboard::yielded::remark::Remark;
use switchboard::yielded::{self, Limits, Lines, Part, Yield};
use switchboard_config::document::{Document, Node, Value};
use switchboard_config::shown::{clean, clean_line, is_deceptive, printable};
use switchboard_wire::message::Payload;

const CHARACTERS: usize = 60;
const PARTS: usize = 6;
const KEPT_BYTES: u64 = 64 * 1024;
const KEPT_FILES: usize = 4;
const LONGEST_SIDE: u32 = 64;

/// - There are no more characters, parts, pixels and files than the caller takes, and what is there is the beginning
///   of what the server said, cut between characters. What was cut is told and can be read page by page.
/// - Whether the tool failed, and what it says in structure, is passed on as it came.
/// - Nothing that is shown moves a cursor, changes a colour, reorders or hides.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    shows_safely(&text);
    if serde_json::from_slice::<&RawValue>(bytes).is_err() {
        return;
    }
    let payload = Payload::from_json(Bytes::copy_from_slice(bytes));
    let folder = Folder::fresh();
    for take in [yielded::of_call, yielded::of_read] {
        let limits = limits();
        let taken = take(&payload, "server/../x", &limits, &folder.keep());
        keeps_to_limits(&taken);
        can_be_read_on(&taken, &folder.keep());
        lies_below(&taken, folder.path());
        for remark in &taken.remarks {
            assert!(!remark.to_string().contains(is_deceptive), "{remark} is not for a terminal");
        }
    }
    let taken = yielded::of_call(&payload, "server", &limits(), &folder.keep());
    shows_safely(&taken.text());
    // Of a member that is there twice nobody knows which is meant, and it is passed on as it came.
    let is_plain = Document::parse(&text).is_ok_and(|it| !it.root.is_some_and(|it| doubles(&it)));
    if is_plain && let Ok(json) = serde_json::from_slice::<Json>(bytes) {
        says_what_its_json_says(&json, &taken);
    }
}

fn limits() -> Limits {
    let picture = PictureLimits {
        longest_side: LONGEST_SIDE,
        decoded_side: 512,
        decoded_pixels: 100_000,
        memory: 4 * 1024 * 1024,
        ..PictureLimits::default()
    };
    Limits {
        characters: CHARACTERS,
        tokens: None,
        parts: PARTS,
        pictures: 2,
        picture,
        kept_bytes: KEPT_BYTES,
        kept_files: KEPT_FILES,
    }
}

fn shows_safely(text: &str) {
    let shown = printable(text);
    assert!(!shown.contains(is_deceptive), "{shown:?} is not for a terminal");
    let lines = clean(text);
    assert!(!lines.contains(|c: char| c != '\n' && is_deceptive(c)), "{lines:?} acts");
    assert!(lines.matches('\n').count() <= text.matches('\n').count(), "{lines:?} has more lines");
    assert_eq!(clean(&lines), lines, "what is clean is cleaned again");
    let line = clean_line(text);
    assert!(!line.contains(is_deceptive), "{line:?} acts");
    if !text.contains(|c: char| c != '\n' && is_deceptive(c)) {
        assert_eq!(lines, text, "a plain text is changed");
    }
}

fn keeps_to_limits(taken: &Yield) {
    assert!(taken.parts.len() <= PARTS.max(1), "{} parts", taken.parts.len());
    let mut characters = 0;
    for part in &taken.parts {
        match part {
            Part::Text { text, .. } => characters += text.chars().count(),
            Part::Image { width, height, .. } => {
                assert!(*width <= LONGEST_SIDE && *height <= LONGEST_SIDE, "{width}x{height}");
            }
            Part::Saved { bytes, .. } => assert!(*bytes <= KEPT_BYTES, "{bytes} bytes are kept"),
            Part::Link { uri, raw, .. } => {
                assert!(uri.len() <= raw.as_bytes().len(), "a link is longer than it came");
            }
            Part::Unsaved { .. } | Part::Unknown { .. } => {}
        }
    }
    assert!(characters <= CHARACTERS, "{characters} characters");
}

/// What was cut, and what can be read of the whole.
fn can_be_read_on(taken: &Yield, keep: &Keep) {
    let cut = taken.remarks.iter().find_map(|remark| match remark {
        Remark::Cut { shown, of, id } => Some((*shown, *of, id.clone())),
        Remark::LeftOut { .. }
        | Remark::Shrunk { .. }
        | Remark::FirstFrame
        | Remark::Mislabelled { .. }
        | Remark::NotShown(_)
        | Remark::NotBase64
        | Remark::OddShape
        | Remark::FromStructured
        | Remark::NotKept(_) => None,
    });
    let Some((shown, of, id)) = cut else { return };
    assert!(shown == CHARACTERS && of > shown, "{shown} of {of} characters are shown");
    let Some(kept) = &taken.full else { return };
    assert_eq!(id.as_ref(), Some(&kept.id), "the rest is kept under another id");
    let whole = fs::read_to_string(&kept.path).expect("what is kept is text");
    let (mut paged, mut next) = (String::new(), NonZeroU64::MIN);
    loop {
        let lines = Lines { first: next, last: next.saturating_add(2) };
        let page = keep.page_within(&kept.id, lines, 50).expect("what is kept can be read");
        paged.push_str(&page.text);
        if !page.more {
            break;
        }
        assert!(page.last >= next.get(), "a page goes back");
        next = NonZeroU64::MIN.saturating_add(page.last);
    }
    assert_eq!(paged, whole, "the pages are not the whole");
    let has_all = !taken.remarks.iter().any(|it| matches!(it, Remark::LeftOut { .. }));
    if has_all {
        // A part without text that follows one that was cut still begins a line.
        let shown = taken.text();
        let shown = shown.trim_end_matches('\n');
        assert!(whole.starts_with(shown), "what is shown is not how the whole begins");
    }
}

fn lies_below(taken: &Yield, folder: &Path) {
    for part in &taken.parts {
        if let Part::Saved { path, .. } = part {
            assert_eq!(path.parent(), Some(folder), "{} is elsewhere", path.display());
        }
    }
}

fn doubles(node: &Node) -> bool {
    match &node.value {
        Value::Array(elements) => elements.iter().any(doubles),
        Value::Object(members) => {
            let mut seen = HashSet::new();
            members.iter().any(|it| !seen.insert(it.key.as_str()) || doubles(&it.node))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

/// Compares with a parser that reads everything.
fn says_what_its_json_says(json: &Json, taken: &Yield) {
    assert_eq!(taken.is_error, json["isError"] == true, "whether it failed");
    let value = |payload: &Option<Payload>| payload.as_ref().and_then(|it| it.decode().ok());
    let member = |name: &str| json.get(name).filter(|it| !it.is_null()).cloned();
    assert_eq!(value(&taken.structured), member("structuredContent"), "structured content");
    assert_eq!(value(&taken.meta), member("_meta"), "meta");
    let Some(content) = json["content"].as_array() else { return };
    let text = |block: &Json| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        Some("resource") => block["resource"]["text"].as_str().map(str::to_owned),
        Some(_) | None => None,
    };
    let all: String = content.iter().take(PARTS).filter_map(text).collect();
    if content.is_empty() {
        return;
    }
    let texts = taken.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        Part::Image { .. }
        | Part::Saved { .. }
        | Part::Unsaved { .. }
        | Part::Link { .. }
        | Part::Unknown { .. } => None,
    });
    let shown: String = texts.collect();
    let expected: String = all.chars().take(CHARACTERS).collect();
    assert_eq!(shown, expected, "what is shown is not what the server said");
}

/// A folder for one answer, which goes with it. It is made by who writes to it, which is seldom.
struct Folder {
    keep: Keep,
}

impl Folder {
    fn fresh() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("swb-fuzz-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let longest = Duration::from_secs(600);
        Folder { keep: Keep { folder, most_bytes: 1 << 30, longest } }
    }

    fn keep(&self) -> Keep {
        self.keep.clone()
    }

    fn path(&self) -> &Path {
        &self.keep.folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _was_not_made = fs::remove_dir_all(&self.keep.folder);
    }
}
