//! `swb import`: takes over what other programs have configured. Shows a plan first and writes only after a yes.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::entry::name::ServerName;
use switchboard::config::import::{
    self, ConfigDirs, HostApp, HostAppFile, ImportNote, ImportOutcome, ImportedScope,
    ImportedServer,
};
use switchboard::config::scope::Scope;
use switchboard::sources::loader::Configuration;
use switchboard::sources::paths::project_root;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};

use crate::edit::servers;
use crate::edit::servers::{IfExists, NewServer};
use crate::env::platform;
use crate::exit::Exit;
use crate::invocation::{Invocation, WritableScope};
use crate::outcome::{CommandOutput, Failure};
use crate::output::server_text;
use crate::output::server_text::pluralize;
use crate::output::style::{TextStyle, paint};

/// Arguments of `swb import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The programs: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode; all when absent
    #[arg(value_parser = parse_peer)]
    pub programs: Vec<HostApp>,
    /// Keep what is yours in this scope; what lies in the project stays the project's, to be approved
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Show the plan and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write without asking
    #[arg(long, short, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Replace servers of the same name
    #[arg(long)]
    pub overwrite: bool,
}

fn parse_peer(text: &str) -> Result<HostApp, String> {
    HostApp::parse(text).ok_or_else(|| {
        let ids: Vec<&str> = HostApp::ALL.iter().map(|peer| peer.id()).collect();
        format!("the programs are {}", ids.join(", "))
    })
}

/// What would be done, file by file.
struct ImportPlan {
    files: Vec<PlannedFile>,
    looked_at: Vec<PathBuf>,
}

struct PlannedFile {
    file: HostAppFile,
    failure: Option<String>,
    notes: Vec<String>,
    items: Vec<ImportItem>,
}

struct ImportItem {
    /// The name that the other program uses.
    original: String,
    server: NewServer,
    scope: WritableScope,
    target: String,
    action: ImportAction,
    notes: Vec<String>,
}

/// What would be done with one server.
enum ImportAction {
    Add,
    Replace,
    /// The same entry is there.
    Same,
    /// Another entry of that name is there.
    Conflict,
    /// It cannot be taken over.
    Skip(String),
}

impl ImportAction {
    fn writes(&self) -> bool {
        match self {
            ImportAction::Add | ImportAction::Replace => true,
            ImportAction::Same | ImportAction::Conflict | ImportAction::Skip(_) => false,
        }
    }

    fn id(&self) -> &'static str {
        match self {
            ImportAction::Add => "add",
            ImportAction::Replace => "replace",
            ImportAction::Same => "same",
            ImportAction::Conflict => "kept",
            ImportAction::Skip(_) => "skip",
        }
    }
}

/// Runs the command.
pub fn run(arguments: &ImportArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load_without_demo()?;
    session.expect_unlocked(&configuration)?;
    let plan = plan(arguments, &configuration, session);
    let count = plan.items().filter(|item| item.action.writes()).count();
    let text = if session.wants_json() { String::new() } else { plan.to_text(session) };
    if arguments.dry_run || count == 0 {
        if session.wants_json() {
            return Ok(super::json_output(&plan.to_json(&[])));
        }
        return Ok(CommandOutput::text(format!("{text}\nNothing was written.\n")));
    }
    if !arguments.yes && !confirm(&text, count, session)? {
        return Ok(CommandOutput::text("Nothing was written.\n"));
    }
    let written = write(&plan, arguments, session)?;
    if session.wants_json() {
        return Ok(super::json_output(&plan.to_json(&written)));
    }
    let mut done =
        CommandOutput::text(if arguments.yes { format!("{text}\n") } else { String::new() });
    for scope in written {
        let in_scope = plan.items().filter(|it| it.scope == scope && it.action.writes()).count();
        let servers = pluralize(in_scope, "server", "servers");
        done.text.push_str(&format!(
            "Wrote {servers} to {}\n",
            servers::scope_location(session, scope, &session.scope_file(scope))
        ));
        if scope == WritableScope::Project {
            done.notes.push_str(
                "note: a project's servers start once you approved them: swb approve --all\n",
            );
        }
    }
    Ok(done)
}

