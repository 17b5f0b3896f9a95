//! Rule: the modules of one crate depend on each other in one direction, at every level of the module tree.
//!
//! At each level a module and everything below it count as one node, and each path from one node into another counts as
//! an edge. Edges between a module and its own submodules do not count: together they are one node one level up. Nor do
//! tests, `mod` lines and re-exports (`pub use`); a path that goes through a re-export counts as a path to the module that
//! re-exports.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::imports::{Visibility, imports};
use super::phrase::is_identifier_char;
use super::source::LineKind;
use super::tree::{RustFile, Tree};

/// A module's path from the crate's root; empty for the root itself.
type ModulePath = Vec<String>;

/// Where an edge of the graph comes from.
#[derive(Clone, Debug)]
struct Location {
    file: String,
    line: usize,
}

/// One use of a module by another.
struct Edge {
    from: ModulePath,
    to: ModulePath,
    location: Location,
}

/// Reports one finding for each import cycle.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<String, BTreeMap<ModulePath, &RustFile>> = BTreeMap::new();
    for file in &tree.sources {
        if let Some((root, module)) = module_of(&file.path)
            && file.source.lines.iter().any(|line| line.kind == LineKind::Product)
        {
            crates.entry(root).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(cycles_of_crate).collect()
}

/// The crate's source folder and the path of the module that a file holds.
fn module_of(path: &str) -> Option<(String, ModulePath)> {
    let (before, inside) = path.split_once("src/")?;
    if !before.is_empty() && !before.ends_with('/') {
        return None;
    }
    let mut module: ModulePath =
        inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        module.pop();
    }
    Some((format!("{before}src"), module))
}

fn cycles_of_crate(modules: &BTreeMap<ModulePath, &RustFile>) -> Vec<Finding> {
    let edges: Vec<Edge> =
        modules.iter().flat_map(|(module, file)| edges_of(module, file, modules)).collect();
    let parents: BTreeSet<&[String]> =
        modules.keys().filter(|it| !it.is_empty()).map(|it| &it[..it.len() - 1]).collect();
    parents.into_iter().flat_map(|parent| cycles_below(parent, &edges)).collect()
}

/// The cycles between the direct children of one module.
fn cycles_below(parent: &[String], edges: &[Edge]) -> Vec<Finding> {
    let mut graph: BTreeMap<&str, BTreeMap<&str, &Location>> = BTreeMap::new();
    for edge in edges {
        if let (Some(from), Some(to)) = (child(parent, &edge.from), child(parent, &edge.to))
            && from != to
        {
            graph.entry(from).or_default().entry(to).or_insert(&edge.location);
        }
    }
    let mut findings = Vec::new();
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    for &start in graph.keys() {
        if reported.contains(start) {
            continue;
        }
        let Some(cycle) = shortest_cycle(start, &graph) else {
            continue;
        };
        reported.extend(cycle.iter().copied());
        let (first, second) = (cycle[0], cycle[1 % cycle.len()]);
        let location = graph[first][second];
        let shown = format!("{}, {first}", cycle.join(", "));
        let advice = format!(
            "these modules import each other in a circle: {shown}; move what they share to a module below them"
        );
        findings.push(Finding::new(&location.file, location.line, advice));
    }
    findings
}

/// The name of the direct child of `parent` that `module` is, or lies in.
fn child<'a>(parent: &[String], module: &'a [String]) -> Option<&'a str> {
    module.strip_prefix(parent)?.first().map(String::as_str)
}

/// The shortest way from a module back to itself.
fn shortest_cycle<'a>(
    start: &'a str,
    graph: &BTreeMap<&'a str, BTreeMap<&'a str, &Location>>,
) -> Option<Vec<&'a str>> {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut frontier = vec![start];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for from in frontier {
            for &to in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
                if to == start {
                    let mut path = vec![from];
                    while let Some(&previous) = reached.get(path[path.len() - 1]) {
                        path.push(previous);
                    }
                    path.reverse();
                    return Some(path);
                }
                if !reached.contains_key(to) {
                    reached.insert(to, from);
                    next.push(to);
                }
            }
        }
        frontier = next;
    }
    None
}

