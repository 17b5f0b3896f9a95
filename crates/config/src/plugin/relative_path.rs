//! Paths inside a plugin or a marketplace, as their authors write them: they begin with `./` and cannot lead out.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The maximum length of a path in bytes.
const MAX_LENGTH: usize = 1024;

/// A path below a folder. It has no `..` and no absolute parts; whether a link on the way leads out is for the reader to
/// check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(String);

/// Why a text is not a path inside a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathFault {
    /// It does not begin with `./`.
    #[error("it does not begin with `./`")]
    Start,
    /// It contains `..`.
    #[error("it contains `..`")]
    Parent,
    /// It contains a character that no path here may have.
    #[error("it contains a backslash, a colon or a control character")]
    Character,
    /// It has an empty part.
    #[error("it has an empty part")]
    Empty,
    /// It is too long.
    #[error("it is longer than {MAX_LENGTH} bytes")]
    TooLong,
}

impl RelativePath {
    /// Parses a path that must begin with `./`.
    pub fn parse(text: &str) -> Result<RelativePath, PathFault> {
        match text.strip_prefix("./") {
            Some(rest) => RelativePath::parse_inside(rest),
            None if text == "." => RelativePath::parse_inside(""),
            None if text.split('/').any(|part| part == "..") => Err(PathFault::Parent),
            None => Err(PathFault::Start),
        }
    }

    /// Parses a path with or without `./` at its start.
    pub fn parse_lenient(text: &str) -> Result<RelativePath, PathFault> {
        match text.starts_with('/') {
            true => Err(PathFault::Start),
            false => RelativePath::parse_inside(text.strip_prefix("./").unwrap_or(text)),
        }
    }

    fn parse_inside(text: &str) -> Result<RelativePath, PathFault> {
        if text.len() > MAX_LENGTH {
            return Err(PathFault::TooLong);
        }
        if text.contains(|c: char| matches!(c, '\\' | ':') || c.is_control()) {
            return Err(PathFault::Character);
        }
        let text = text.strip_suffix('/').unwrap_or(text);
        for part in text.split('/').filter(|_| !text.is_empty()) {
            match part {
                "" => return Err(PathFault::Empty),
                ".." => return Err(PathFault::Parent),
                _ => {}
            }
        }
        Ok(RelativePath(text.to_owned()))
    }

    /// The path below a folder.
    pub fn below(&self, folder: &Path) -> PathBuf {
        match self.0.is_empty() {
            true => folder.to_owned(),
            false => folder.join(&self.0),
        }
    }

    /// The path below another one.
    pub fn join(&self, more: &RelativePath) -> RelativePath {
        match (self.0.is_empty(), more.0.is_empty()) {
            (true, _) => more.clone(),
            (false, true) => self.clone(),
            (false, false) => RelativePath(format!("{}/{}", self.0, more.0)),
        }
    }

    /// Does it name the folder itself?
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Is it the path of a bundle, by its ending?
    pub fn is_bundle(&self) -> bool {
        let lower = self.0.to_ascii_lowercase();
        lower.ends_with(".mcpb") || lower.ends_with(".dxt")
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "./{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, PathFault>) {
        let found = RelativePath::parse(text).map(|it| it.to_string());
        assert_eq!(found.as_deref().map_err(|it| *it), expected, "{text:?}");
    }

    #[test]
    fn a_path_begins_at_its_folder_and_stays_in_it() {
        check("./a/b.json", Ok("./a/b.json"));
        check("./a/", Ok("./a"));
        check("./", Ok("./"));
        check("a", Err(PathFault::Start));
        check("/etc/passwd", Err(PathFault::Start));
        check("../x", Err(PathFault::Parent));
        check("./a/../../x", Err(PathFault::Parent));
        check("./..", Err(PathFault::Parent));
        check("./a//b", Err(PathFault::Empty));
        check("./a\\..\\b", Err(PathFault::Character));
        check("./C:/x", Err(PathFault::Character));
        check("./a\u{1b}[2J", Err(PathFault::Character));
        assert_eq!(
            RelativePath::parse(&format!("./{}", "x".repeat(2000))),
            Err(PathFault::TooLong)
        );
        assert_eq!(RelativePath::parse_lenient("/x"), Err(PathFault::Start));
        assert_eq!(
            RelativePath::parse_lenient("x/y").map(|it| it.to_string()).as_deref(),
            Ok("./x/y")
        );
    }
}
