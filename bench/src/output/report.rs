//! What a benchmark leaves behind: a page, its pictures, and which budgets were met.
//! This file prints and keeps them; a run that only tries whether everything works keeps nothing.

use std::fs;

use crate::effort::Effort;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// What it is called: the word on the command line, and the page's file.
    pub name: &'static str,
    /// The page.
    pub text: String,
    /// The pictures that the page shows.
    pub pictures: Vec<Picture>,
    /// Every budget: what, limit, what was measured, and whether that meets it.
    pub budgets: Vec<Vec<String>>,
    /// How much of it was measured.
    pub extent: Extent,
}

/// How much was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All that is on the page.
    Whole,
    /// A part, which is no page.
    Part,
}

/// A picture beside a page.
#[derive(Debug)]
pub struct Picture {
    name: String,
    alt_text: String,
    svg: String,
}

impl Picture {
    /// A picture with a file of this name, without its ending.
    pub fn new(name: &str, alternative: &str, svg: String) -> Picture {
        Picture { name: name.to_owned(), alt_text: alternative.to_owned(), svg }
    }

    /// How a page shows it.
    pub fn link(&self) -> String {
        format!("![{}]({}.svg)\n", self.alt_text, self.name)
    }
}

impl Report {
    /// Prints it, and keeps it where that is due.
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