fn confirm(plan: &str, count: usize, session: &Invocation) -> Result<bool, Failure> {
    if !session.env.terminal.is_interactive || session.wants_json() {
        return Err(Failure::new(Exit::Usage, "nothing was written: there is nobody to ask")
            .detail(plan.to_owned())
            .hint("add --yes to write this, or --dry-run to look only"));
    }
    let question = format!("{plan}\nWrite {}? [y/N] ", pluralize(count, "server", "servers"));
    let mut out = anstream::stdout();
    let mut answer = String::new();
    let asked = out
        .write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    asked.map_err(|error| {
        Failure::new(Exit::Failure, "your answer could not be read").caused_by(error)
    })?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn plan(arguments: &ImportArgs, configuration: &Configuration, session: &Invocation) -> ImportPlan {
    let env = &session.env;
    let root = project_root(&env.working_folder);
    let config = env.config_home();
    let folders =
        ConfigDirs { home: &env.home, config: &config, project: &root, platform: platform() };
    let peers = if arguments.programs.is_empty() { &HostApp::ALL[..] } else { &arguments.programs };
    let mut plan = ImportPlan { files: Vec::new(), looked_at: Vec::new() };
    for file in peers.iter().flat_map(|peer| import::config_files(*peer, &folders)) {
        plan.looked_at.push(file.path.clone());
        let found = match text_file::read_text(&file.path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Absent) => continue,
            Ok(FileContent::Text(text)) => import::read(&file, &text, &root).map_err(|error| {
                format!("line {}, column {}: {}", error.line, error.column, error.kind)
            }),
            Err(why) => Err(format!("the file {why}")),
        };
        let mut planned = PlannedFile { file, failure: None, notes: Vec::new(), items: Vec::new() };
        match found {
            Err(failure) => planned.failure = Some(failure),
            Ok(ImportOutcome { servers, notes }) => {
                planned.notes = notes.iter().map(ImportNote::to_string).collect();
                for imported in servers {
                    let item =
                        plan_item(arguments, imported, &planned.file, configuration, session);
                    let item = plan.without_duplicates(item, &planned.items);
                    planned.items.push(item);
                }
            }
        }
        plan.files.push(planned);
    }
    plan
}

fn plan_item(
    arguments: &ImportArgs,
    imported: ImportedServer,
    file: &HostAppFile,
    configuration: &Configuration,
    session: &Invocation,
) -> ImportItem {
    let scope = match imported.scope {
        ImportedScope::User => arguments.scope.unwrap_or(WritableScope::User),
        ImportedScope::Local => arguments.scope.unwrap_or(WritableScope::Local),
        ImportedScope::Project => WritableScope::Project,
    };
    let mut notes: Vec<String> = imported.notes.iter().map(ImportNote::to_string).collect();
    let original = imported.name;
    let name = match servers::check_name(&original) {
        Ok(()) => Some(original.clone()),
        Err(_) => ServerName::suggestion(&original).map(|name| name.as_str().to_owned()),
    };
    let server = NewServer { name: name.clone().unwrap_or_default(), entry: imported.entry };
    let mut item = ImportItem {
        original,
        server,
        scope,
        target: String::new(),
        action: ImportAction::Add,
        notes: Vec::new(),
    };
    if name.is_none() {
        item.action =
            ImportAction::Skip("its name cannot be used, and no name is close".to_owned());
        return item;
    }
    if item.server.name != item.original {
        notes.push(format!("renamed from `{}`", item.original));
    }
    match servers::check_entry(session, configuration, scope, &item.server) {
        Err(failure) => {
            let detail = anstream::adapter::strip_str(&failure.detail).to_string();
            let why = detail.lines().next().map(str::to_owned).filter(|it| !it.is_empty());
            item.action = ImportAction::Skip(why.or(failure.hint).unwrap_or(failure.message));
        }
        Ok(resolved) => {
            item.target = resolved.entry.as_ref().map(server_text::target).unwrap_or_default();
            item.action = plan_action(arguments, &item, resolved, configuration, session);
            notes.extend(precedence_note(&item, file, configuration));
            if scope == WritableScope::Project && servers::holds_literal_secret(&item.server.entry)
            {
                notes.push(
                    "warning: it holds a secret, which everybody in the project can read"
                        .to_owned(),
                );
            }
        }
    }
    item.notes = notes;
    item
}

fn plan_action(
    arguments: &ImportArgs,
    item: &ImportItem,
    resolved: switchboard::config::merge::ResolvedServer,
    configuration: &Configuration,
    session: &Invocation,
) -> ImportAction {
    let file = session.scope_file(item.scope);
    match servers::definition_in(configuration, &file, &item.server.name) {
        None => ImportAction::Add,
        Some(there) if there.fingerprint == resolved.fingerprint => ImportAction::Same,
        Some(_) if arguments.overwrite => ImportAction::Replace,
        Some(_) => ImportAction::Conflict,
    }
}

/// Claude Code lets local servers win over the project's; here it is the other way round, which matters when both are there.
fn precedence_note(
    item: &ImportItem,
    file: &HostAppFile,
    configuration: &Configuration,
) -> Option<String> {
    let clashes = configuration
        .effective
        .servers
        .iter()
        .any(|it| it.name == item.server.name && it.scope() == Scope::Project);
    (file.app == HostApp::ClaudeCode && item.scope == WritableScope::Local && clashes).then(|| {
        "the project's server of that name wins here; in Claude Code this one did".to_owned()
    })
}

