//! Converts a result in one pass, block by block. Blocks are read in place in the payload; content for files is
//! decoded while it is written.

use std::io::{self, BufWriter, Read, Write};

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::read::DecoderReader;
use bytes::Bytes;
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;
use tracing::warn;

use super::block::{Block, LinkMeta, MAX_URI_BYTES, RawItems, RawResult, members};
use super::image_fit;
use super::image_fit::{Animation, FittedImage, ImageRejection};
use super::json_str::JsonStr;
use super::mime;
use super::mime::SNIFF_BYTES;
use super::note::Note;
use super::spill::{BoundedFile, SpillBudget, SpillError, SpillFile, SpillStore, sanitized_name};
use super::{ContentBlock, OutputLimits, ToolOutput};

/// Longer media types are truncated.
const MAX_MIME_CHARS: usize = 128;
const MAX_KIND_CHARS: usize = 64;
const MAX_NAME_CHARS: usize = 1024;
const MAX_DESCRIPTION_CHARS: usize = 4096;

/// Accepts base64 without padding, which servers often omit.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The state of one conversion.
pub(crate) struct OutputBuilder<'a> {
    response: &'a Bytes,
    server: &'a str,
    limits: &'a OutputLimits,
    budget: SpillBudget<'a>,
    images_left: usize,
    blocks: Vec<ContentBlock>,
    notes: Vec<Note>,
}

impl<'a> OutputBuilder<'a> {
    pub(crate) fn new(
        response: &'a Payload,
        server: &'a str,
        limits: &'a OutputLimits,
        spill_store: &'a SpillStore,
    ) -> OutputBuilder<'a> {
        OutputBuilder {
            response: response.as_bytes(),
            server,
            limits,
            budget: SpillBudget::new(spill_store, limits.spill_bytes, limits.spill_files),
            images_left: limits.images,
            blocks: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn tool_call_output(self) -> ToolOutput {
        let Some(result) = members::<RawResult<'a>>(self.response) else {
            return self.unrecognised();
        };
        match (result.content, result.structured) {
            (Some(content), structured) => match RawItems::of(content, self.limits.blocks) {
                Ok(items) if items.kept.is_empty() => match structured {
                    Some(structured) => self.structured_output(structured, &result),
                    None => self.finish(Vec::new(), 0, &result),
                },
                Ok(items) => {
                    let blocks = items.kept.into_iter().map(Block::of_content).collect();
                    self.finish(blocks, items.omitted, &result)
                }
                Err(_) => self.unrecognised_with(&result),
            },
            (None, Some(structured)) => self.structured_output(structured, &result),
            (None, None) => self.unrecognised_with(&result),
        }
    }

