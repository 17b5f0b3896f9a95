//! The results of a benchmark: a page, its plots, and which budgets were met. This file prints and stores them; a
//! quick run stores nothing.

use std::fs;

use crate::effort::Effort;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The report of a benchmark.
#[derive(Debug)]
pub struct Report {
    /// The name: the word on the command line, and the file name of the page.
    pub name: &'static str,
    /// The page.
    pub text: String,
    /// The plots of the page.
    pub pictures: Vec<Picture>,
    /// Every budget: subject, limit, measured value, and whether it was met.
    pub budgets: Vec<Vec<String>>,
    /// How much was measured.
    pub extent: Extent,
}

/// How much was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole page.
    Whole,
    /// A part, which is not stored as a page.
    Part,
}

/// A plot beside a page.
#[derive(Debug)]
pub struct Picture {
    name: String,
    alt_text: String,
    svg: String,
}

impl Picture {
    /// A plot with this file name, without its extension.
    pub fn new(name: &str, alternative: &str, svg: String) -> Picture {
        Picture { name: name.to_owned(), alt_text: alternative.to_owned(), svg }
    }

    /// The Markdown that shows the plot.
    pub fn link(&self) -> String {
        format!("![{}]({}.svg)\n", self.alt_text, self.name)
    }
}

impl Report {
    /// Prints the report, and stores it if the run is a full one.
    pub fn save(&self, workspace: &Workspace) -> Result<(), Failure> {
        print!("{}", self.text);
        match (self.extent, Effort::chosen()) {
            (Extent::Whole, Effort::Full) => {}
            (Extent::Part, _) | (Extent::Whole, Effort::Quick) => return Ok(()),
        }
        let write = |name: String, text: &str| {
            let path = workspace.report_path(&name);
            let folder = path.parent().unwrap_or(&path);
            fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
            fs::write(&path, text).map_err(|error| Failure::file(&path, error))
        };
        for picture in &self.pictures {
            write(format!("{}.svg", picture.name), &picture.svg)?;
        }
        write(format!("{}.md", self.name), &self.text)
    }
}
