//! `swb import`: takes over what other programs have configured. Shows a plan first and writes only after a yes.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json, json};
use switchboard::config::import::{
    self, Folders, Found, Imported, ImportedReach, Note, Peer, PeerFile,
};
use switchboard::config::name::ServerName;
use switchboard::config::scope::Scope;
use switchboard::config::shown::printable;
use switchboard::load::Configuration;
use switchboard::places::project_root;
use switchboard::read::{self, Content, Kinds};

use crate::describe::{self, counted};
use crate::exit::Exit;
use crate::machine::platform;
use crate::outcome::{Done, Failure};
use crate::session::{Session, WritableScope};
use crate::style::{Meaning, paint};
use crate::writing::{self, Existing, NewServer};

/// Arguments of `swb import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The programs: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode; all when absent
    #[arg(value_parser = parse_peer)]
    pub programs: Vec<Peer>,
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

fn parse_peer(text: &str) -> Result<Peer, String> {
    Peer::parse(text).ok_or_else(|| {
        let ids: Vec<&str> = Peer::ALL.iter().map(|peer| peer.id()).collect();
        format!("the programs are {}", ids.join(", "))
    })
}

/// What would be done, file by file.
struct Plan {
    files: Vec<PlannedFile>,
    looked_at: Vec<PathBuf>,
}

struct PlannedFile {
    file: PeerFile,
    failure: Option<String>,
    notes: Vec<String>,
    items: Vec<Item>,
}

struct Item {
    /// The name that the other program uses.
    original: String,
    server: NewServer,
    scope: WritableScope,
    target: String,
    action: Action,
    notes: Vec<String>,
}

/// What would be done with one server.
enum Action {
    Add,
    Replace,
    /// The same entry is there.
    Same,
    /// Another entry of that name is there.
    Kept,
    /// It cannot be taken over.
    Skip(String),
}

impl Action {
    fn writes(&self) -> bool {
        match self {
            Action::Add | Action::Replace => true,
            Action::Same | Action::Kept | Action::Skip(_) => false,
        }
    }

