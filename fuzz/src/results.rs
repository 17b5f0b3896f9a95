//! Tool results and resource contents, truncated to the limits of a caller, and untrusted text on its way to a
//! terminal: `host::tool_result` and `config::display`. The input is the JSON of a result; any other text is only
//! displayed.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use switchboard::tool_result;
use switchboard::tool_result::{
    ContentBlock, ImageLimits, LineRange, Note, OutputLimits, SpillStore, ToolOutput,
};
use switchboard_config::display::{is_unprintable, printable, sanitize, sanitize_line};
use switchboard_config::document::{Document, Node, Value};
use switchboard_wire::jsonrpc::message::Payload;

const CHARACTERS: usize = 60;
const PARTS: usize = 6;
const SPILL_BYTES: u64 = 64 * 1024;
const SPILL_FILES: usize = 4;
const LONGEST_SIDE: u32 = 64;

/// - There are no more characters, parts, pixels and files than the limits allow. The output is a prefix of the
///   server's text, cut between characters. Truncation is reported, and the whole can be read page by page.
/// - The error flag and the structured content are passed on unchanged.
/// - Displayed text moves no cursor, changes no colour, and neither reorders nor hides text.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    is_safe_to_show(&text);
    if serde_json::from_slice::<&RawValue>(bytes).is_err() {
        return;
    }
    let payload = Payload::from_json(Bytes::copy_from_slice(bytes));
    let folder = SpillFolder::fresh();
    for take in [tool_result::from_tool_call, tool_result::from_resource_read] {
        let limits = limits();
        let output = take(&payload, "server/../x", &limits, &folder.spill());
        respects_limits(&output);
        spill_can_be_paged(&output, &folder.spill());
        files_are_inside(&output, folder.path());
        for remark in &output.notes {
            assert!(!remark.to_string().contains(is_unprintable), "{remark} is not for a terminal");
        }
    }
    let output = tool_result::from_tool_call(&payload, "server", &limits(), &folder.spill());
    is_safe_to_show(&output.text());
    // Which of two duplicate members counts is undefined, so the result is passed on unchanged.
    let is_plain =
        Document::parse(&text).is_ok_and(|it| !it.root.is_some_and(|it| has_duplicate_keys(&it)));
    if is_plain && let Ok(json) = serde_json::from_slice::<Json>(bytes) {
        agrees_with_json(&json, &output);
    }
}

fn limits() -> OutputLimits {
    let picture = ImageLimits {
        longest_side: LONGEST_SIDE,
        decoded_side: 512,
        decoded_pixels: 100_000,
        memory: 4 * 1024 * 1024,
        ..ImageLimits::default()
    };
    OutputLimits {
        characters: CHARACTERS,
        tokens: None,
        blocks: PARTS,
        images: 2,
        image: picture,
        spill_bytes: SPILL_BYTES,
        spill_files: SPILL_FILES,
    }
}

fn is_safe_to_show(text: &str) {
    let shown = printable(text);
    assert!(!shown.contains(is_unprintable), "{shown:?} is not for a terminal");
    let lines = sanitize(text);
    assert!(!lines.contains(|c: char| c != '\n' && is_unprintable(c)), "{lines:?} acts");
    assert!(lines.matches('\n').count() <= text.matches('\n').count(), "{lines:?} has more lines");
    assert_eq!(sanitize(&lines), lines, "what is clean is cleaned again");
    let line = sanitize_line(text);
    assert!(!line.contains(is_unprintable), "{line:?} acts");
    if !text.contains(|c: char| c != '\n' && is_unprintable(c)) {
        assert_eq!(lines, text, "a plain text is changed");
    }
}

fn respects_limits(output: &ToolOutput) {
    assert!(output.blocks.len() <= PARTS.max(1), "{} parts", output.blocks.len());
    let mut characters = 0;
    for part in &output.blocks {
        match part {
            ContentBlock::Text { text, .. } => characters += text.chars().count(),
            ContentBlock::Image { width, height, .. } => {
                assert!(*width <= LONGEST_SIDE && *height <= LONGEST_SIDE, "{width}x{height}");
            }
            ContentBlock::Saved { bytes, .. } => {
                assert!(*bytes <= SPILL_BYTES, "{bytes} bytes are kept")
            }
            ContentBlock::Link { uri, raw, .. } => {
                assert!(uri.len() <= raw.as_bytes().len(), "a link is longer than it came");
            }
            ContentBlock::NotSaved { .. } | ContentBlock::Unknown { .. } => {}
        }
    }
    assert!(characters <= CHARACTERS, "{characters} characters");
}

