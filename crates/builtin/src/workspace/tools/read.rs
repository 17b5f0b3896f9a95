//! The tool `Read`: the lines of a file, a picture, a notebook's cells, or a PDF's text.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::files::contents;
use crate::workspace::files::contents::FileContents;
use crate::workspace::files::file_error::FileError;
use crate::workspace::files::resolved_path::ResolvedPath;
use crate::workspace::files::text_encoding::{
    DecodeError, Encoding, LineEndings, decode, with_line_numbers,
};
use crate::workspace::formats::image;
use crate::workspace::formats::notebook;
use crate::workspace::formats::pdf_text;
use crate::workspace::limits::MAX_SHOWN_BYTES;
use crate::workspace::session::WorkspaceSession;

/// The default number of lines.
const DEFAULT_LINES: usize = 2000;
/// The maximum length of a shown line, in characters.
const MAX_LINE_LENGTH: usize = 2000;

#[derive(Deserialize)]
struct ReadArguments {
    file_path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let read = move |context: HandlerContext, it: ReadArguments| {
        let session = session.clone();
        async move { session.run_blocking(context, move |access| read(&access, &it)).await }
    };
    let description = "Reads a file. Text comes with line numbers, which are not part of it: 2000 lines unless `limit` says \
        otherwise, from line `offset` on. Also shows pictures (PNG, JPEG, GIF, WebP), the cells of notebooks (.ipynb) and the text of PDFs. \
        A file must be read before it can be edited.";
    let line = json!({"type": "integer", "minimum": 1});
    Tool::new("Read", description, read)
        .title("Read a file")
        .input_schema(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, counted from 1."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show."},
            }),
            &["file_path"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "kind": {"enum": ["text", "image", "notebook", "pdf"]},
                "content": {"type": "string", "description": "The text that is shown, without line numbers."},
                "startLine": line,
                "lines": {"type": "integer", "minimum": 0, "description": "How many lines are shown."},
                "totalLines": {"type": "integer", "minimum": 0},
                "nextOffset": {"type": "integer", "minimum": 1, "description": "The offset of the next page, if there is more."},
                "encoding": {"enum": ["utf-8", "utf-8-bom", "utf-16le", "utf-16be", "unknown"]},
                "lineEnds": {"enum": ["lf", "crlf", "mixed"]},
                "mimeType": {"type": "string"},
                "width": line,
                "height": line,
            },
            "required": ["path", "kind"],
            "additionalProperties": false,
        }))
        .read_only()
}

fn read(access: &FileAccess, it: &ReadArguments) -> Result<ToolOutput, HandlerError> {
    let resolved = access.resolve(&it.file_path)?;
    let contents = match contents::read_contents(&resolved) {
        Err(FileError::TooLarge { size, limit, .. }) => {
            return Err(HandlerError::failed(format!(
                "`{}` has {size} bytes, and at most {limit} are read at once; look for what you need with Grep",
                resolved.path.display()
            )));
        }
        contents => contents?,
    };
    let output = match pdf_text::is_pdf(&contents.bytes) {
        true => pdf_output(access, &resolved, it)?,
        false => contents_output(&resolved, &contents, it)?,
    };
    access.remember_read(&resolved, contents.fingerprint);
    Ok(output)
}

fn contents_output(
    resolved: &ResolvedPath,
    contents: &FileContents,
    it: &ReadArguments,
) -> Result<ToolOutput, HandlerError> {
    let path = resolved.path.display().to_string();
    if let Some(format) = image::detect_format(&contents.bytes) {
        return image_output(&path, &contents.bytes, format);
    }
    let is_notebook = resolved.path.extension().is_some_and(|it| it == "ipynb");
    let (text, encoding) = match decode(&contents.bytes) {
        Ok(decoded) => (decoded.text, decoded.encoding.name()),
        Err(DecodeError::Invalid(Encoding::Utf8)) => {
            (String::from_utf8_lossy(&contents.bytes).into_owned(), "unknown")
        }
        Err(error) => {
            let size = contents.bytes.len();
            return Err(HandlerError::failed(format!(
                "`{path}` cannot be shown: {} ({size} bytes)",
                error.description()
            )));
        }
    };
    if is_notebook && let Some(notebook) = notebook::parse_notebook(&text) {
        return Ok(notebook.into_output(&path, encoding));
    }
    lines_output(&path, &text, LineSource::Text { encoding }, it)
}

