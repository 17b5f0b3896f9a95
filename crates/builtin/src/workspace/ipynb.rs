//! Notebooks: their cells, what these printed, and the pictures that they drew.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::bitmap::{self, Fitted};
use super::read_tool::MOST;
use crate::content::Output;

/// How many pictures are shown.
const MOST_PICTURES: usize = 8;
/// How much of one output is shown, in characters.
const LONGEST_OUTPUT: usize = 10_000;

/// What is shown of a notebook.
pub(super) struct Notebook {
    text: String,
    cells: usize,
    left_out: usize,
    pictures: Vec<Fitted>,
}

/// Reads a notebook, where the text is one.
pub(super) fn read(text: &str) -> Option<Notebook> {
    let json: Json = serde_json::from_str(text).ok()?;
    let cells = json["cells"].as_array()?;
    let language = json["metadata"]["language_info"]["name"].as_str().unwrap_or("code");
    let mut notebook =
        Notebook { text: String::new(), cells: cells.len(), left_out: 0, pictures: Vec::new() };
    for (number, cell) in (1..).zip(cells) {
        if notebook.text.len() > MOST {
            notebook.left_out = cells.len() + 1 - number;
            break;
        }
        let kind = cell["cell_type"].as_str().unwrap_or("raw");
        let kind = if kind == "code" { language } else { kind };
        notebook.text.push_str(&format!("[cell {number}, {kind}]\n"));
        notebook.add(&joined(&cell["source"]));
        for output in cell["outputs"].as_array().into_iter().flatten() {
            notebook.add_output(output);
        }
    }
    Some(notebook)
}

/// Notebooks keep texts whole or as lists of lines.
fn joined(text: &Json) -> String {
    match text {
        Json::String(text) => text.clone(),
        Json::Array(lines) => lines.iter().filter_map(Json::as_str).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

impl Notebook {
    fn add(&mut self, text: &str) {
        self.text.extend(text.chars().take(MOST));
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn add_output(&mut self, output: &Json) {
        let data = &output["data"];
        let text = match output["output_type"].as_str() {
            Some("stream") => joined(&output["text"]),
            Some("error") => {
                let word = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {}", word("ename"), word("evalue"))
            }
            Some(_) | None => joined(&data["text/plain"]),
        };
        if !text.is_empty() {
            let text: String = text.chars().take(LONGEST_OUTPUT).collect();
            self.text.push_str("[output]\n");
            self.add(&text);
        }
        for mime in ["image/png", "image/jpeg"] {
            let encoded: String = joined(&data[mime]).split_whitespace().collect();
            let bytes = STANDARD.decode(encoded).unwrap_or_default();
            let fitted = bitmap::format_of(&bytes).and_then(|it| bitmap::fitted(&bytes, it));
            if let (Some(fitted), true) = (fitted, self.pictures.len() < MOST_PICTURES) {
                self.pictures.push(fitted);
                self.text.push_str(&format!("[picture {}]\n", self.pictures.len()));
            }
        }
    }

    pub(super) fn output(mut self, path: &str, encoding: &str) -> Output {
        if self.left_out > 0 {
            self.text.push_str(&format!("(the last {} cells are not shown)\n", self.left_out));
        }
        if self.cells == 0 {
            self.text.push_str("(the notebook has no cells)\n");
        }
        let about =
            json!({"path": path, "kind": "notebook", "content": self.text, "encoding": encoding});
        let output = Output::value(about, self.text);
        self.pictures.iter().fold(output, |output, it| output.and_image(&it.bytes, it.mime))
    }
}
