//! `@server:uri` in a message: the resource is read and goes along with what was said.

use std::time::Duration;

use switchboard::engine::{Host, Snapshot};
use switchboard::yielded::keep::Keep;
use switchboard::yielded::{self, Limits};
use switchboard_chat::utterance::Part;

use crate::screen::clean_text::clean_line;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most resources that one message may name.
const MOST: usize = 20;

/// A resource that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Whose.
    pub server: String,
    /// Which.
    pub uri: String,
}

/// The resources that a message names, each once. Only servers that there are count: an `@` is also in addresses.
pub fn mentions(text: &str, snapshot: &Snapshot) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    for word in text.split_whitespace() {
        let Some(word) = word.strip_prefix('@') else { continue };
        let word = word.trim_end_matches([',', '.', ';', ')', '?', '!']);
        // A server's name may hold colons, so the known ones are tried, the longest first.
        let mut names: Vec<&String> = snapshot.servers.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let named = names.into_iter().find_map(|name| {
            let uri = word.strip_prefix(name.as_str())?.strip_prefix(':')?;
            Some(Mention { server: name.clone(), uri: uri.to_owned() })
        });
        match named {
            Some(mention) if !mention.uri.is_empty() && !found.contains(&mention) => {
                found.push(mention);
            }
            Some(_) | None => {}
        }
    }
    found.truncate(MOST);
    found
}

/// What a message says, with what it names; and what could not be read.
pub async fn parts(
    host: &Host,
    text: &str,
    (limits, keep): (&Limits, &Keep),
) -> (Vec<Part>, Vec<String>) {
    let mut parts = vec![Part::Text { text: text.to_owned() }];
    let mut faults = Vec::new();
    for Mention { server, uri } in mentions(text, &host.snapshot()) {
        let answer = match host.read(&server, &uri, PATIENCE).await {
            Ok(answer) => answer,
            Err(error) => {
                faults.push(clean_line(&format!("@{server}:{uri} could not be read: {error}")));
                continue;
            }
        };
        let (limits, keep, name) = (*limits, keep.clone(), server.clone());
        let read = move || yielded::of_read(&answer, &name, &limits, &keep);
        if let Ok(yielded) = tokio::task::spawn_blocking(read).await {
            parts.push(Part::Text { text: format!("[@{server}:{uri}]") });
            parts.extend(yielded.parts.into_iter().filter_map(part));
        }
    }
    (parts, faults)
}

fn part(part: yielded::Part) -> Option<Part> {
    match part {
        yielded::Part::Text { text, .. } => Some(Part::Text { text }),
        yielded::Part::Image { mime, base64, .. } => {
            Some(Part::Picture { mime: mime.to_owned(), base64 })
        }
        yielded::Part::Saved { path, .. } => {
            Some(Part::Text { text: format!("[saved as {}]", path.display()) })
        }
        yielded::Part::Unsaved { .. }
        | yielded::Part::Link { .. }
        | yielded::Part::Unknown { .. } => None,
    }
}
