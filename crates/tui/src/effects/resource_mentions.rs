//! `@server:uri` in a message: reads the resource and sends its content with the message.

use std::time::Duration;

use switchboard::tool_result::{OutputLimits, SpillStore};
use switchboard::{Host, ReadResource, Snapshot, tool_result};
use switchboard_chat::message::ContentBlock;

use switchboard::config::display::sanitize_line;

/// The timeout of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of mentions per message.
const MAX_MENTIONS: usize = 20;

/// A resource mentioned in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMention {
    /// The server.
    pub server: String,
    /// The URI.
    pub uri: String,
}

/// The resources that a message mentions, without duplicates. Only known servers count: `@` also occurs in e-mail addresses.
pub fn find_mentions(text: &str, snapshot: &Snapshot) -> Vec<ResourceMention> {
    let mut found: Vec<ResourceMention> = Vec::new();
    for word in text.split_whitespace() {
        let Some(word) = word.strip_prefix('@') else { continue };
        let word = word.trim_end_matches([',', '.', ';', ')', '?', '!']);
        // A server's name may contain colons, so known names are tried, the longest first.
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

/// A message with the content of its mentions, and the errors of those that could not be read.
pub async fn resolve_mentions(
    host: &Host,
    text: &str,
    (limits, spill): (&OutputLimits, &SpillStore),
) -> (Vec<ContentBlock>, Vec<String>) {
    let mut blocks = vec![ContentBlock::Text { text: text.to_owned() }];
    let mut errors = Vec::new();
    for ResourceMention { server, uri } in find_mentions(text, &host.snapshot()) {
        let request = ReadResource::new(uri.as_str()).timeout(READ_TIMEOUT);
        let response = match host.read_resource_raw(&server, request).await {
            Ok(response) => response,
            Err(error) => {
                errors.push(sanitize_line(&format!("@{server}:{uri} could not be read: {error}")));
                continue;
            }
        };
        let (limits, spill, name) = (*limits, spill.clone(), server.clone());
        let read = move || tool_result::from_resource_read(&response, &name, &limits, &spill);
        if let Ok(output) = tokio::task::spawn_blocking(read).await {
            blocks.push(ContentBlock::Text { text: format!("[@{server}:{uri}]") });
            blocks.extend(output.blocks.into_iter().filter_map(content_block));
        }
    }
    (blocks, errors)
}

fn content_block(block: tool_result::ContentBlock) -> Option<ContentBlock> {
    match block {
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