    fn id(&self) -> &'static str {
        match self {
            Action::Add => "add",
            Action::Replace => "replace",
            Action::Same => "same",
            Action::Kept => "kept",
            Action::Skip(_) => "skip",
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Import, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load_written()?;
    session.expect_unlocked(&configuration)?;
    let plan = plan(arguments, &configuration, session);
    let count = plan.items().filter(|item| item.action.writes()).count();
    let text = if session.wants_json() { String::new() } else { plan.to_text(session) };
    if arguments.dry_run || count == 0 {
        if session.wants_json() {
            return Ok(super::json(&plan.to_json(&[])));
        }
        return Ok(Done::text(format!("{text}\nNothing was written.\n")));
    }
    if !arguments.yes && !confirmed(&text, count, session)? {
        return Ok(Done::text("Nothing was written.\n"));
    }
    let written = write(&plan, arguments, session)?;
    if session.wants_json() {
        return Ok(super::json(&plan.to_json(&written)));
    }
    let mut done = Done::text(if arguments.yes { format!("{text}\n") } else { String::new() });
    for scope in written {
        let in_scope = plan.items().filter(|it| it.scope == scope && it.action.writes()).count();
        let servers = counted(in_scope, "server", "servers");
        done.text.push_str(&format!(
            "Wrote {servers} to {}\n",
            writing::said_where(session, scope, &session.file_of(scope))
        ));
        if scope == WritableScope::Project {
            done.notes.push_str(
                "note: a project's servers start once you approved them: swb approve --all\n",
            );
        }
    }
    Ok(done)
}

fn confirmed(plan: &str, count: usize, session: &Session) -> Result<bool, Failure> {
    if !session.machine.terminal.is_interactive || session.wants_json() {
        return Err(Failure::new(Exit::Usage, "nothing was written: there is nobody to ask")
            .detail(plan.to_owned())
            .hint("add --yes to write this, or --dry-run to look only"));
    }
    let question = format!("{plan}\nWrite {}? [y/N] ", counted(count, "server", "servers"));
    let mut out = anstream::stdout();
    let mut answer = String::new();
    let asked = out
        .write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    asked.map_err(|error| {
        Failure::new(Exit::Failure, "your answer could not be read").because(error)
    })?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn plan(arguments: &Import, configuration: &Configuration, session: &Session) -> Plan {
    let machine = &session.machine;
    let root = project_root(&machine.working_folder);
    let config = machine.config_home();
    let folders =
        Folders { home: &machine.home, config: &config, project: &root, platform: platform() };
    let peers = if arguments.programs.is_empty() { &Peer::ALL[..] } else { &arguments.programs };
    let mut plan = Plan { files: Vec::new(), looked_at: Vec::new() };
    for file in peers.iter().flat_map(|peer| import::files(*peer, &folders)) {
        plan.looked_at.push(file.path.clone());
        let found = match read::text(&file.path, Kinds::RegularOnly) {
            Ok(Content::Absent) => continue,
            Ok(Content::Text(text)) => import::read(&file, &text, &root).map_err(|error| {
                format!("line {}, column {}: {}", error.line, error.column, error.kind)
            }),
            Err(why) => Err(format!("the file {why}")),
        };
        let mut planned = PlannedFile { file, failure: None, notes: Vec::new(), items: Vec::new() };
        match found {
            Err(failure) => planned.failure = Some(failure),
            Ok(Found { servers, notes }) => {
                planned.notes = notes.iter().map(Note::to_string).collect();
                for imported in servers {
                    let item = item(arguments, imported, &planned.file, configuration, session);
                    let item = plan.settle(item, &planned.items);
                    planned.items.push(item);
                }
            }
        }
        plan.files.push(planned);
    }
    plan
}

fn item(
    arguments: &Import,
    imported: Imported,
    file: &PeerFile,
    configuration: &Configuration,
    session: &Session,
) -> Item {
    let scope = match imported.reach {
        ImportedReach::User => arguments.scope.unwrap_or(WritableScope::User),
        ImportedReach::Local => arguments.scope.unwrap_or(WritableScope::Local),
        ImportedReach::Project => WritableScope::Project,
    };
    let mut notes: Vec<String> = imported.notes.iter().map(Note::to_string).collect();
    let original = imported.name;
    let name = match writing::check_name(&original) {
        Ok(()) => Some(original.clone()),
        Err(_) => ServerName::suggestion(&original).map(|name| name.as_str().to_owned()),
    };
    let server = NewServer { name: name.clone().unwrap_or_default(), entry: imported.entry };
    let mut item = Item {
        original,
        server,
        scope,
        target: String::new(),
        action: Action::Add,
        notes: Vec::new(),
    };
    if name.is_none() {
        item.action = Action::Skip("its name cannot be used, and no name is close".to_owned());
        return item;
    }
    if item.server.name != item.original {
        notes.push(format!("renamed from `{}`", item.original));
    }
    match writing::check_entry(session, configuration, scope, &item.server) {
        Err(failure) => {
            let detail = anstream::adapter::strip_str(&failure.detail).to_string();
            let why = detail.lines().next().map(str::to_owned).filter(|it| !it.is_empty());
            item.action = Action::Skip(why.or(failure.hint).unwrap_or(failure.message));
        }
        Ok(judged) => {
            item.target = judged.entry.as_ref().map(describe::target).unwrap_or_default();
            item.action = action(arguments, &item, judged, configuration, session);
            notes.extend(precedence_note(&item, file, configuration));
            if scope == WritableScope::Project && writing::holds_literal_secret(&item.server.entry)
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

fn action(
    arguments: &Import,
    item: &Item,
    judged: switchboard::config::cascade::Server,
    configuration: &Configuration,
    session: &Session,
) -> Action {
    let file = session.file_of(item.scope);
    match writing::defined_in(configuration, &file, &item.server.name) {
        None => Action::Add,
        Some(there) if there.fingerprint == judged.fingerprint => Action::Same,
        Some(_) if arguments.overwrite => Action::Replace,
        Some(_) => Action::Kept,
    }
}

/// Claude Code lets local servers win over the project's; here it is the other way round, which matters when both are there.
fn precedence_note(item: &Item, file: &PeerFile, configuration: &Configuration) -> Option<String> {
    let clashes = configuration
        .effective
        .servers
        .iter()
        .any(|it| it.name == item.server.name && it.scope() == Scope::Project);
    (file.peer == Peer::ClaudeCode && item.scope == WritableScope::Local && clashes).then(|| {
        "the project's server of that name wins here; in Claude Code this one did".to_owned()
    })
}

impl Plan {
    fn items(&self) -> impl Iterator<Item = &Item> {
        self.files.iter().flat_map(|file| &file.items)
    }

    /// Two programs may have the same server: once is enough. Two servers of one name cannot both be taken.
    fn settle(&self, mut item: Item, same_file: &[Item]) -> Item {
        let earlier = self
            .items()
            .chain(same_file)
            .filter(|it| it.action.writes())
            .find(|it| it.scope == item.scope && it.server.name == item.server.name);
        if let (Some(earlier), true) = (earlier, item.action.writes()) {
            item.action = if earlier.server.entry == item.server.entry {
                Action::Same
            } else {
                Action::Skip("another server of that name is taken over above".to_owned())
            };
        }
        item
    }

    fn to_text(&self, session: &Session) -> String {
        if self.files.is_empty() {
            let mut text =
                String::from("No configuration of another program was found. Looked in:\n");
            for path in &self.looked_at {
                text.push_str(&format!("  {}\n", session.shown_path(path)));
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
    fn to_text(&self, session: &Session) -> String {
        let title = paint(Meaning::Strong, self.file.peer.title());
        let mut text = format!("{title}  {}\n", session.shown_path(&self.file.path));
        if let Some(failure) = &self.failure {
            text.push_str(&format!("  {} {}\n", paint(Meaning::Bad, "!"), printable(failure)));
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
        let items: Vec<Json> = self.items.iter().map(Item::to_json).collect();
        json!({
            "program": self.file.peer.id(),
            "file": self.file.path.to_string_lossy(),
            "failure": self.failure,
            "notes": self.notes,
            "servers": items,
        })
    }
}

impl Item {
    fn to_text(&self) -> String {
        let name = match self.server.name.as_str() {
            "" => printable(&self.original),
            name => printable(name),
        };
        let scope = self.scope.scope();
        let mut text = match &self.action {
            Action::Add => {
                format!("  {} {name} → {scope} scope: {}\n", paint(Meaning::Good, "+"), self.target)
            }
            Action::Replace => {
                let mark = paint(Meaning::Doubtful, "~");
                format!("  {mark} {name} → {scope} scope, replaced: {}\n", self.target)
            }
            Action::Same => format!("  = {name}: already there\n"),
            Action::Kept => {
                format!(
                    "  = {name}: the {scope} scope has another one of that name; --overwrite replaces it\n"
                )
            }
            Action::Skip(why) => {
                format!("  {} {name}: skipped: {}\n", paint(Meaning::Bad, "!"), printable(why))
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
        if let Action::Skip(why) = &self.action {
            json.insert("reason".to_owned(), why.clone().into());
        }
        json.insert("notes".to_owned(), self.notes.clone().into());
        Json::Object(json)
    }
}

fn write(
    plan: &Plan,
    arguments: &Import,
    session: &Session,
) -> Result<Vec<WritableScope>, Failure> {
    let existing = if arguments.overwrite { Existing::Overwrite } else { Existing::Keep };
    let mut written = Vec::new();
    for scope in [WritableScope::User, WritableScope::Local, WritableScope::Project] {
        let servers: Vec<NewServer> = plan
            .items()
            .filter(|item| item.scope == scope && item.action.writes())
            .map(|item| item.server.clone())
            .collect();
        if !servers.is_empty() {
            writing::write(session, scope, &servers, existing)?;
            written.push(scope);
        }
    }
    Ok(written)
}
