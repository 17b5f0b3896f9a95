//! `swb import`: imports servers that other programs have configured. Shows a plan, and writes only after
//! confirmation.

mod plan;

use std::io::Write;

use clap::Args;
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

use crate::edit::file;
use crate::edit::servers;
use crate::edit::servers::{IfExists, NewServer};
use crate::env::platform;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::server_text;
use switchboard::config::display::pluralize;

use plan::{ImportAction, ImportItem, ImportPlan, PlannedFile};

/// Arguments of `swb import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The programs to import from: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode [default:
    /// all]
    #[arg(value_parser = parse_app)]
    pub programs: Vec<HostApp>,
    /// The scope for your own servers; servers of the project stay in its file and need approval
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Show the plan without writing
    #[arg(long)]
    pub dry_run: bool,
    /// Write without confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Replace servers of the same name
    #[arg(long)]
    pub overwrite: bool,
}

fn parse_app(text: &str) -> Result<HostApp, String> {
    HostApp::parse(text).ok_or_else(|| {
        let ids: Vec<&str> = HostApp::ALL.iter().map(|app| app.id()).collect();
        format!("the programs are {}", ids.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &ImportArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let plan = plan(arguments, &configuration, invocation);
    let count = plan.items().filter(|item| item.action.writes()).count();
    let text = if invocation.wants_json() { String::new() } else { plan.to_text(invocation) };
    if arguments.dry_run || count == 0 {
        if invocation.wants_json() {
            return Ok(json_output(&plan.to_json(&[])));
        }
        return Ok(CommandOutput::text(format!("{text}\nNothing was written.\n")));
    }
    if !arguments.yes && !confirm(&text, count, invocation)? {
        return Ok(CommandOutput::text("Nothing was written.\n"));
    }
    let written = write(&plan, arguments, invocation)?;
    if invocation.wants_json() {
        return Ok(json_output(&plan.to_json(&written)));
    }
    let mut done =
        CommandOutput::text(if arguments.yes { format!("{text}\n") } else { String::new() });
    for scope in written {
        let in_scope = plan.items().filter(|it| it.scope == scope && it.action.writes()).count();
        let servers = pluralize(in_scope, "server", "servers");
        done.text.push_str(&format!(
            "Wrote {servers} to {}\n",
            file::scope_location(invocation, scope, &invocation.scope_file(scope))
        ));
        if scope == WritableScope::Project {
            done.notes.push_str(
                "note: a project's servers start after you approve them: swb approve --all\n",
            );
        }
    }
    Ok(done)
}

fn confirm(plan: &str, count: usize, invocation: &Invocation) -> Result<bool, Failure> {
    if !invocation.env.terminal.is_interactive || invocation.wants_json() {
        return Err(Failure::new(
            Exit::Usage,
            "nothing was written: confirmation needs a terminal",
        )
        .detail(plan.to_owned())
        .hint("add --yes to write, or --dry-run to only show the plan"));
    }
    let question = format!("{plan}\nWrite {}? [y/N] ", pluralize(count, "server", "servers"));
    let mut out = anstream::stdout();
    let mut answer = String::new();
    let answered = out
        .write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    answered.map_err(|error| {
        Failure::new(Exit::Failure, "your answer could not be read").caused_by(error)
    })?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn plan(
    arguments: &ImportArgs,
    configuration: &Configuration,
    invocation: &Invocation,
) -> ImportPlan {
    let env = &invocation.env;
    let root = project_root(&env.working_folder);
    let config = env.config_home();
    let folders =
        ConfigDirs { home: &env.home, config: &config, project: &root, platform: platform() };
    let apps = if arguments.programs.is_empty() { &HostApp::ALL[..] } else { &arguments.programs };
    let mut plan = ImportPlan { files: Vec::new(), looked_at: Vec::new() };
    for file in apps.iter().flat_map(|app| import::config_files(*app, &folders)) {
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
                        plan_item(arguments, imported, &planned.file, configuration, invocation);
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
    invocation: &Invocation,
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
            ImportAction::Skip("its name is not valid, and no similar name is".to_owned());
        return item;
    }
    if item.server.name != item.original {
        notes.push(format!("renamed from `{}`", item.original));
    }
    match servers::check_entry(invocation, configuration, scope, &item.server) {
        Err(failure) => {
            let detail = anstream::adapter::strip_str(&failure.detail).to_string();
            let why = detail.lines().next().map(str::to_owned).filter(|it| !it.is_empty());
            item.action = ImportAction::Skip(why.or(failure.hint).unwrap_or(failure.message));
        }
        Ok(resolved) => {
            item.target = resolved.entry.as_ref().map(server_text::target).unwrap_or_default();
            item.action = plan_action(arguments, &item, resolved, configuration, invocation);
            notes.extend(precedence_note(&item, file, configuration));
            if scope == WritableScope::Project && servers::holds_literal_secret(&item.server.entry)
            {
                notes.push(
                    "warning: it holds a secret that everyone with access to the project can read"
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
    invocation: &Invocation,
) -> ImportAction {
    let file = invocation.scope_file(item.scope);
    match servers::definition_in(configuration, &file, &item.server.name) {
        None => ImportAction::Add,
        Some(there) if there.fingerprint == resolved.fingerprint => ImportAction::Same,
        Some(_) if arguments.overwrite => ImportAction::Replace,
        Some(_) => ImportAction::Conflict,
    }
}

/// In Claude Code local servers override those of the project; here the project's override. Says so where both exist.
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
        "the project's server of that name is used here; Claude Code used this one".to_owned()
    })
}

fn write(
    plan: &ImportPlan,
    arguments: &ImportArgs,
    invocation: &Invocation,
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
            servers::write_servers(invocation, scope, &servers, existing)?;
            written.push(scope);
        }
    }
    Ok(written)
}
