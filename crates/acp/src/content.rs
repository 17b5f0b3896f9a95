//! Content of the editor's prompts as blocks for the model, and the other way round.

use agent_client_protocol_schema::v1 as acp;
use switchboard_chat::message::ContentBlock;

/// The kinds of image that models accept.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Why a prompt cannot be sent to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PromptError {
    /// There is nothing in it.
    #[error("the prompt is empty")]
    Empty,
    /// It contains content of this kind.
    #[error("a prompt cannot contain {0}; text, images, resources and links to them can be sent")]
    Unsupported(&'static str),
    /// An image has this type.
    #[error("images of type `{0}` cannot be sent; PNG, JPEG, GIF and WebP can")]
    ImageType(String),
}

/// The blocks of a prompt for the model. A resource is framed, so that its text is not taken for the user's.
pub(crate) fn prompt_blocks(
    prompt: &[acp::ContentBlock],
) -> Result<Vec<ContentBlock>, PromptError> {
    let blocks = prompt.iter().map(prompt_block).collect::<Result<Vec<_>, _>>()?;
    let is_blank =
        |it: &ContentBlock| matches!(it, ContentBlock::Text { text } if text.trim().is_empty());
    match blocks.iter().all(is_blank) {
        true => Err(PromptError::Empty),
        false => Ok(blocks.into_iter().filter(|it| !is_blank(it)).collect()),
    }
}

fn prompt_block(block: &acp::ContentBlock) -> Result<ContentBlock, PromptError> {
    match block {
        acp::ContentBlock::Text(it) => Ok(text(it.text.clone())),
        acp::ContentBlock::Image(it) => image(&it.mime_type, &it.data),
        acp::ContentBlock::ResourceLink(it) => {
            let about = it.description.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
            Ok(text(format!("[{}]({}){about}", it.name, it.uri)))
        }
        acp::ContentBlock::Resource(it) => embedded_resource(&it.resource),
        acp::ContentBlock::Audio(_) => Err(PromptError::Unsupported("audio")),
        _ => Err(PromptError::Unsupported("this kind of content")),
    }
}

fn embedded_resource(
    resource: &acp::EmbeddedResourceResource,
) -> Result<ContentBlock, PromptError> {
    match resource {
        acp::EmbeddedResourceResource::TextResourceContents(it) => {
            let uri = it.uri.replace('"', "%22");
            Ok(text(format!("<context uri=\"{uri}\">\n{}\n</context>", it.text)))
        }
        acp::EmbeddedResourceResource::BlobResourceContents(it) => match &it.mime_type {
            Some(mime) if mime.starts_with("image/") => image(mime, &it.blob),
            Some(_) | None => Err(PromptError::Unsupported("a binary resource")),
        },
        _ => Err(PromptError::Unsupported("this kind of resource")),
    }
}

fn image(mime: &str, data: &str) -> Result<ContentBlock, PromptError> {
    match IMAGE_TYPES.contains(&mime) {
        true => Ok(ContentBlock::Image { mime: mime.to_owned(), base64: data.to_owned() }),
        false => Err(PromptError::ImageType(mime.chars().take(80).collect())),
    }
}

fn text(text: String) -> ContentBlock {
    ContentBlock::Text { text }
}

/// A block for the editor, if it is content: text or an image.
pub(crate) fn editor_block(block: &ContentBlock) -> Option<acp::ContentBlock> {
    match block {
        ContentBlock::Text { text } => Some(text.clone().into()),
        ContentBlock::Image { mime, base64 } => {
            Some(acp::ContentBlock::Image(acp::ImageContent::new(base64.clone(), mime.clone())))
        }
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn check(prompt: Json, expected: Result<Json, PromptError>) {
        let prompt: Vec<acp::ContentBlock> = serde_json::from_value(prompt).expect("a prompt");
        let blocks = prompt_blocks(&prompt).map(|it| serde_json::to_value(it).expect("JSON"));
        assert_eq!(blocks, expected);
    }

    #[test]
    fn text_images_links_and_resources_become_blocks() {
        check(
            json!([
                {"type": "text", "text": "look"},
                {"type": "text", "text": "  "},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
                {"type": "resource", "resource": {"uri": "file:///b\".rs", "text": "fn b() {}"}},
                {"type": "resource", "resource": {"uri": "x:y", "mimeType": "image/png", "blob": "BBBB"}},
            ]),
            Ok(json!([
                {"type": "text", "text": "look"},
                {"type": "picture", "mime": "image/png", "base64": "AAAA"},
                {"type": "text", "text": "[a.rs](file:///a.rs)"},
                {"type": "text", "text": "<context uri=\"file:///b%22.rs\">\nfn b() {}\n</context>"},
                {"type": "picture", "mime": "image/png", "base64": "BBBB"},
            ])),
        );
    }

    #[test]
    fn what_the_model_cannot_take_is_refused() {
        check(json!([]), Err(PromptError::Empty));
        check(json!([{"type": "text", "text": " \n"}]), Err(PromptError::Empty));
        let audio = json!([{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]);
        check(audio, Err(PromptError::Unsupported("audio")));
        let svg = json!([{"type": "image", "mimeType": "image/svg+xml", "data": "AAAA"}]);
        check(svg, Err(PromptError::ImageType("image/svg+xml".to_owned())));
    }
}
