//! Tool calls for the editor: their kind, title, locations and changes to files. The workspace tools are known by name;
//! other tools are described by their annotations.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{Diff, ToolCallLocation, ToolKind};
use serde_json::Value as Json;
use switchboard::pool::{Pool, Tool};
use switchboard_chat::conversation::offered_tools::SEARCH_TOOL;

/// The largest file whose text is shown before it is overwritten.
const MAX_OLD_TEXT: u64 = 1024 * 1024;
/// The longest command in a title, in characters.
const MAX_COMMAND_CHARS: usize = 120;

/// A tool of the workspace server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceTool {
    Read,
    Write,
    Edit,
    MultiEdit,
    Glob,
    Grep,
    Ls,
    Bash,
    BashOutput,
    KillBash,
}

impl WorkspaceTool {
    const ALL: [WorkspaceTool; 10] = [
        WorkspaceTool::Read,
        WorkspaceTool::Write,
        WorkspaceTool::Edit,
        WorkspaceTool::MultiEdit,
        WorkspaceTool::Glob,
        WorkspaceTool::Grep,
        WorkspaceTool::Ls,
        WorkspaceTool::Bash,
        WorkspaceTool::BashOutput,
        WorkspaceTool::KillBash,
    ];

    fn name(self) -> &'static str {
        match self {
            WorkspaceTool::Read => "Read",
            WorkspaceTool::Write => "Write",
            WorkspaceTool::Edit => "Edit",
            WorkspaceTool::MultiEdit => "MultiEdit",
            WorkspaceTool::Glob => "Glob",
            WorkspaceTool::Grep => "Grep",
            WorkspaceTool::Ls => "LS",
            WorkspaceTool::Bash => "Bash",
            WorkspaceTool::BashOutput => "BashOutput",
            WorkspaceTool::KillBash => "KillBash",
        }
    }

    fn parse(name: &str) -> Option<WorkspaceTool> {
        WorkspaceTool::ALL.into_iter().find(|it| it.name() == name)
    }

    fn kind(self) -> ToolKind {
        match self {
            WorkspaceTool::Read | WorkspaceTool::BashOutput => ToolKind::Read,
            WorkspaceTool::Write | WorkspaceTool::Edit | WorkspaceTool::MultiEdit => ToolKind::Edit,
            WorkspaceTool::Glob | WorkspaceTool::Grep | WorkspaceTool::Ls => ToolKind::Search,
            WorkspaceTool::Bash | WorkspaceTool::KillBash => ToolKind::Execute,
        }
    }
}

/// The tool of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CalledTool<'a> {
    /// The name that the model uses.
    pub(crate) exposed_name: &'a str,
    /// Its definition, where the pool contains it.
    pub(crate) definition: Option<&'a Tool>,
}

impl<'a> CalledTool<'a> {
    /// The tool with this exposed name.
    pub(crate) fn find(pool: &'a Pool, exposed_name: &'a str) -> CalledTool<'a> {
        CalledTool { exposed_name, definition: pool.find(exposed_name).map(|it| &**it) }
    }
}

/// Describes the tool calls of a session.
#[derive(Debug, Clone)]
pub(crate) struct ToolViews {
    /// The session's folder, which relative paths start at.
    pub(crate) folder: PathBuf,
    /// The folders whose files may be read for a diff.
    pub(crate) roots: Vec<PathBuf>,
    /// The name of the workspace server in this session.
    pub(crate) workspace_server: Option<String>,
}

impl ToolViews {
    /// The workspace tool with this exposed name. A conversation that is replayed names tools that the pool does not
    /// contain yet.
    fn workspace_tool(&self, tool: CalledTool<'_>) -> Option<WorkspaceTool> {
        let server = self.workspace_server.as_deref()?;
        match tool.definition {
            Some(tool) => WorkspaceTool::parse(&tool.name).filter(|_| tool.server == server),
            None => WorkspaceTool::ALL
                .into_iter()
                .find(|it| tool.exposed_name == format!("mcp__{server}__{}", it.name())),
        }
    }

