//! `Read`: a file's text by lines, a picture, a notebook's cells, the text of a PDF.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::bitmap;
use super::decoded::{Encoding, LineEnds, NotText, decode};
use super::denial::Denial;
use super::grounds::Spot;
use super::holding::{self, Held};
use super::ipynb;
use super::pdf_text;
use super::workplace::{Turn, Workplace, numbered};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How many lines are shown unless told otherwise.
const USUAL_LINES: usize = 2000;
/// How many characters of a line are shown.
const LONGEST_LINE: usize = 2000;
/// How many bytes are shown in all.
pub(super) const MOST: usize = 200_000;

#[derive(Deserialize)]
struct Read {
    file_path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let read = move |context: Context, it: Read| {
        let place = place.clone();
        async move { place.work(context, move |turn| read(&turn, &it)).await }
    };
    let description = "Reads a file. Text comes with line numbers, which are not part of it: 2000 lines unless `limit` says \
        otherwise, from line `offset` on. Also shows pictures (PNG, JPEG, GIF, WebP), the cells of notebooks (.ipynb) and the text of PDFs. \
        A file must be read before it can be edited.";
    let line = json!({"type": "integer", "minimum": 1});
    Tool::new("Read", description, read)
        .title("Read a file")
        .takes(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, counted from 1."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show."},
            }),
            &["file_path"],
        )
        .gives(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "kind": {"enum": ["text", "image", "notebook", "pdf"]},
                "content": {"type": "string", "description": "The text that is shown, without line numbers."},
                "startLine": line,
                "lines": {"type": "integer", "minimum": 0, "description": "How many lines are shown."},
                "totalLines": {"type": "integer", "minimum": 0},
                "nextOffset": {"type": "integer", "minimum": 1, "description": "Where to go on, where there is more."},
                "encoding": {"enum": ["utf-8", "utf-8-bom", "utf-16le", "utf-16be", "unknown"]},
                "lineEnds": {"enum": ["lf", "crlf", "mixed"]},
                "mimeType": {"type": "string"},
                "width": line,
                "height": line,
            },
            "required": ["path", "kind"],
            "additionalProperties": false,
        }))
        .reads()
}

fn read(turn: &Turn, it: &Read) -> Result<Output, Stop> {
    let spot = turn.find(&it.file_path)?;
    let held = match holding::take_in(&spot) {
        Err(Denial::TooLarge { size, limit, .. }) => {
            return Err(Stop::failed(format!(
                "`{}` has {size} bytes, and at most {limit} are read at once; look for what you need with Grep",
                spot.path.display()
            )));
        }
        held => held?,
    };
    let output = match pdf_text::is_pdf(&held.bytes) {
        true => pdf(turn, &spot, it)?,
        false => shown(&spot, &held, it)?,
    };
    turn.remember(&spot, held.stamp);
    Ok(output)
}

fn shown(spot: &Spot, held: &Held, it: &Read) -> Result<Output, Stop> {
    let path = spot.path.display().to_string();
    if let Some(format) = bitmap::format_of(&held.bytes) {
        return picture(&path, &held.bytes, format);
    }
    let is_notebook = spot.path.extension().is_some_and(|it| it == "ipynb");
    let (text, encoding) = match decode(&held.bytes) {
        Ok(decoded) => (decoded.text, decoded.encoding.id()),
        Err(NotText::Broken(Encoding::Utf8)) => {
            (String::from_utf8_lossy(&held.bytes).into_owned(), "unknown")
        }
        Err(why) => {
            let size = held.bytes.len();
            return Err(Stop::failed(format!(
                "`{path}` cannot be shown: {} ({size} bytes)",
                why.words()
            )));
        }
    };
    if is_notebook && let Some(notebook) = ipynb::read(&text) {
        return Ok(notebook.output(&path, encoding));
    }
    lines(&path, &text, Kind::Text { encoding }, it)
}

/// The text of a PDF, which another process makes out: the file is a stranger's, and the library has no limits.
fn pdf(turn: &Turn, spot: &Spot, it: &Read) -> Result<Output, Stop> {
    let path = spot.path.display().to_string();
    let reader = turn.pdf_reader();
    let reader = reader
        .ok_or_else(|| Stop::failed(format!("`{path}` is a PDF, which cannot be read here")))?;
    let file = spot.open()?.file;
    let text = pdf_text::text_of(reader, file)
        .map_err(|why| Stop::failed(format!("the text of `{path}` cannot be made out: {why}")))?;
    lines(&path, &text, Kind::Pdf, it)
}

fn picture(path: &str, bytes: &[u8], format: image::ImageFormat) -> Result<Output, Stop> {
    let fitted = bitmap::fitted(bytes, format)
        .ok_or_else(|| Stop::failed(format!("`{path}` is a picture that cannot be read")))?;
    let (width, height) = fitted.size;
    let words = format!("`{path}`: {}, {width}×{height}", fitted.mime);
    let about = json!({
        "path": path, "kind": "image", "mimeType": fitted.mime, "width": width, "height": height,
    });
    Ok(Output::value(about, words).and_image(&fitted.bytes, fitted.mime))
}

/// What lines are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text { encoding: &'static str },
    Pdf,
}

fn lines(path: &str, text: &str, kind: Kind, it: &Read) -> Result<Output, Stop> {
    let total = text.lines().count();
    let first = it.offset.unwrap_or(1).max(1);
    if first > total.max(1) {
        return Err(Stop::failed(format!(
            "`{path}` has {total} lines; line {first} is beyond its end"
        )));
    }
    let wanted = it.limit.unwrap_or(USUAL_LINES);
    let mut shown: Vec<String> = Vec::new();
    let mut size = 0;
    for line in text.lines().skip(first - 1).take(wanted) {
        let line = cut(line);
        size += line.len() + 8;
        if size > MOST && !shown.is_empty() {
            break;
        }
        shown.push(line);
    }
    let next = first + shown.len();
    let mut about = json!({
        "path": path,
        "kind": "pdf",
        "content": shown.join("\n"),
        "startLine": first,
        "lines": shown.len(),
        "totalLines": total,
    });
    if let Kind::Text { encoding } = kind {
        about["kind"] = json!("text");
        about["encoding"] = json!(encoding);
        about["lineEnds"] = json!(LineEnds::of(text).id());
    }
    let mut words = numbered(shown.iter().map(String::as_str), first);
    if total == 0 {
        words.push_str("(the file is empty)\n");
    }
    if next <= total {
        about["nextOffset"] = Json::from(next);
        words.push_str(&format!(
            "(lines {next} to {total} are not shown; go on with offset {next})\n"
        ));
    }
    if kind == (Kind::Text { encoding: "unknown" }) {
        words.push_str("(the file is not valid UTF-8; what is not is shown as \u{fffd})\n");
    }
    Ok(Output::value(about, words))
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line[end..].chars().count();
            format!("{}… [{more} more characters]", &line[..end])
        }
    }
}