/// What was truncated, and which pages of the whole can be read.
fn spill_can_be_paged(output: &ToolOutput, keep: &SpillStore) {
    let cut = output.notes.iter().find_map(|remark| match remark {
        Note::Truncated { shown, of, id } => Some((*shown, *of, id.clone())),
        Note::PartsOmitted { .. }
        | Note::ImageResized { .. }
        | Note::AnimationFlattened
        | Note::MimeMismatch { .. }
        | Note::ImageNotShown(_)
        | Note::InvalidBase64
        | Note::UnexpectedShape
        | Note::FromStructured
        | Note::SpillFailed(_) => None,
    });
    let Some((shown, of, id)) = cut else { return };
    assert!(shown == CHARACTERS && of > shown, "{shown} of {of} characters are shown");
    let Some(spilled) = &output.full_text else { return };
    assert_eq!(id.as_ref(), Some(&spilled.id), "the rest is kept under another id");
    let whole = fs::read_to_string(&spilled.path).expect("what is kept is text");
    let (mut paged, mut next) = (String::new(), NonZeroU64::MIN);
    loop {
        let lines = LineRange { first: next, last: next.saturating_add(2) };
        let page = keep.page_within(&spilled.id, lines, 50).expect("what is kept can be read");
        paged.push_str(&page.text);
        if !page.more {
            break;
        }
        assert!(page.last >= next.get(), "a page goes back");
        next = NonZeroU64::MIN.saturating_add(page.last);
    }
    assert_eq!(paged, whole, "the pages are not the whole");
    let has_all = !output.notes.iter().any(|it| matches!(it, Note::PartsOmitted { .. }));
    if has_all {
        // A part without text after a truncated one still starts a new line.
        let shown = output.text();
        let shown = shown.trim_end_matches('\n');
        assert!(whole.starts_with(shown), "what is shown is not how the whole begins");
    }
}

fn files_are_inside(output: &ToolOutput, folder: &Path) {
    for part in &output.blocks {
        if let ContentBlock::Saved { path, .. } = part {
            assert_eq!(path.parent(), Some(folder), "{} is elsewhere", path.display());
        }
    }
}

fn has_duplicate_keys(node: &Node) -> bool {
    match &node.value {
        Value::Array(elements) => elements.iter().any(has_duplicate_keys),
        Value::Object(members) => {
            let mut seen = HashSet::new();
            members.iter().any(|it| !seen.insert(it.key.as_str()) || has_duplicate_keys(&it.node))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Compares with a full JSON parser.
fn agrees_with_json(json: &Json, output: &ToolOutput) {
    assert_eq!(output.is_error, json["isError"] == true, "whether it failed");
    let value = |payload: &Option<Payload>| payload.as_ref().and_then(|it| it.decode().ok());
    let member = |name: &str| json.get(name).filter(|it| !it.is_null()).cloned();
    assert_eq!(value(&output.structured), member("structuredContent"), "structured content");
    assert_eq!(value(&output.meta), member("_meta"), "meta");
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
    let texts = output.blocks.iter().filter_map(|part| match part {
        ContentBlock::Text { text, .. } => Some(text.as_str()),
        ContentBlock::Image { .. }
        | ContentBlock::Saved { .. }
        | ContentBlock::NotSaved { .. }
        | ContentBlock::Link { .. }
        | ContentBlock::Unknown { .. } => None,
    });
    let shown: String = texts.collect();
    let expected: String = all.chars().take(CHARACTERS).collect();
    assert_eq!(shown, expected, "what is shown is not what the server said");
}

/// A folder for one result, deleted with it. Only the writer creates it, which is rare.
struct SpillFolder {
    spill: SpillStore,
}

impl SpillFolder {
    fn fresh() -> SpillFolder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("swb-fuzz-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let longest = Duration::from_secs(600);
        SpillFolder { spill: SpillStore { folder, max_bytes: 1 << 30, max_age: longest } }
    }

    fn spill(&self) -> SpillStore {
        self.spill.clone()
    }

    fn path(&self) -> &Path {
        &self.spill.folder
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        let _was_not_made = fs::remove_dir_all(&self.spill.folder);
    }
}