impl ImportPlan {
    fn items(&self) -> impl Iterator<Item = &ImportItem> {
        self.files.iter().flat_map(|file| &file.items)
    }

    /// Two programs may have the same server: once is enough. Two servers of one name cannot both be taken.
    fn without_duplicates(&self, mut item: ImportItem, same_file: &[ImportItem]) -> ImportItem {
        let earlier = self
            .items()
            .chain(same_file)
            .filter(|it| it.action.writes())
            .find(|it| it.scope == item.scope && it.server.name == item.server.name);
        if let (Some(earlier), true) = (earlier, item.action.writes()) {
            item.action = if earlier.server.entry == item.server.entry {
                ImportAction::Same
            } else {
                ImportAction::Skip("another server of that name is taken over above".to_owned())
            };
        }
        item
    }

    fn to_text(&self, session: &Invocation) -> String {
        if self.files.is_empty() {
            let mut text =
                String::from("No configuration of another program was found. Looked in:\n");
            for path in &self.looked_at {
                text.push_str(&format!("  {}\n", session.display_path(path)));
            }
            return text;
        }
        self.files.iter().map(|file| file.to_text(session)).collect::<Vec<_>>().join("\n")
    }

    fn to_json(&self, written: &[WritableScope]) -> Json {
        let files: Vec<Json> = self.files.iter().map(PlannedFile::to_json).collect();
        let written: Vec<&str> = written.iter().map(|scope| scope.scope().id()).collect();
        json!({"files": files, "writtenScopes": written})
    }
}

impl PlannedFile {
    fn to_text(&self, session: &Invocation) -> String {
        let title = paint(TextStyle::Bold, self.file.app.title());
        let mut text = format!("{title}  {}\n", session.display_path(&self.file.path));
        if let Some(failure) = &self.failure {
            text.push_str(&format!("  {} {}\n", paint(TextStyle::Error, "!"), printable(failure)));
        }
        for item in &self.items {
            text.push_str(&item.to_text());
        }
        for note in &self.notes {
            text.push_str(&format!("  {}\n", printable(note)));
        }
        if self.failure.is_none() && self.items.is_empty() && self.notes.is_empty() {
            text.push_str("  no servers\n");
        }
        text
    }

    fn to_json(&self) -> Json {
        let items: Vec<Json> = self.items.iter().map(ImportItem::to_json).collect();
        json!({
            "program": self.file.app.id(),
            "file": self.file.path.to_string_lossy(),
            "failure": self.failure,
            "notes": self.notes,
            "servers": items,
        })
    }
}

impl ImportItem {
    fn to_text(&self) -> String {
        let name = match self.server.name.as_str() {
            "" => printable(&self.original),
            name => printable(name),
        };
        let scope = self.scope.scope();
        let mut text = match &self.action {
            ImportAction::Add => {
                format!(
                    "  {} {name} → {scope} scope: {}\n",
                    paint(TextStyle::Success, "+"),
                    self.target
                )
            }
            ImportAction::Replace => {
                let mark = paint(TextStyle::Warning, "~");
                format!("  {mark} {name} → {scope} scope, replaced: {}\n", self.target)
            }
            ImportAction::Same => format!("  = {name}: already there\n"),
            ImportAction::Conflict => {
                format!(
                    "  = {name}: the {scope} scope has another one of that name; --overwrite replaces it\n"
                )
            }
            ImportAction::Skip(why) => {
                format!("  {} {name}: skipped: {}\n", paint(TextStyle::Error, "!"), printable(why))
            }
        };
        for note in &self.notes {
            text.push_str(&format!("      {}\n", printable(note)));
        }
        text
    }

    fn to_json(&self) -> Json {
        let mut json = Map::new();
        json.insert("name".to_owned(), self.server.name.clone().into());
        json.insert("original".to_owned(), self.original.clone().into());
        json.insert("scope".to_owned(), self.scope.scope().id().into());
        json.insert("action".to_owned(), self.action.id().into());
        json.insert("target".to_owned(), self.target.clone().into());
        if let ImportAction::Skip(why) = &self.action {
            json.insert("reason".to_owned(), why.clone().into());
        }
        json.insert("notes".to_owned(), self.notes.clone().into());
        Json::Object(json)
    }
}

fn write(
    plan: &ImportPlan,
    arguments: &ImportArgs,
    session: &Invocation,
) -> Result<Vec<WritableScope>, Failure> {
    let existing = if arguments.overwrite { IfExists::Overwrite } else { IfExists::Fail };
    let mut written = Vec::new();
    for scope in [WritableScope::User, WritableScope::Local, WritableScope::Project] {
        let servers: Vec<NewServer> = plan
            .items()
            .filter(|item| item.scope == scope && item.action.writes())
            .map(|item| item.server.clone())
            .collect();
        if !servers.is_empty() {
            servers::write_servers(session, scope, &servers, existing)?;
            written.push(scope);
        }
    }
    Ok(written)
}
