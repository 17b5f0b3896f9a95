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
use switchboard_wire::message::Payload;

use super::block::{About, Answer, Block, LONGEST_URI, Pieces, members};
use super::keep::{Allowance, Bounded, Keep, KeepErrorKind, Kept, plain_name};
use super::picture::{self, Fitted, Motion, Unfit};
use super::remark::Remark;
use super::sniff::{self, HEAD};
use super::words::Words;
use super::{Limits, Part, Yield};

/// Longer than any media type that means something.
const LONGEST_MIME: usize = 128;
const LONGEST_KIND: usize = 64;
const LONGEST_NAME: usize = 1024;
const LONGEST_DESCRIPTION: usize = 4096;

/// Padding is often forgotten, and means nothing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// One answer while it is gone through.
pub(super) struct Gathering<'a> {
    whole: &'a Bytes,
    server: &'a str,
    limits: &'a Limits,
    allowance: Allowance<'a>,
    pictures: usize,
    parts: Vec<Part>,
    remarks: Vec<Remark>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(
        answer: &'a Payload,
        server: &'a str,
        limits: &'a Limits,
        keep: &'a Keep,
    ) -> Gathering<'a> {
        Gathering {
            whole: answer.as_bytes(),
            server,
            limits,
            allowance: Allowance::new(keep, limits.kept_bytes, limits.kept_files),
            pictures: limits.pictures,
            parts: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub(super) fn of_call(self) -> Yield {
        let Some(answer) = members::<Answer<'a>>(self.whole) else {
            return self.odd();
        };
        match (answer.content, answer.structured) {
            (Some(content), structured) => match Pieces::of(content, self.limits.parts) {
                Ok(pieces) if pieces.taken.is_empty() => match structured {
                    Some(structured) => self.of_structured(structured, &answer),
                    None => self.finish(Vec::new(), 0, &answer),
                },
                Ok(pieces) => {
                    let blocks = pieces.taken.into_iter().map(Block::of_content).collect();
                    self.finish(blocks, pieces.left_out, &answer)
                }
                Err(_) => self.odd_beside(&answer),
            },
            (None, Some(structured)) => self.of_structured(structured, &answer),
            (None, None) => self.odd_beside(&answer),
        }
    }

    pub(super) fn of_read(self) -> Yield {
        let Some(answer) = members::<Answer<'a>>(self.whole) else {
            return self.odd();
        };
        let pieces = answer.contents.map(|contents| Pieces::of(contents, self.limits.parts));
        match pieces {
            Some(Ok(pieces)) => {
                let blocks = pieces.taken.into_iter().map(Block::of_resource).collect();
                self.finish(blocks, pieces.left_out, &answer)
            }
            Some(Err(_)) | None => self.odd_beside(&answer),
        }
    }

    /// Servers should say the same in their content; for those that do not, the JSON is what a model gets to see.
    fn of_structured(mut self, structured: &'a RawValue, answer: &Answer<'a>) -> Yield {
        self.remarks.push(Remark::FromStructured);
        let words = Words::json(structured.get());
        self.finish(vec![Block::Text { words, uri: None }], 0, answer)
    }

    fn odd(self) -> Yield {
        let nothing =
            Answer { content: None, contents: None, structured: None, meta: None, is_error: None };
        self.odd_beside(&nothing)
    }

    fn odd_beside(mut self, answer: &Answer<'a>) -> Yield {
        self.remarks.push(Remark::OddShape);
        let raw = Payload::from_json(self.whole.clone());
        self.parts.push(Part::Unknown { kind: String::new(), raw });
        self.finish(Vec::new(), 0, answer)
    }

    fn finish(mut self, blocks: Vec<Block<'a>>, left_out: usize, answer: &Answer<'a>) -> Yield {
        let most = self.limits.most_characters();
        let texts: Vec<Words<'a>> = blocks.iter().filter_map(text_of).collect();
        let at_most: usize = texts.iter().map(Words::raw_length).sum();
        // Only what may be too much is counted.
        let total = match at_most <= most {
            true => at_most,
            false => texts.iter().map(Words::characters).sum(),
        };
        let full = if left_out > 0 {
            self.keep_whole()
        } else if total > most {
            self.keep_texts(&texts)
        } else {
            None
        };
        let id = || full.as_ref().map(|kept| kept.id.clone());
        if left_out > 0 {
            self.remarks.push(Remark::LeftOut { parts: left_out, id: id() });
        }
        if total > most {
            self.remarks.push(Remark::Cut { shown: most, of: total, id: id() });
        }
        let mut characters = most;
        for block in blocks {
            self.take(block, &mut characters);
        }
        let (structured, meta) = (answer.structured, answer.meta);
        let (structured, meta) =
            (structured.map(|raw| self.share(raw)), meta.map(|raw| self.share(raw)));
        if let Err(kind) = self.allowance.settle() {
            self.remarks.push(Remark::NotKept(kind));
        }
        let is_error = answer.is_error.is_some_and(|raw| raw.get() == "true");
        Yield { parts: self.parts, is_error, structured, meta, full, remarks: self.remarks }
    }

    fn take(&mut self, block: Block<'a>, characters: &mut usize) {
        let part = match block {
            Block::Text { words, uri } => {
                let text = words.first(*characters);
                // A text after the cut is not shown at all; an empty one was meant to be empty.
                if text.is_empty() && words.raw_length() > 0 {
                    return;
                }
                *characters -= text.chars().count();
                Part::Text { text, from_uri: short(uri, LONGEST_URI) }
            }
            Block::Picture { data, mime } => self.picture(data, mime),
            Block::Binary { data, mime, uri } => self.save(data, mime, uri),
            Block::Link { uri, about, raw } => self.link(uri, &about, raw),
            Block::Unknown { kind, raw } => Part::Unknown {
                kind: short(kind, LONGEST_KIND).unwrap_or_default(),
                raw: self.share(raw),
            },
        };
        self.parts.push(part);
    }

    fn link(&self, uri: Words<'a>, about: &About<'a>, raw: &RawValue) -> Part {
        Part::Link {
            uri: uri.first(LONGEST_URI),
            name: short(about.name, LONGEST_NAME),
            mime: short(about.mime, LONGEST_MIME),
            description: short(about.description, LONGEST_DESCRIPTION),
            raw: self.share(raw),
        }
    }

    fn picture(&mut self, data: Words<'a>, mime: Option<Words<'a>>) -> Part {
        let fitted = match self.fit(data) {
            Ok(fitted) => fitted,
            Err(unfit) => {
                self.remarks.push(Remark::NotShown(unfit));
                return self.save(data, mime, None);
            }
        };
        let (Fitted { found, mime: passed_on, size, was, motion, .. }, base64) = fitted;
        if short(mime, LONGEST_MIME).is_some_and(|claimed| !is_same_type(&claimed, found)) {
            self.remarks.push(Remark::Mislabelled { really: found });
        }
        match motion {
            Motion::Moving => self.remarks.push(Remark::FirstFrame),
            Motion::Still => {}
        }
        if size != was {
            self.remarks.push(Remark::Shrunk { from: was, to: size });
        }
        Part::Image { mime: passed_on, base64, width: size.0, height: size.1 }
    }

    fn fit(&mut self, data: Words<'a>) -> Result<(Fitted, String), Unfit> {
        if data.raw_length() > self.limits.picture.looked_at {
            return Err(Unfit::TooLarge);
        }
        self.pictures = self.pictures.checked_sub(1).ok_or(Unfit::TooMany)?;
        let mut bytes = Vec::with_capacity(data.raw_length() / 4 * 3 + 3);
        DecoderReader::new(data.compact(), &LENIENT)
            .read_to_end(&mut bytes)
            .map_err(|_| Unfit::Broken)?;
        let fitted = picture::fit(&bytes, &self.limits.picture)?;
        let base64 = STANDARD.encode(fitted.bytes.as_deref().unwrap_or(&bytes));
        Ok((fitted, base64))
    }

    fn save(&mut self, data: Words<'a>, mime: Option<Words<'a>>, uri: Option<Words<'a>>) -> Part {
        let mime = short(mime, LONGEST_MIME);
        let from_uri = short(uri, LONGEST_URI);
        let server = plain_name(self.server);
        let decoded = self.allowance.write(
            |to| decode_to(data, to),
            |id, head| {
                let nature = sniff::nature(head, mime.as_deref());
                format!("{server}-{id}.{}", nature.extension)
            },
        );
        let written = match decoded {
            Err(KeepErrorKind::Undecodable) => {
                self.remarks.push(Remark::NotBase64);
                let verbatim = |to: &mut Bounded| {
                    write_words(&[data], to)?;
                    Ok(Vec::new())
                };
                self.allowance.write(verbatim, |id, _| format!("{server}-{id}.base64"))
            }
            decoded => decoded,
        };
        match written {
            Ok(written) => {
                let nature = sniff::nature(&written.found, None);
                let mime = nature.mime.map(str::to_owned).or(mime);
                Part::Saved { path: written.path, mime, bytes: written.bytes, from_uri }
            }
            Err(kind) => {
                self.remarks.push(Remark::NotKept(kind));
                Part::Unsaved { mime, from_uri }
            }
        }
    }

    fn keep_whole(&mut self) -> Option<Kept> {
        let whole = std::str::from_utf8(self.whole).unwrap_or_default();
        self.keep_texts(&[Words::json(whole)])
    }

    fn keep_texts(&mut self, texts: &[Words<'_>]) -> Option<Kept> {
        let written =
            self.allowance.write(|to| Ok(write_words(texts, to)?), |id, ()| format!("{id}.txt"));
        match written {
            Ok(written) => Some(Kept { id: written.id, path: written.path }),
            Err(kind) => {
                self.remarks.push(Remark::NotKept(kind));
                None
            }
        }
    }

    /// A piece of the answer. A small piece is copied, or it would hold on to all of a large answer.
    fn share(&self, raw: &RawValue) -> Payload {
        let piece = raw.get().as_bytes();
        if piece.len() < self.whole.len() / 4 {
            Payload::from_json(Bytes::copy_from_slice(piece))
        } else {
            Payload::from_json(self.whole.slice_ref(piece))
        }
    }
}