    /// The kind of a tool.
    pub(crate) fn kind(&self, tool: CalledTool<'_>) -> ToolKind {
        if tool.exposed_name == SEARCH_TOOL {
            return ToolKind::Search;
        }
        let workspace_tool = self.workspace_tool(tool).map(WorkspaceTool::kind);
        let annotated = || tool.definition.map(annotated_kind);
        workspace_tool.or_else(annotated).unwrap_or(ToolKind::Other)
    }

    /// The title of a call. `title` is that of the tool.
    pub(crate) fn title(&self, tool: CalledTool<'_>, arguments: &Json, title: &str) -> String {
        let Some(tool) = self.workspace_tool(tool) else { return title.to_owned() };
        let argument = |name: &str| arguments[name].as_str().filter(|it| !it.is_empty());
        let subject = match tool {
            WorkspaceTool::Read
            | WorkspaceTool::Write
            | WorkspaceTool::Edit
            | WorkspaceTool::MultiEdit => argument("file_path").map(|it| self.relative(it)),
            WorkspaceTool::Glob | WorkspaceTool::Grep => {
                argument("pattern").map(|it| format!("`{it}`"))
            }
            WorkspaceTool::Ls => argument("path").map(|it| self.relative(it)),
            WorkspaceTool::Bash => {
                let line = argument("command").and_then(|it| it.lines().next());
                return match line {
                    Some(line) => {
                        format!("`{}`", line.chars().take(MAX_COMMAND_CHARS).collect::<String>())
                    }
                    None => title.to_owned(),
                };
            }
            WorkspaceTool::BashOutput | WorkspaceTool::KillBash => None,
        };
        match subject {
            Some(subject) => format!("{} {subject}", tool.name()),
            None => title.to_owned(),
        }
    }

    /// A path as the user writes it: relative to the session's folder.
    fn relative(&self, path: &str) -> String {
        let inside = Path::new(path).strip_prefix(&self.folder).ok();
        inside.map_or_else(|| path.to_owned(), |it| it.display().to_string())
    }

    /// The files that a call works on.
    pub(crate) fn locations(
        &self,
        tool: CalledTool<'_>,
        arguments: &Json,
    ) -> Vec<ToolCallLocation> {
        let Some(tool) = self.workspace_tool(tool) else { return Vec::new() };
        let key = match tool {
            WorkspaceTool::Read
            | WorkspaceTool::Write
            | WorkspaceTool::Edit
            | WorkspaceTool::MultiEdit => "file_path",
            WorkspaceTool::Glob | WorkspaceTool::Grep | WorkspaceTool::Ls => "path",
            WorkspaceTool::Bash | WorkspaceTool::BashOutput | WorkspaceTool::KillBash => {
                return Vec::new();
            }
        };
        let Some(path) = arguments[key].as_str().filter(|it| !it.is_empty()) else {
            return Vec::new();
        };
        let line = arguments["offset"].as_u64().and_then(|it| u32::try_from(it).ok());
        vec![ToolCallLocation::new(self.folder.join(path)).line(line)]
    }

