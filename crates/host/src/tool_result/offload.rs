//! Converts results without blocking the runtime: small text results inline, others on a blocking thread, and only a
//! limited number with images at a time.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::Semaphore;

use crate::tool_result;
use crate::tool_result::spill::SpillStore;
use crate::tool_result::{OutputLimits, ToolOutput};

/// How many results may decode images at a time. Each may need some 200 MB.
pub(crate) const MAX_CONCURRENT_IMAGE_DECODES: usize = 4;
/// The maximum size of a text result that is converted inline.
const INLINE_BYTES: usize = 16 * 1024;

/// Keys of binary data, and the escape that could hide a key.
static BINARY_MARKERS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"data\"", "\"blob\"", "\\u"].map(Finder::new));

/// How expensive the conversion of a result may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workload {
    /// Only text that is shown; nothing goes to disk.
    Inline,
    /// Parsing and maybe writing to disk.
    Blocking,
    /// May contain images.
    ImageDecode,
}

/// Estimates the workload. In doubt, the heavier one.
fn workload(response: &Payload, limits: &OutputLimits) -> Workload {
    let bytes = response.as_bytes();
    let [data, blob, escape] = &*BINARY_MARKERS;
    let may_hold = |marker: &Finder<'_>| marker.find(bytes).is_some();
    // Keys may contain escapes, so that a search for them would fail.
    if may_hold(data) || may_hold(escape) {
        return Workload::ImageDecode;
    }
    // A block has at least two bytes, a character at least one.
    let is_shown = bytes.len() <= limits.max_characters() && bytes.len() / 2 <= limits.blocks;
    match bytes.len() <= INLINE_BYTES && is_shown && !may_hold(blob) {
        true => Workload::Inline,
        false => Workload::Blocking,
    }
}

/// Converts a response into a bounded result.
pub(crate) async fn bound_response(
    image_slots: &Arc<Semaphore>,
    server: &str,
    (limits, spill): (OutputLimits, &SpillStore),
    response: Payload,
) -> ToolOutput {
    let slot = match workload(&response, &limits) {
        Workload::Inline => return tool_result::from_tool_call(&response, server, &limits, spill),
        Workload::Blocking => None,
        // The permit moves into the task: a caller that leaves does not free it before the work is done.
        Workload::ImageDecode => image_slots.clone().acquire_owned().await.ok(),
    };
    let (server, spill) = (server.to_owned(), spill.clone());
    let work = move || {
        let _slot = slot;
        tool_result::from_tool_call(&response, &server, &limits, &spill)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(bounded) => bounded,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::tool_result::ContentBlock;

    fn payload(content: &Json) -> Payload {
        Payload::encode(&json!({"content": content})).expect("JSON")
    }

    fn check(content: &Json, expected: Workload) {
        assert_eq!(workload(&payload(content), &OutputLimits::default()), expected, "{content}");
    }

    #[test]
    fn possible_images_and_disk_writes_are_not_inline() {
        check(&json!([{"type": "text", "text": "hello"}]), Workload::Inline);
        check(&json!([{"type": "text", "text": "x".repeat(INLINE_BYTES)}]), Workload::Blocking);
        check(
            &json!([{"type": "resource", "resource": {"uri": "a:b", "blob": ""}}]),
            Workload::Blocking,
        );
        check(&json!([{"type": "image", "data": ""}]), Workload::ImageDecode);
        let escaped = Payload::from_json(r#"{"content":[{"type":"image","d\u0061ta":""}]}"#.into());
        assert_eq!(workload(&escaped, &OutputLimits::default()), Workload::ImageDecode);
        let few = OutputLimits { characters: 20, ..OutputLimits::default() };
        assert_eq!(
            workload(&payload(&json!([{"type": "text", "text": "hello"}])), &few),
            Workload::Blocking
        );
    }

    #[tokio::test]
    async fn images_wait_for_a_permit_and_texts_do_not() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spill = SpillStore::in_data_folder(folder.path());
        let image_slots = Arc::new(Semaphore::new(1));
        let taken = image_slots.clone().acquire_owned().await.expect("it is open");
        let bound = |content: Json| {
            bound_response(&image_slots, "s", (OutputLimits::default(), &spill), payload(&content))
        };
        let text = bound(json!([{"type": "text", "text": "hello"}]));
        assert!(
            text.now_or_never()
                .is_some_and(|it| matches!(it.blocks[..], [ContentBlock::Text { .. }]))
        );
        let mut image = Box::pin(bound(json!([{"type": "image", "data": "no image"}])));
        assert!(image.as_mut().now_or_never().is_none());
        let long = bound(json!([{"type": "text", "text": "x".repeat(INLINE_BYTES)}]));
        let timeout = Duration::from_secs(20);
        tokio::time::timeout(timeout, long).await.expect("it needs no permit");
        assert!(image.as_mut().now_or_never().is_none());
        drop(taken);
        tokio::time::timeout(timeout, image).await.expect("the permit is free");
        assert_eq!(image_slots.available_permits(), 1);
    }

    proptest! {
        #[test]
        fn inline_results_leave_nothing_on_disk(
            texts in prop::collection::vec("[a-z\"\\\\ü]{0,40}", 0..8),
            characters in 0usize..400,
            blocks_limit in 0usize..6,
        ) {
            let folder = tempfile::tempdir().expect("a temp folder");
            let spill = SpillStore::in_data_folder(folder.path());
            let limits = OutputLimits { characters, blocks: blocks_limit, ..OutputLimits::default() };
            let blocks: Vec<Json> =
                texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            let response = payload(&json!(blocks));
            if workload(&response, &limits) == Workload::Inline {
                let output = tool_result::from_tool_call(&response, "s", &limits, &spill);
                prop_assert!(output.full_text.is_none() && !spill.folder.exists());
            }
        }
    }
}