/// The modules of the same crate that a file's product code names.
fn edges_of(
    module: &ModulePath,
    file: &RustFile,
    modules: &BTreeMap<ModulePath, &RustFile>,
) -> Vec<Edge> {
    let code: String = file
        .source
        .lines
        .iter()
        .map(|line| if line.kind == LineKind::Product { line.code.as_str() } else { "" })
        .flat_map(|line| [line, "\n"])
        .collect();
    let imported = imports(&code);
    let mut paths: Vec<(usize, String)> = imported
        .iter()
        .filter(|import| import.visibility == Visibility::Private)
        .map(|import| (import.line, import.path.clone()))
        .collect();
    // Paths in the bodies of functions; those of `use` lines were read above.
    for (line, text) in code.lines().enumerate() {
        let is_import = imported.iter().any(|import| import.line == line + 1);
        if !is_import {
            paths.extend(written_paths(text).map(|path| (line + 1, path.to_owned())));
        }
    }
    let targets = paths.into_iter().filter_map(|(line, path)| {
        let to = target(module, &path, modules)?;
        let location = Location { file: file.path.clone(), line };
        (to != *module).then(|| Edge { from: module.clone(), to, location })
    });
    targets.collect()
}

/// Everything in a line that looks like `a::b`.
fn written_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !is_identifier_char(character) && character != ':')
        .map(|word| word.trim_matches(':'))
        .filter(|word| word.contains("::"))
}

/// The module of this crate that a path written in `module` leads to.
fn target(
    module: &ModulePath,
    path: &str,
    modules: &BTreeMap<ModulePath, &RustFile>,
) -> Option<ModulePath> {
    let mut segments: Vec<&str> = path.split("::").collect();
    let mut absolute = match *segments.first()? {
        "crate" => {
            segments.remove(0);
            Vec::new()
        }
        "self" => {
            segments.remove(0);
            module.clone()
        }
        "super" => {
            let mut base = module.clone();
            while segments.first() == Some(&"super") {
                segments.remove(0);
                base.pop()?;
            }
            base
        }
        first => {
            let mut submodule = module.clone();
            submodule.push(first.to_owned());
            if !modules.contains_key(&submodule) {
                return None;
            }
            module.clone()
        }
    };
    absolute.extend(segments.into_iter().map(str::to_owned));
    while !modules.contains_key(&absolute) {
        absolute.pop()?;
    }
    Some(absolute)
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    const ROOT: (&str, &str) = ("crates/host/src/lib.rs", "//! A.\nmod a;\nmod b;\nmod c;\n");

    #[test]
    fn modules_that_import_each_other_are_found_once() {
        let files = [
            ROOT,
            ("crates/host/src/a.rs", "//! A.\nuse crate::b::B;\n"),
            ("crates/host/src/b.rs", "//! B.\nuse super::c::C;\n"),
            ("crates/host/src/c.rs", "//! C.\nfn f() {\n    crate::a::g();\n}\n"),
        ];
        check("import-cycles", &files, &["crates/host/src/a.rs:2"]);
    }

    #[test]
    fn submodules_count_as_the_module_that_they_belong_to() {
        let files = [
            ROOT,
            ("crates/host/src/a.rs", "//! A.\nmod deep;\n"),
            ("crates/host/src/a/deep.rs", "//! D.\nuse crate::b;\n"),
            ("crates/host/src/b.rs", "//! B.\nuse crate::a::A;\n"),
        ];
        check("import-cycles", &files, &["crates/host/src/a/deep.rs:2"]);
    }

    #[test]
    fn cycles_are_found_at_each_module_level() {
        let files = [
            ROOT,
            ("crates/host/src/a.rs", "//! A.\nmod x;\nmod y;\n"),
            ("crates/host/src/a/x.rs", "//! X.\nuse super::y::Y;\n"),
            ("crates/host/src/a/y.rs", "//! Y.\nuse crate::a::x::X;\n"),
        ];
        check("import-cycles", &files, &["crates/host/src/a/x.rs:2"]);
    }

    #[test]
    fn parents_tests_and_exports_make_no_cycle() {
        let files = [
            ROOT,
            ("crates/host/src/a.rs", "//! A.\nmod x;\nuse x::X;\npub use x::Y;\nstruct P;\n"),
            ("crates/host/src/a/x.rs", "//! X.\nuse super::P;\nuse crate::b::B;\n"),
            (
                "crates/host/src/b.rs",
                "//! B.\npub use crate::a::Y;\n#[cfg(test)]\nmod tests {\n    use crate::a::P;\n}\n",
            ),
            ("crates/host/src/c.rs", "//! crate::a\nuse std::fmt;\n"),
        ];
        check("import-cycles", &files, &[]);
    }
}