    pub(crate) fn resource_read_output(self) -> ToolOutput {
        let Some(result) = members::<RawResult<'a>>(self.response) else {
            return self.unrecognised();
        };
        let items = result.contents.map(|contents| RawItems::of(contents, self.limits.blocks));
        match items {
            Some(Ok(items)) => {
                let blocks = items.kept.into_iter().map(Block::of_resource).collect();
                self.finish(blocks, items.omitted, &result)
            }
            Some(Err(_)) | None => self.unrecognised_with(&result),
        }
    }

    /// Servers should repeat the structured content as text. If they do not, the model gets the JSON.
    fn structured_output(mut self, structured: &'a RawValue, result: &RawResult<'a>) -> ToolOutput {
        self.notes.push(Note::FromStructured);
        let text = JsonStr::verbatim(structured.get());
        self.finish(vec![Block::Text { text, uri: None }], 0, result)
    }

    fn unrecognised(self) -> ToolOutput {
        let empty_result = RawResult {
            content: None,
            contents: None,
            structured: None,
            meta: None,
            is_error: None,
        };
        self.unrecognised_with(&empty_result)
    }

    fn unrecognised_with(mut self, result: &RawResult<'a>) -> ToolOutput {
        self.notes.push(Note::UnexpectedShape);
        let raw = Payload::from_json(self.response.clone());
        self.blocks.push(ContentBlock::Unknown { kind: String::new(), raw });
        self.finish(Vec::new(), 0, result)
    }

    fn finish(
        mut self,
        blocks: Vec<Block<'a>>,
        omitted: usize,
        result: &RawResult<'a>,
    ) -> ToolOutput {
        let max = self.limits.max_characters();
        let texts: Vec<JsonStr<'a>> = blocks.iter().filter_map(text_of).collect();
        let byte_total: usize = texts.iter().map(JsonStr::raw_len).sum();
        // Count characters only if the byte length may exceed the limit.
        let total = match byte_total <= max {
            true => byte_total,
            false => texts.iter().map(JsonStr::char_count).sum(),
        };
        let full_text = if omitted > 0 {
            self.spill_response()
        } else if total > max {
            self.spill_text(&texts)
        } else {
            None
        };
        let id = || full_text.as_ref().map(|file| file.id.clone());
        if omitted > 0 {
            self.notes.push(Note::PartsOmitted { parts: omitted, id: id() });
        }
        if total > max {
            self.notes.push(Note::Truncated { shown: max, of: total, id: id() });
        }
        let mut characters = max;
        for block in blocks {
            self.add_block(block, &mut characters);
        }
        let (structured, meta) = (result.structured, result.meta);
        let (structured, meta) =
            (structured.map(|raw| self.slice(raw)), meta.map(|raw| self.slice(raw)));
        if let Err(kind) = self.budget.sweep_if_used() {
            self.notes.push(Note::SpillFailed(kind));
        }
        let is_error = result.is_error.is_some_and(|raw| raw.get() == "true");
        ToolOutput { blocks: self.blocks, is_error, structured, meta, full_text, notes: self.notes }
    }

    fn add_block(&mut self, block: Block<'a>, characters: &mut usize) {
        let content_block = match block {
            Block::Text { text: full, uri } => {
                let text = full.prefix(*characters);
                // Skip text after the limit; keep text that was empty from the start.
                if text.is_empty() && full.raw_len() > 0 {
                    return;
                }
                *characters -= text.chars().count();
                ContentBlock::Text { text, from_uri: truncated(uri, MAX_URI_BYTES) }
            }
            Block::Image { data, mime } => self.picture(data, mime),
            Block::Binary { data, mime, uri } => self.save(data, mime, uri),
            Block::Link { uri, meta, raw } => self.link(uri, &meta, raw),
            Block::Unknown { kind, raw } => ContentBlock::Unknown {
                kind: truncated(kind, MAX_KIND_CHARS).unwrap_or_default(),
                raw: self.slice(raw),
            },
        };
        self.blocks.push(content_block);
    }

    fn link(&self, uri: JsonStr<'a>, meta: &LinkMeta<'a>, raw: &RawValue) -> ContentBlock {
        ContentBlock::Link {
            uri: uri.prefix(MAX_URI_BYTES),
            name: truncated(meta.name, MAX_NAME_CHARS),
            mime: truncated(meta.mime, MAX_MIME_CHARS),
            description: truncated(meta.description, MAX_DESCRIPTION_CHARS),
            raw: self.slice(raw),
        }
    }

    fn picture(&mut self, data: JsonStr<'a>, mime: Option<JsonStr<'a>>) -> ContentBlock {
        let fitted = match self.fit(data) {
            Ok(fitted) => fitted,
            Err(rejection) => {
                self.notes.push(Note::ImageNotShown(rejection));
                return self.save(data, mime, None);
            }
        };
        let (
            FittedImage {
                detected_mime, mime: output_mime, size, original_size, animation, ..
            },
            base64,
        ) = fitted;
        if truncated(mime, MAX_MIME_CHARS)
            .is_some_and(|claimed| !is_same_type(&claimed, detected_mime))
        {
            self.notes.push(Note::MimeMismatch { actual: detected_mime });
        }
        match animation {
            Animation::Animated => self.notes.push(Note::AnimationFlattened),
            Animation::Static => {}
        }
        if size != original_size {
            self.notes.push(Note::ImageResized { from: original_size, to: size });
        }
        ContentBlock::Image { mime: output_mime, base64, width: size.0, height: size.1 }
    }

    fn fit(&mut self, data: JsonStr<'a>) -> Result<(FittedImage, String), ImageRejection> {
        if data.raw_len() > self.limits.image.max_input_base64 {
            return Err(ImageRejection::TooLarge);
        }
        self.images_left = self.images_left.checked_sub(1).ok_or(ImageRejection::TooMany)?;
        let mut bytes = Vec::with_capacity(data.raw_len() / 4 * 3 + 3);
        DecoderReader::new(data.without_whitespace(), &LENIENT_BASE64)
            .read_to_end(&mut bytes)
            .map_err(|_| ImageRejection::Corrupt)?;
        let fitted = image_fit::fit(&bytes, &self.limits.image)?;
        let base64 = STANDARD.encode(fitted.bytes.as_deref().unwrap_or(&bytes));
        Ok((fitted, base64))
    }

    fn save(
        &mut self,
        data: JsonStr<'a>,
        mime: Option<JsonStr<'a>>,
        uri: Option<JsonStr<'a>>,
    ) -> ContentBlock {
        let mime = truncated(mime, MAX_MIME_CHARS);
        let from_uri = truncated(uri, MAX_URI_BYTES);
        let server = sanitized_name(self.server);
        let decoded = self.budget.write(
            |writer| write_decoded(data, writer),
            |id, head| {
                let detected = mime::detect(head, mime.as_deref());
                format!("{server}-{id}.{}", detected.extension)
            },
        );
        let written = match decoded {
            Err(SpillError::Undecodable) => {
                self.notes.push(Note::InvalidBase64);
                let verbatim = |writer: &mut BoundedFile| {
                    write_strings(&[data], writer)?;
                    Ok(Vec::new())
                };
                self.budget.write(verbatim, |id, _| format!("{server}-{id}.base64"))
            }
            decoded => decoded,
        };
        match written {
            Ok(written) => {
                let detected = mime::detect(&written.output, None);
                let mime = detected.mime.map(str::to_owned).or(mime);
                ContentBlock::Saved { path: written.path, mime, bytes: written.bytes, from_uri }
            }
            Err(kind) => {
                warn!(server = self.server, cause = %kind, "content of a result not stored");
                self.notes.push(Note::SpillFailed(kind));
                ContentBlock::NotSaved { mime, from_uri }
            }
        }
    }

    fn spill_response(&mut self) -> Option<SpillFile> {
        let full = std::str::from_utf8(self.response).unwrap_or_default();
        self.spill_text(&[JsonStr::verbatim(full)])
    }

    fn spill_text(&mut self, texts: &[JsonStr<'_>]) -> Option<SpillFile> {
        let written = self
            .budget
            .write(|writer| Ok(write_strings(texts, writer)?), |id, ()| format!("{id}.txt"));
        match written {
            Ok(written) => Some(SpillFile { id: written.id, path: written.path }),
            Err(kind) => {
                warn!(server = self.server, cause = %kind, "content of a result not stored");
                self.notes.push(Note::SpillFailed(kind));
                None
            }
        }
    }

    /// A part of the response as payload. Small parts are copied, because a slice would keep the whole response in
    /// memory.
    fn slice(&self, raw: &RawValue) -> Payload {
        let part = raw.get().as_bytes();
        if part.len() < self.response.len() / 4 {
            Payload::from_json(Bytes::copy_from_slice(part))
        } else {
            Payload::from_json(self.response.slice_ref(part))
        }
    }
}

