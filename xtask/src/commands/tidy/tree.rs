//! Reads the repository once for all rules: its text files, and its parsed Rust files.

use crate::failure::Failure;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::source::Source;

/// Folders, at any depth, that are not part of the project.
const SKIPPED: &[&str] = &[".git", "node_modules"];
/// Cargo and other tools write this file to folders that can be regenerated.
const CACHE_MARK: &str = "CACHEDIR.TAG";
/// Extensions of text files. Lock files are left out: their addresses are generated.
const TEXT: &[&str] = &["json", "jsonc", "md", "rs", "sh", "toml", "txt", "yaml", "yml"];

/// The repository.
#[derive(Debug)]
pub struct Tree {
    /// Every text file, Rust included.
    pub texts: Vec<TextFile>,
    /// Every Rust file.
    pub sources: Vec<RustFile>,
}

/// A text file.
#[derive(Debug)]
pub struct TextFile {
    /// The path from the root, separated by `/`.
    pub path: String,
    /// The contents.
    pub text: String,
}

/// A Rust file.
#[derive(Debug)]
pub struct RustFile {
    /// The path from the root, separated by `/`.
    pub path: String,
    /// The parsed contents.
    pub source: Source,
}

impl RustFile {
    /// The folder in `crates/` it belongs to, if it lies below that crate's `src`.
    pub fn product_crate(&self) -> Option<&str> {
        let folder = crate_folder(&self.path)?;
        self.path.starts_with(&format!("crates/{folder}/src/")).then_some(folder)
    }

    /// The file name without its extension.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// Whether it is an integration test or one of its modules.
    pub fn is_integration_test(&self) -> bool {
        self.path.split('/').take_while(|folder| *folder != "src").any(|folder| folder == "tests")
    }

    /// The folder of the files of its submodules.
    fn module_folder(&self) -> String {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match self.stem() {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => format!("{folder}/{stem}"),
        }
    }
}

/// The folder in `crates/` that contains the path.
pub fn crate_folder(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_prefix("crates/")?.split_once('/')?;
    Some(folder)
}

impl Tree {
    /// Reads everything below `root`.
    pub fn read(root: &Path) -> Result<Self, TreeError> {
        let mut paths = Vec::new();
        walk(root, root, &mut paths)?;
        paths.sort();
        let mut tree = Tree { texts: Vec::new(), sources: Vec::new() };
        for path in paths {
            let file = root.join(&path);
            let text =
                fs::read_to_string(&file).map_err(|error| TreeError { path: file, error })?;
            if path.ends_with(".rs") {
                tree.sources.push(RustFile { path: path.clone(), source: Source::parse(&text) });
            }
            tree.texts.push(TextFile { path, text });
        }
        tree.mark_tests();
        Ok(tree)
    }

    /// Marks files as tests by their folder or by a test-only `mod` item.
    fn mark_tests(&mut self) {
        let test_modules: Vec<String> = self
            .sources
            .iter()
            .flat_map(|file| {
                let folder = file.module_folder();
                file.source.test_modules.iter().map(move |name| format!("{folder}/{name}"))
            })
            .collect();
        let is_test_module = |path: &str| {
            test_modules.iter().any(|module| {
                let rest = path.strip_prefix(module.as_str());
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
        };
        for file in &mut self.sources {
            if file.is_integration_test() || is_test_module(&file.path) {
                file.source.mark_all_as_test();
            }
        }
    }
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<(), TreeError> {
    let wrap = |error| TreeError { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(wrap)? {
        let entry = entry.map_err(wrap)?;
        let path = entry.path();
        // Symbolic links are not followed: their targets are either in the repository anyway or not part of it.
        let kind = entry.file_type().map_err(wrap)?;
        if kind.is_dir() && !is_skipped(root, &path) {
            walk(root, &path, paths)?;
        } else if kind.is_file()
            && let Ok(inside) = path.strip_prefix(root)
            && is_text(inside)
        {
            let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
            paths.push(parts.join("/"));
        }
    }
    Ok(())
}

fn is_skipped(root: &Path, folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    SKIPPED.iter().any(|skipped| name == *skipped)
        // Not by name alone: a module may also be called `target`.
        || folder == root.join("target")
        || folder.join(CACHE_MARK).exists()
}

fn is_text(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    TEXT.iter().any(|text| ending == *text) || path.starts_with(".ci")
}

/// A file or folder of the repository that could not be read.
#[derive(Debug)]
pub struct TreeError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for TreeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "could not read `{}`", self.path.display())
    }
}

impl Error for TreeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        Failure::Command(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tidy::fixture::repository;
    use crate::commands::tidy::source::LineKind;

    #[test]
    fn only_text_files_of_the_repository_are_read() {
        let folder = repository(&[
            (".ci/run", ""),
            (".git/config.toml", ""),
            ("Cargo.lock", ""),
            ("cache/CACHEDIR.TAG", ""),
            ("cache/a.rs", ""),
            ("crates/host/src/target/b.rs", ""),
            ("docs/node_modules/c.json", ""),
            ("logo.png", ""),
            ("target/d.rs", ""),
        ]);

        let tree = Tree::read(folder.path()).unwrap();

        let paths: Vec<&str> = tree.texts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "crates/host/src/target/b.rs"]);
    }

    #[test]
    fn test_files_are_recognized_by_folder_or_by_a_test_only_mod_item() {
        let folder = repository(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod fixture;\nmod b;"),
            ("crates/a/src/fixture.rs", "f();"),
            ("crates/a/src/fixture/deep.rs", "f();"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;"),
            ("crates/a/src/b/tests.rs", "f();"),
            ("crates/a/src/c/tests.rs", "f();"),
            ("crates/a/tests/it/d.rs", "f();"),
        ]);

        let tree = Tree::read(folder.path()).unwrap();

        let tests: Vec<&str> = tree
            .sources
            .iter()
            .filter(|file| file.source.lines.iter().all(|line| line.kind == LineKind::Test))
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/b.rs",
                "crates/a/src/b/tests.rs",
                "crates/a/src/fixture.rs",
                "crates/a/src/fixture/deep.rs",
                "crates/a/tests/it/d.rs",
            ]
        );
    }
}
