//! `@server:uri` in a message: the resource is read and goes along with what was said.

use std::time::Duration;

use switchboard::host::{Host, Snapshot};
use switchboard::tool_result;
use switchboard::tool_result::OutputLimits;
use switchboard::tool_result::spill::SpillStore;
use switchboard_chat::message::ContentBlock;

use switchboard::config::display::sanitize_line;

/// How long a server may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The most resources that one message may name.
const MAX_MENTIONS: usize = 20;

/// A resource that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMention {
    /// Whose.
    pub server: String,
    /// Which.
    pub uri: String,
}

/// The resources that a message names, each once. Only servers that there are count: an `@` is also in addresses.
pub fn find_mentions(text: &str, snapshot: &Snapshot) -> Vec<ResourceMention> {
    let mut found: Vec<ResourceMention> = Vec::new();
    for word in text.split_whitespace() {
        let Some(word) = word.strip_prefix('@') else { continue };
        let word = word.trim_end_matches([',', '.', ';', ')', '?', '!']);
        // A server's name may hold colons, so the known ones are tried, the longest first.
        let mut names: Vec<&String> = snapshot.servers.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let named = names.into_iter().find_map(|name| {
            let uri = word.strip_prefix(name.as_str())?.strip_prefix(':')?;
            Some(ResourceMention { server: name.clone(), uri: uri.to_owned() })
        });
        match named {
            Some(mention) if !mention.uri.is_empty() && !found.contains(&mention) => {
                found.push(mention);
            }
            Some(_) | None => {}
        }
    }
    found.truncate(MAX_MENTIONS);
    found
}

/// What a message says, with what it names; and what could not be read.
pub async fn resolve_mentions(
    host: &Host,
    text: &str,
    (limits, keep): (&OutputLimits, &SpillStore),
) -> (Vec<ContentBlock>, Vec<String>) {
    let mut parts = vec![ContentBlock::Text { text: text.to_owned() }];
    let mut faults = Vec::new();
    for ResourceMention { server, uri } in find_mentions(text, &host.snapshot()) {
        let answer = match host.read_resource(&server, &uri, READ_TIMEOUT).await {
            Ok(answer) => answer,
            Err(error) => {
                faults.push(sanitize_line(&format!("@{server}:{uri} could not be read: {error}")));
                continue;
            }
        };
        let (limits, keep, name) = (*limits, keep.clone(), server.clone());
        let read = move || tool_result::from_resource_read(&answer, &name, &limits, &keep);
        if let Ok(output) = tokio::task::spawn_blocking(read).await {
            parts.push(ContentBlock::Text { text: format!("[@{server}:{uri}]") });
            parts.extend(output.blocks.into_iter().filter_map(content_block));
        }
    }
    (parts, faults)
}

fn content_block(part: tool_result::ContentBlock) -> Option<ContentBlock> {
    match part {
        tool_result::ContentBlock::Text { text, .. } => Some(ContentBlock::Text { text }),
        tool_result::ContentBlock::Image { mime, base64, .. } => {
            Some(ContentBlock::Image { mime: mime.to_owned(), base64 })
        }
        tool_result::ContentBlock::Saved { path, .. } => {
            Some(ContentBlock::Text { text: format!("[saved as {}]", path.display()) })
        }
        tool_result::ContentBlock::NotSaved { .. }
        | tool_result::ContentBlock::Link { .. }
        | tool_result::ContentBlock::Unknown { .. } => None,
    }
}
