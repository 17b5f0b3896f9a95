//! Goes through an answer once and turns each piece of it into what is shown. Pieces are looked at where they lie in
//! the payload; what goes to disk is decoded on its way there.

use std::io::{self, BufWriter, Read, Write};

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::read::DecoderReader;
use bytes::Bytes;
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message::Payload;

use super::block::{Block, LinkMeta, MAX_URI_BYTES, RawItems, RawResult, members};
use super::image_fit;
use super::image_fit::{Animation, FittedImage, ImageRejection};
use super::json_str::JsonStr;
use super::mime;
use super::mime::SNIFF_BYTES;
use super::note::Note;
use super::spill::{BoundedFile, SpillBudget, SpillError, SpillFile, SpillStore, plain_name};
use super::{ContentBlock, OutputLimits, ToolOutput};

/// Longer than any media type that means something.
const MAX_MIME_CHARS: usize = 128;
const MAX_KIND_CHARS: usize = 64;
const MAX_NAME_CHARS: usize = 1024;
const MAX_DESCRIPTION_CHARS: usize = 4096;

/// Padding is often forgotten, and means nothing.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// One answer while it is gone through.
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
        answer: &'a Payload,
        server: &'a str,
        limits: &'a OutputLimits,
        spill_store: &'a SpillStore,
    ) -> OutputBuilder<'a> {
        OutputBuilder {
            response: answer.as_bytes(),
            server,
            limits,
            budget: SpillBudget::new(spill_store, limits.spill_bytes, limits.spill_files),
            images_left: limits.images,
            blocks: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn from_tool_call(self) -> ToolOutput {
        let Some(answer) = members::<RawResult<'a>>(self.response) else {
            return self.unrecognised();
        };
        match (answer.content, answer.structured) {
            (Some(content), structured) => match RawItems::of(content, self.limits.blocks) {
                Ok(pieces) if pieces.taken.is_empty() => match structured {
                    Some(structured) => self.from_structured(structured, &answer),
                    None => self.finish(Vec::new(), 0, &answer),
                },
                Ok(pieces) => {
                    let blocks = pieces.taken.into_iter().map(Block::of_content).collect();
                    self.finish(blocks, pieces.omitted, &answer)
                }
                Err(_) => self.unrecognised_with(&answer),
            },
            (None, Some(structured)) => self.from_structured(structured, &answer),
            (None, None) => self.unrecognised_with(&answer),
        }
    }

    pub(crate) fn from_resource_read(self) -> ToolOutput {
        let Some(answer) = members::<RawResult<'a>>(self.response) else {
            return self.unrecognised();
        };
        let pieces = answer.contents.map(|contents| RawItems::of(contents, self.limits.blocks));
        match pieces {
            Some(Ok(pieces)) => {
                let blocks = pieces.taken.into_iter().map(Block::of_resource).collect();
                self.finish(blocks, pieces.omitted, &answer)
            }
            Some(Err(_)) | None => self.unrecognised_with(&answer),
        }
    }

    /// Servers should say the same in their content; for those that do not, the JSON is what a model gets to see.
    fn from_structured(mut self, structured: &'a RawValue, answer: &RawResult<'a>) -> ToolOutput {
        self.notes.push(Note::FromStructured);
        let text = JsonStr::verbatim(structured.get());
        self.finish(vec![Block::Text { text, uri: None }], 0, answer)
    }

    fn unrecognised(self) -> ToolOutput {
        let nothing = RawResult {
            content: None,
            contents: None,
            structured: None,
            meta: None,
            is_error: None,
        };
        self.unrecognised_with(&nothing)
    }

    fn unrecognised_with(mut self, answer: &RawResult<'a>) -> ToolOutput {
        self.notes.push(Note::UnexpectedShape);
        let raw = Payload::from_json(self.response.clone());
        self.blocks.push(ContentBlock::Unknown { kind: String::new(), raw });
        self.finish(Vec::new(), 0, answer)
    }

    fn finish(
        mut self,
        blocks: Vec<Block<'a>>,
        omitted: usize,
        answer: &RawResult<'a>,
    ) -> ToolOutput {
        let max = self.limits.max_characters();
        let texts: Vec<JsonStr<'a>> = blocks.iter().filter_map(text_of).collect();
        let at_most: usize = texts.iter().map(JsonStr::raw_len).sum();
        // Only what may be too much is counted.
        let total = match at_most <= max {
            true => at_most,
            false => texts.iter().map(JsonStr::char_count).sum(),
        };
        let full = if omitted > 0 {
            self.spill_response()
        } else if total > max {
            self.spill_text(&texts)
        } else {
            None
        };
        let id = || full.as_ref().map(|kept| kept.id.clone());
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
        let (structured, meta) = (answer.structured, answer.meta);
        let (structured, meta) =
            (structured.map(|raw| self.slice(raw)), meta.map(|raw| self.slice(raw)));
        if let Err(kind) = self.budget.sweep_if_used() {
            self.notes.push(Note::SpillFailed(kind));
        }
        let is_error = answer.is_error.is_some_and(|raw| raw.get() == "true");
        ToolOutput {
            blocks: self.blocks,
            is_error,
            structured,
            meta,
            full_text: full,
            notes: self.notes,
        }
    }

    fn add_block(&mut self, block: Block<'a>, characters: &mut usize) {
        let part = match block {
            Block::Text { text: whole, uri } => {
                let text = whole.prefix(*characters);
                // A text after the cut is not shown at all; an empty one was meant to be empty.
                if text.is_empty() && whole.raw_len() > 0 {
                    return;
                }
                *characters -= text.chars().count();
                ContentBlock::Text { text, from_uri: truncated(uri, MAX_URI_BYTES) }
            }
            Block::Image { data, mime } => self.picture(data, mime),
            Block::Binary { data, mime, uri } => self.save(data, mime, uri),
            Block::Link { uri, about, raw } => self.link(uri, &about, raw),
            Block::Unknown { kind, raw } => ContentBlock::Unknown {
                kind: truncated(kind, MAX_KIND_CHARS).unwrap_or_default(),
                raw: self.slice(raw),
            },
        };
        self.blocks.push(part);
    }

    fn link(&self, uri: JsonStr<'a>, about: &LinkMeta<'a>, raw: &RawValue) -> ContentBlock {
        ContentBlock::Link {
            uri: uri.prefix(MAX_URI_BYTES),
            name: truncated(about.name, MAX_NAME_CHARS),
            mime: truncated(about.mime, MAX_MIME_CHARS),
            description: truncated(about.description, MAX_DESCRIPTION_CHARS),
            raw: self.slice(raw),
        }
    }

    fn picture(&mut self, data: JsonStr<'a>, mime: Option<JsonStr<'a>>) -> ContentBlock {
        let fitted = match self.fit(data) {
            Ok(fitted) => fitted,
            Err(unfit) => {
                self.notes.push(Note::ImageNotShown(unfit));
                return self.save(data, mime, None);
            }
        };
        let (
            FittedImage {
                found, mime: passed_on, size, original_size: was, animation: motion, ..
            },
            base64,
        ) = fitted;
        if truncated(mime, MAX_MIME_CHARS).is_some_and(|claimed| !is_same_type(&claimed, found)) {
            self.notes.push(Note::MimeMismatch { actual: found });
        }
        match motion {
            Animation::Animated => self.notes.push(Note::AnimationFlattened),
            Animation::Static => {}
        }
        if size != was {
            self.notes.push(Note::ImageResized { from: was, to: size });
        }
        ContentBlock::Image { mime: passed_on, base64, width: size.0, height: size.1 }
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
        let server = plain_name(self.server);
        let decoded = self.budget.write(
            |to| write_decoded(data, to),
            |id, head| {
                let nature = mime::detect(head, mime.as_deref());
                format!("{server}-{id}.{}", nature.extension)
            },
        );
        let written = match decoded {
            Err(SpillError::Undecodable) => {
                self.notes.push(Note::InvalidBase64);
                let verbatim = |to: &mut BoundedFile| {
                    write_strings(&[data], to)?;
                    Ok(Vec::new())
                };
                self.budget.write(verbatim, |id, _| format!("{server}-{id}.base64"))
            }
            decoded => decoded,
        };
        match written {
            Ok(written) => {
                let nature = mime::detect(&written.found, None);
                let mime = nature.mime.map(str::to_owned).or(mime);
                ContentBlock::Saved { path: written.path, mime, bytes: written.bytes, from_uri }
            }
            Err(kind) => {
                self.notes.push(Note::SpillFailed(kind));
                ContentBlock::NotSaved { mime, from_uri }
            }
        }
    }

    fn spill_response(&mut self) -> Option<SpillFile> {
        let whole = std::str::from_utf8(self.response).unwrap_or_default();
        self.spill_text(&[JsonStr::verbatim(whole)])
    }

    fn spill_text(&mut self, texts: &[JsonStr<'_>]) -> Option<SpillFile> {
        let written =
            self.budget.write(|to| Ok(write_strings(texts, to)?), |id, ()| format!("{id}.txt"));
        match written {
            Ok(written) => Some(SpillFile { id: written.id, path: written.path }),
            Err(kind) => {
                self.notes.push(Note::SpillFailed(kind));
                None
            }
        }
    }

    /// A piece of the answer. A small piece is copied, or it would hold on to all of a large answer.
    fn slice(&self, raw: &RawValue) -> Payload {
        let piece = raw.get().as_bytes();
        if piece.len() < self.response.len() / 4 {
            Payload::from_json(Bytes::copy_from_slice(piece))
        } else {
            Payload::from_json(self.response.slice_ref(piece))
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

fn is_same_type(claimed: &str, found: &str) -> bool {
    // Not a registered type, but what half the world writes.
    let claimed = if claimed.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { claimed };
    claimed.eq_ignore_ascii_case(found)
}

fn truncated(text: Option<JsonStr<'_>>, max: usize) -> Option<String> {
    text.map(|text| text.prefix(max))
}

/// Texts one after the other, each on a line of its own.
fn write_strings(texts: &[JsonStr<'_>], to: &mut BoundedFile) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 * 1024, to);
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            to.write_all(b"\n")?;
        }
        text.write_to(&mut to)?;
    }
    to.flush()
}

/// Writes what base64 stands for, and gives back the beginning of it.
fn write_decoded(data: JsonStr<'_>, to: &mut BoundedFile) -> Result<Vec<u8>, SpillError> {
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
        to.write_all(bytes)?;
    }
}
