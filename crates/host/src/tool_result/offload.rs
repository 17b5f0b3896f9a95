//! What is passed on of an answer, without holding anybody up: little text is looked at where we are, everything
//! else on a thread that may take its time, and answers with pictures only so many at once.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::Semaphore;

use crate::tool_result;
use crate::tool_result::spill::SpillStore;
use crate::tool_result::{OutputLimits, ToolOutput};

/// How many answers have their pictures decoded at once. Each may take some two hundred megabytes meanwhile.
pub(crate) const MAX_CONCURRENT_IMAGE_DECODES: usize = 4;
/// An answer of at most so many bytes is looked at where we are, if all of it is text.
const INLINE_BYTES: usize = 16 * 1024;

/// What pictures and other binary data are members of, and what hides the names of members.
static BINARY_MARKERS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"data\"", "\"blob\"", "\\u"].map(Finder::new));

/// How much there is to do for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workload {
    /// Next to nothing: all of it is text that is shown, and nothing goes to disk.
    Inline,
    /// Some reading, perhaps some writing.
    Blocking,
    /// Pictures, perhaps.
    ImageDecode,
}

/// A doubt makes it heavier.
fn workload(response: &Payload, limits: &OutputLimits) -> Workload {
    let bytes = response.as_bytes();
    let [data, blob, escape] = &*BINARY_MARKERS;
    let may_hold = |marker: &Finder<'_>| marker.find(bytes).is_some();
    // Names of members may be written with escapes, so that they cannot be looked for.
    if may_hold(data) || may_hold(escape) {
        return Workload::ImageDecode;
    }
    // Two bytes are the least that a part takes, one the least that a character does.
    let is_shown = bytes.len() <= limits.max_characters() && bytes.len() / 2 <= limits.blocks;
    match bytes.len() <= INLINE_BYTES && is_shown && !may_hold(blob) {
        true => Workload::Inline,
        false => Workload::Blocking,
    }
}

/// What is passed on of an answer.
pub(crate) async fn bound_response(
    image_slots: &Arc<Semaphore>,
    server: &str,
    (limits, spill): (OutputLimits, &SpillStore),
    response: Payload,
) -> ToolOutput {
    let slot = match workload(&response, &limits) {
        Workload::Inline => return tool_result::from_tool_call(&response, server, &limits, spill),
        Workload::Blocking => None,
        // It goes with the work: a caller who leaves does not make room before the work is done.
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
    fn what_may_be_a_picture_is_one_and_what_may_go_to_disk_is_much() {
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
    async fn pictures_wait_for_a_place_and_texts_do_not() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spill = SpillStore::in_data_folder(folder.path());
        let image_slots = Arc::new(Semaphore::new(1));
        let taken = image_slots.clone().acquire_owned().await.expect("it is open");
        let bounded = |content: Json| {
            bound_response(&image_slots, "s", (OutputLimits::default(), &spill), payload(&content))
        };
        let text = bounded(json!([{"type": "text", "text": "hello"}]));
        assert!(
            text.now_or_never()
                .is_some_and(|it| matches!(it.blocks[..], [ContentBlock::Text { .. }]))
        );
        let mut picture = Box::pin(bounded(json!([{"type": "image", "data": "no picture"}])));
        assert!(picture.as_mut().now_or_never().is_none());
        let long = bounded(json!([{"type": "text", "text": "x".repeat(INLINE_BYTES)}]));
        let soon = Duration::from_secs(20);
        tokio::time::timeout(soon, long).await.expect("it waits for no picture");
        assert!(picture.as_mut().now_or_never().is_none());
        drop(taken);
        tokio::time::timeout(soon, picture).await.expect("its turn has come");
        assert_eq!(image_slots.available_permits(), 1);
    }

    proptest! {
        #[test]
        fn what_is_little_leaves_nothing_on_disk(
            texts in prop::collection::vec("[a-z\"\\\\ü]{0,40}", 0..8),
            characters in 0usize..400,
            parts in 0usize..6,
        ) {
            let folder = tempfile::tempdir().expect("a temp folder");
            let spill = SpillStore::in_data_folder(folder.path());
            let limits = OutputLimits { characters, blocks: parts, ..OutputLimits::default() };
            let blocks: Vec<Json> =
                texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            let response = payload(&json!(blocks));
            if workload(&response, &limits) == Workload::Inline {
                let yielded = tool_result::from_tool_call(&response, "s", &limits, &spill);
                prop_assert!(yielded.full_text.is_none() && !spill.folder.exists());
            }
        }
    }
}
