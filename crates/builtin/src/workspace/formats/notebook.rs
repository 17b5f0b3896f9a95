//! Jupyter notebooks: cells, outputs and pictures.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::image;
use super::image::PreparedImage;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::limits::MAX_SHOWN_BYTES;

/// The maximum number of pictures.
const MAX_IMAGES: usize = 8;
/// The maximum length of one output, in characters.
const MAX_CELL_OUTPUT_LENGTH: usize = 10_000;

/// A rendered notebook.
pub(crate) struct NotebookView {
    text: String,
    cells: usize,
    omitted_cells: usize,
    images: Vec<PreparedImage>,
}

/// Parses a notebook; `None` if the text is not one.
pub(crate) fn parse_notebook(text: &str) -> Option<NotebookView> {
    let json: Json = serde_json::from_str(text).ok()?;
    let cells = json["cells"].as_array()?;
    let language = json["metadata"]["language_info"]["name"].as_str().unwrap_or("code");
    let mut notebook = NotebookView {
        text: String::new(),
        cells: cells.len(),
        omitted_cells: 0,
        images: Vec::new(),
    };
    for (number, cell) in (1..).zip(cells) {
        if notebook.text.len() > MAX_SHOWN_BYTES {
            notebook.omitted_cells = cells.len() + 1 - number;
            break;
        }
        let kind = cell["cell_type"].as_str().unwrap_or("raw");
        let kind = if kind == "code" { language } else { kind };
        notebook.text.push_str(&format!("[cell {number}, {kind}]\n"));
        notebook.push_text(&join_lines(&cell["source"]));
        for output in cell["outputs"].as_array().into_iter().flatten() {
            notebook.push_output(output);
        }
    }
    Some(notebook)
}

/// Notebooks store texts as a string or as a list of lines.
fn join_lines(text: &Json) -> String {
    match text {
        Json::String(text) => text.clone(),
        Json::Array(lines) => lines.iter().filter_map(Json::as_str).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

impl NotebookView {
    fn push_text(&mut self, text: &str) {
        self.text.extend(text.chars().take(MAX_SHOWN_BYTES));
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn push_output(&mut self, output: &Json) {
        let data = &output["data"];
        let text = match output["output_type"].as_str() {
            Some("stream") => join_lines(&output["text"]),
            Some("error") => {
                let field = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {}", field("ename"), field("evalue"))
            }
            Some(_) | None => join_lines(&data["text/plain"]),
        };
        if !text.is_empty() {
            let text: String = text.chars().take(MAX_CELL_OUTPUT_LENGTH).collect();
            self.text.push_str("[output]\n");
            self.push_text(&text);
        }
        for mime in ["image/png", "image/jpeg"] {
            let encoded: String = join_lines(&data[mime]).split_whitespace().collect();
            let bytes = STANDARD.decode(encoded).unwrap_or_default();
            let image = image::detect_format(&bytes).and_then(|it| image::prepare(&bytes, it));
            if let (Some(image), true) = (image, self.images.len() < MAX_IMAGES) {
                self.images.push(image);
                self.text.push_str(&format!("[picture {}]\n", self.images.len()));
            }
        }
    }

    pub(crate) fn into_output(mut self, path: &str, encoding: &str) -> ToolOutput {
        if self.omitted_cells > 0 {
            self.text.push_str(&format!("(the last {} cells are not shown)\n", self.omitted_cells));
        }
        if self.cells == 0 {
            self.text.push_str("(the notebook has no cells)\n");
        }
        let structured =
            json!({"path": path, "kind": "notebook", "content": self.text, "encoding": encoding});
        let output = ToolOutput::structured(structured, self.text);
        self.images.iter().fold(output, |output, it| output.with_image(&it.bytes, it.mime_type))
    }
}