fn text_of<'a>(block: &Block<'a>) -> Option<Words<'a>> {
    match block {
        Block::Text { words, .. } => Some(*words),
        Block::Picture { .. }
        | Block::Binary { .. }
        | Block::Link { .. }
        | Block::Unknown { .. } => None,
    }
}

fn is_same_type(claimed: &str, found: &str) -> bool {
    // Not a registered type, but what half the world writes.
    let claimed = if claimed.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { claimed };
    claimed.eq_ignore_ascii_case(found)
}

fn short(words: Option<Words<'_>>, most: usize) -> Option<String> {
    words.map(|words| words.first(most))
}

/// Texts one after the other, each on a line of its own.
fn write_words(texts: &[Words<'_>], to: &mut Bounded) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 * 1024, to);
    for (index, words) in texts.iter().enumerate() {
        if index > 0 {
            to.write_all(b"\n")?;
        }
        words.write_to(&mut to)?;
    }
    to.flush()
}

/// Writes what base64 stands for, and gives back the beginning of it.
fn decode_to(data: Words<'_>, to: &mut Bounded) -> Result<Vec<u8>, KeepErrorKind> {
    let mut decoder = DecoderReader::new(data.compact(), &LENIENT);
    let mut buffer = vec![0; 64 * 1024];
    let mut head = Vec::new();
    loop {
        let count = decoder.read(&mut buffer).map_err(|_| KeepErrorKind::Undecodable)?;
        if count == 0 {
            return Ok(head);
        }
        let bytes = &buffer[..count];
        head.extend_from_slice(&bytes[..count.min(HEAD - head.len().min(HEAD))]);
        to.write_all(bytes)?;
    }
}