/// The text of a PDF. Another process extracts it, because the file is untrusted and the library has no limits.
fn pdf_output(
    access: &FileAccess,
    resolved: &ResolvedPath,
    it: &ReadArguments,
) -> Result<ToolOutput, HandlerError> {
    let path = resolved.path.display().to_string();
    let reader = access.pdf_reader();
    let reader = reader.ok_or_else(|| {
        HandlerError::failed(format!("`{path}` is a PDF, which cannot be read here"))
    })?;
    let file = resolved.open()?.file;
    let text = pdf_text::extract_text(reader, file).map_err(|error| {
        HandlerError::failed(format!("the text of `{path}` cannot be extracted: {error}"))
    })?;
    lines_output(&path, &text, LineSource::Pdf, it)
}

fn image_output(
    path: &str,
    bytes: &[u8],
    format: ::image::ImageFormat,
) -> Result<ToolOutput, HandlerError> {
    let image = image::prepare(bytes, format).ok_or_else(|| {
        HandlerError::failed(format!("`{path}` is a picture that cannot be decoded"))
    })?;
    let (width, height) = image.size;
    let message = format!("`{path}`: {}, {width}×{height}", image.mime_type);
    let structured = json!({
        "path": path, "kind": "image", "mimeType": image.mime_type, "width": width, "height": height,
    });
    Ok(ToolOutput::structured(structured, message).with_image(&image.bytes, image.mime_type))
}

/// Where the lines come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineSource {
    Text { encoding: &'static str },
    Pdf,
}

fn lines_output(
    path: &str,
    text: &str,
    kind: LineSource,
    it: &ReadArguments,
) -> Result<ToolOutput, HandlerError> {
    let total = text.lines().count();
    let first = it.offset.unwrap_or(1).max(1);
    if first > total.max(1) {
        return Err(HandlerError::failed(format!(
            "`{path}` has {total} lines; line {first} is beyond its end"
        )));
    }
    let limit = it.limit.unwrap_or(DEFAULT_LINES);
    let mut shown: Vec<String> = Vec::new();
    let mut size = 0;
    for line in text.lines().skip(first - 1).take(limit) {
        let line = truncate_line(line);
        size += line.len() + 8;
        if size > MAX_SHOWN_BYTES && !shown.is_empty() {
            break;
        }
        shown.push(line);
    }
    let next = first + shown.len();
    let mut structured = json!({
        "path": path,
        "kind": "pdf",
        "content": shown.join("\n"),
        "startLine": first,
        "lines": shown.len(),
        "totalLines": total,
    });
    if let LineSource::Text { encoding } = kind {
        structured["kind"] = json!("text");
        structured["encoding"] = json!(encoding);
        structured["lineEnds"] = json!(LineEndings::detect(text).name());
    }
    let mut message = with_line_numbers(shown.iter().map(String::as_str), first);
    if total == 0 {
        message.push_str("(the file is empty)\n");
    }
    if next <= total {
        structured["nextOffset"] = Json::from(next);
        message.push_str(&format!(
            "(lines {next} to {total} are not shown; go on with offset {next})\n"
        ));
    }
    if kind == (LineSource::Text { encoding: "unknown" }) {
        message.push_str("(the file is not valid UTF-8; invalid bytes are shown as \u{fffd})\n");
    }
    Ok(ToolOutput::structured(structured, message))
}

fn truncate_line(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_LENGTH) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line[end..].chars().count();
            format!("{}… [{more} more characters]", &line[..end])
        }
    }
}