    /// The changes to files that a call will make. Reads the file that is overwritten. Blocks.
    pub(crate) fn diffs(&self, tool: CalledTool<'_>, arguments: &Json) -> Vec<Diff> {
        let Some(path) = arguments["file_path"].as_str().filter(|it| !it.is_empty()) else {
            return Vec::new();
        };
        let path = self.folder.join(path);
        let replacement = |it: &Json| {
            let (old, new) = (it["old_string"].as_str()?, it["new_string"].as_str()?);
            Some(Diff::new(path.clone(), new).old_text(old.to_owned()))
        };
        match self.workspace_tool(tool) {
            Some(WorkspaceTool::Write) => {
                let Some(new) = arguments["content"].as_str() else { return Vec::new() };
                let old = self.old_text(&path);
                vec![Diff::new(path.clone(), new).old_text(old)]
            }
            Some(WorkspaceTool::Edit) => replacement(arguments).into_iter().collect(),
            Some(WorkspaceTool::MultiEdit) => arguments["edits"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(replacement)
                .collect(),
            Some(
                WorkspaceTool::Read
                | WorkspaceTool::Glob
                | WorkspaceTool::Grep
                | WorkspaceTool::Ls
                | WorkspaceTool::Bash
                | WorkspaceTool::BashOutput
                | WorkspaceTool::KillBash,
            )
            | None => Vec::new(),
        }
    }

    /// The text of a file in one of the session's folders; none if it is missing, large or not text.
    fn old_text(&self, path: &Path) -> Option<String> {
        let path = path.canonicalize().ok()?;
        let metadata = fs::metadata(&path).ok()?;
        let is_readable = metadata.is_file() && metadata.len() <= MAX_OLD_TEXT;
        if !is_readable || !self.roots.iter().any(|root| path.starts_with(root)) {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(&path).ok()?.take(MAX_OLD_TEXT).read_to_end(&mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    }
}

/// The kind that a tool's annotations suggest.
fn annotated_kind(tool: &Tool) -> ToolKind {
    match tool.annotations.read_only {
        true => ToolKind::Read,
        false => ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn views(folder: &Path) -> ToolViews {
        let folder = folder.canonicalize().expect("it exists");
        ToolViews {
            roots: vec![folder.clone()],
            folder,
            workspace_server: Some("workspace".to_owned()),
        }
    }

    fn called(exposed_name: &str) -> CalledTool<'_> {
        CalledTool { exposed_name, definition: None }
    }

    #[test]
    fn workspace_tools_have_kinds_titles_and_locations() {
        let folder = tempfile::tempdir().expect("a folder");
        let views = views(folder.path());
        let describe = |tool: &str, arguments: Json| {
            let name = format!("mcp__workspace__{tool}");
            let called = called(&name);
            let title = views.title(called, &arguments, "title");
            let locations = views.locations(called, &arguments);
            let locations = locations.iter().map(|it| {
                let path = it.path.strip_prefix(&views.folder).expect("inside");
                format!("{}:{:?}", path.display(), it.line)
            });
            format!("{:?}|{title}|{}", views.kind(called), locations.collect::<String>())
        };
        let inside = views.folder.join("src/a.rs");
        assert_eq!(
            describe("Read", json!({"file_path": inside, "offset": 7})),
            "Read|Read src/a.rs|src/a.rs:Some(7)"
        );
        assert_eq!(
            describe("Edit", json!({"file_path": "b.rs", "old_string": "x", "new_string": "y"})),
            "Edit|Edit b.rs|b.rs:None"
        );
        assert_eq!(describe("Grep", json!({"pattern": "a+"})), "Search|Grep `a+`|");
        assert_eq!(describe("Bash", json!({"command": "cargo test\nx"})), "Execute|`cargo test`|");
        assert_eq!(describe("Nothing", json!({"file_path": "b.rs"})), "Other|title|");
    }

    #[test]
    fn a_write_shows_the_old_text_only_of_files_in_the_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("old.txt"), "old").expect("written");
        fs::write(outside.path().join("secret.txt"), "secret").expect("written");
        let views = views(folder.path());
        let old = |path: &Path| {
            let arguments = json!({"file_path": path, "content": "new"});
            let diffs = views.diffs(called("mcp__workspace__Write"), &arguments);
            diffs.into_iter().map(|it| (it.old_text, it.new_text)).collect::<Vec<_>>()
        };
        let new = || "new".to_owned();
        assert_eq!(old(Path::new("old.txt")), [(Some("old".to_owned()), new())]);
        assert_eq!(old(Path::new("missing.txt")), [(None, new())]);
        assert_eq!(old(&outside.path().join("secret.txt")), [(None, new())]);
    }

    #[test]
    fn every_replacement_of_an_edit_is_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
        let arguments = json!({"file_path": "a", "edits": [edit("1", "2"), edit("3", "4")]});
        let diffs = views(folder.path()).diffs(called("mcp__workspace__MultiEdit"), &arguments);
        let texts: Vec<_> =
            diffs.iter().map(|it| (it.old_text.as_deref(), &*it.new_text)).collect();
        assert_eq!(texts, [(Some("1"), "2"), (Some("3"), "4")]);
    }
}