fn text_of<'a>(block: &Block<'a>) -> Option<JsonStr<'a>> {
    match block {
        Block::Text { text, .. } => Some(*text),
        Block::Image { .. } | Block::Binary { .. } | Block::Link { .. } | Block::Unknown { .. } => {
            None
        }
    }
}

fn is_same_type(claimed: &str, detected_mime: &str) -> bool {
    // Not a registered type, but common.
    let claimed = if claimed.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { claimed };
    claimed.eq_ignore_ascii_case(detected_mime)
}

fn truncated(text: Option<JsonStr<'_>>, max: usize) -> Option<String> {
    text.map(|text| text.prefix(max))
}

/// Writes texts, each on its own line.
fn write_strings(texts: &[JsonStr<'_>], writer: &mut BoundedFile) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(64 * 1024, writer);
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            writer.write_all(b"\n")?;
        }
        text.write_to(&mut writer)?;
    }
    writer.flush()
}

/// Decodes base64 into a file and returns the first bytes.
fn write_decoded(data: JsonStr<'_>, writer: &mut BoundedFile) -> Result<Vec<u8>, SpillError> {
    let mut decoder = DecoderReader::new(data.without_whitespace(), &LENIENT_BASE64);
    let mut buffer = vec![0; 64 * 1024];
    let mut head = Vec::new();
    loop {
        let count = decoder.read(&mut buffer).map_err(|_| SpillError::Undecodable)?;
        if count == 0 {
            return Ok(head);
        }
        let bytes = &buffer[..count];
        head.extend_from_slice(&bytes[..count.min(SNIFF_BYTES - head.len().min(SNIFF_BYTES))]);
        writer.write_all(bytes)?;
    }
}
