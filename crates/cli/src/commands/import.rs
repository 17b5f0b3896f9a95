//! `swb import`: imports servers that other programs have configured. Shows a plan, and writes only after
//! confirmation.

pub(crate) mod plan;
pub(crate) mod secrets;

use std::io::Write;

use clap::Args;
use switchboard::config::entry::name::ServerName;
use switchboard::config::import::{
    self, ConfigDirs, FileScope, HostApp, HostAppFile, ImportNote, ImportOutcome, ImportedScope,
    ImportedServer,
};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;
use switchboard::config::template::LiteralText;
use switchboard::sources::loader::Configuration;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::sources::{project_root, text_file};

use crate::edit::file;
use crate::edit::servers;
use crate::edit::servers::{IfExists, NewServer};
use crate::env::platform;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::style::{TextStyle, paint};
use crate::output::{entry_text, server_json, server_text};
use switchboard::config::display::pluralize;

use plan::{FileFailure, ImportAction, ImportItem, ImportPlan, PlannedFile};
pub use secrets::SecretStorage;

/// Arguments of `swb import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The programs to import from: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode,
    /// zed, windsurf, goose [default: all]
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
    /// Where secrets in clear text go [default: asked at a terminal, otherwise keep]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub secrets: Option<SecretStorage>,
}

/// Parses the name of a program.
pub(crate) fn parse_app(text: &str) -> Result<HostApp, String> {
    HostApp::parse(text).ok_or_else(|| {
        let ids: Vec<&str> = HostApp::ALL.iter().map(|app| app.id()).collect();
        format!("the programs are {}", ids.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &ImportArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let options = PlanOptions {
        programs: &arguments.programs,
        scope: arguments.scope,
        existing: if arguments.overwrite { IfExists::Overwrite } else { IfExists::Fail },
    };
    let mut plan = plan(&options, &configuration, invocation);
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
    let can_ask =
        invocation.env.terminal.is_interactive && !invocation.wants_json() && !arguments.yes;
    let storage = secret_storage(arguments.secrets, plan.storable_secrets(), can_ask)?;
    let items = plan.files.iter_mut().flat_map(|file| &mut file.items);
    let stored = store_secrets(items, storage, invocation)?;
    let written = write(&plan, options.existing, invocation)?;
    let notes = secret_notes(plan.storable_secrets(), storage, stored);
    if invocation.wants_json() {
        return Ok(json_output(&plan.to_json(&written)).note(notes));
    }
    let mut done =
        CommandOutput::text(if arguments.yes { format!("{text}\n") } else { String::new() });
    done.notes = notes;
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
    Ok(matches!(ask(&question)?.as_str(), "y" | "yes"))
}

/// Asks the user, and returns the answer in lower case.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    Ok(ask_text(question)?.to_lowercase())
}

/// Asks the user, and returns the answer as typed.
pub(crate) fn ask_text(question: &str) -> Result<String, Failure> {
    let mut out = anstream::stdout();
    let mut answer = String::new();
    let answered = out
        .write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    answered.map_err(|error| {
        Failure::new(Exit::Failure, "your answer could not be read").caused_by(error)
    })?;
    Ok(answer.trim().to_owned())
}

/// Where the secrets of the plan go: as the option says, or as the user answers.
pub(crate) fn secret_storage(
    chosen: Option<SecretStorage>,
    count: usize,
    can_ask: bool,
) -> Result<SecretStorage, Failure> {
    match chosen {
        Some(storage) => Ok(storage),
        None if !can_ask || count == 0 => Ok(SecretStorage::Keep),
        None => {
            let secrets = pluralize(count, "secret", "secrets");
            let question = format!(
                "Store {secrets} in the keychain (k), in files that only you can read (f), or keep them in the settings (Enter)? "
            );
            Ok(match ask(&question)?.as_str() {
                "k" | "keychain" => SecretStorage::Keychain,
                "f" | "file" | "files" => SecretStorage::File,
                _ => SecretStorage::Keep,
            })
        }
    }
}

/// Stores the secrets of the entries and puts references in their places. Returns how many.
pub(crate) fn store_secrets<'p>(
    items: impl Iterator<Item = &'p mut ImportItem>,
    storage: SecretStorage,
    invocation: &Invocation,
) -> Result<usize, Failure> {
    let mut stored = 0;
    for item in items {
        if !item.has_storable_secrets() {
            continue;
        }
        let Some((entry, found)) = referring_entry(item, storage, invocation) else { continue };
        for (reference, secret) in &found {
            secrets::store(invocation, reference, secret)?;
        }
        stored += found.len();
        item.server.entry = entry;
    }
    Ok(stored)
}

/// The entry of an item with references in place of its secrets, and the secrets; `None` if they stay.
fn referring_entry(
    item: &ImportItem,
    storage: SecretStorage,
    invocation: &Invocation,
) -> Option<secrets::EntryWithSecrets> {
    let place = (item.scope, item.server.name.as_str());
    secrets::with_references(&item.server.entry, |secret| {
        secrets::reference(invocation, storage, place, secret)
    })
}

/// Tells the user where the secrets are now.
pub(crate) fn secret_notes(clear_text: usize, storage: SecretStorage, stored: usize) -> String {
    let secrets = |count: usize| pluralize(count, "secret", "secrets");
    let place = match storage {
        SecretStorage::Keychain => "the keychain",
        SecretStorage::File => "files that only you can read",
        SecretStorage::Keep => {
            return match clear_text {
                0 => String::new(),
                count => format!(
                    "{} {} written in clear text; --secrets keychain or --secrets file stores them elsewhere\n",
                    paint(TextStyle::Warning, "warning:"),
                    secrets(count)
                ),
            };
        }
    };
    match stored {
        0 => String::new(),
        count => format!("note: stored {} in {place}\n", secrets(count)),
    }
}

/// What a plan is made for.
pub(crate) struct PlanOptions<'o> {
    /// The programs; empty for all.
    pub(crate) programs: &'o [HostApp],
    /// The scope for the user's own servers, where the user chose one.
    pub(crate) scope: Option<WritableScope>,
    /// What to do about servers of the same name.
    pub(crate) existing: IfExists,
}

/// The files of a program, in the folders that the environment names.
pub(crate) fn files_of(app: HostApp, invocation: &Invocation) -> Vec<HostAppFile> {
    let env = &invocation.env;
    let root = project_root(&env.working_folder);
    let config = env.config_home();
    let folders =
        ConfigDirs { home: &env.home, config: &config, project: &root, platform: platform() };
    let mut files = import::config_files(app, &folders);
    let moved = match app {
        HostApp::ClaudeCode => Some(("CLAUDE_CONFIG_DIR", ".claude.json")),
        HostApp::Codex => Some(("CODEX_HOME", "config.toml")),
        HostApp::ClaudeDesktop
        | HostApp::Cursor
        | HostApp::VsCode
        | HostApp::Gemini
        | HostApp::Opencode
        | HostApp::Zed
        | HostApp::Windsurf
        | HostApp::Goose => None,
    };
    if let Some((variable, name)) = moved
        && let Some(folder) = env.variables.get(variable).filter(|folder| !folder.is_empty())
        && let Some(file) = files.iter_mut().find(|file| file.scope == FileScope::User)
    {
        file.path = env.working_folder.join(folder).join(name);
    }
    files
}

/// Plans an import: reads the files and decides about each server.
pub(crate) fn plan(
    options: &PlanOptions<'_>,
    configuration: &Configuration,
    invocation: &Invocation,
) -> ImportPlan {
    let root = project_root(&invocation.env.working_folder);
    let apps = if options.programs.is_empty() { &HostApp::ALL[..] } else { options.programs };
    let mut plan = ImportPlan { files: Vec::new(), looked_at: Vec::new() };
    for file in apps.iter().flat_map(|app| files_of(*app, invocation)) {
        plan.looked_at.push(file.path.clone());
        let mut planned = PlannedFile::new(file);
        let found = match text_file::read_text(&planned.file.path, AllowedFiles::RegularOnly) {
            Ok(FileContent::Absent) => continue,
            Ok(FileContent::Text(text)) => {
                planned.text = text;
                import::read(&planned.file, &planned.text, &root).map_err(FileFailure::Syntax)
            }
            Err(why) => Err(FileFailure::Unreadable(why)),
        };
        match found {
            Err(failure) => planned.failure = Some(failure),
            Ok(ImportOutcome { servers, notes }) => {
                planned.notes = notes;
                for imported in servers {
                    let item =
                        plan_item(options, imported, &planned.file, configuration, invocation);
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
    options: &PlanOptions<'_>,
    imported: ImportedServer,
    file: &HostAppFile,
    configuration: &Configuration,
    invocation: &Invocation,
) -> ImportItem {
    let scope = match imported.scope {
        ImportedScope::User => options.scope.unwrap_or(WritableScope::User),
        ImportedScope::Local => options.scope.unwrap_or(WritableScope::Local),
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
        source_scope: imported.scope,
        import_notes: imported.notes,
        target: String::new(),
        details: String::new(),
        shown_entry: None,
        secrets: Vec::new(),
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
            // What a project's file says is shown in full; a user's own file may hold secrets.
            let literals = match imported.scope {
                ImportedScope::Project => LiteralText::Full,
                ImportedScope::User | ImportedScope::Local => LiteralText::Masked,
            };
            item.target = server_text::target_with(&resolved, literals).unwrap_or_default();
            item.details = entry_text::more_entry_text(&invocation.env, &resolved, literals);
            item.shown_entry = server_json::entry_json_with(&resolved, literals);
            item.secrets = secrets::literal_secrets(&item.server.entry)
                .iter()
                .map(secrets::LiteralSecret::place)
                .collect();
            item.action = plan_action(options, &item, resolved, configuration, invocation);
            notes.extend(precedence_note(&item, file, configuration));
            if !item.secrets.is_empty() {
                let count = pluralize(item.secrets.len(), "secret", "secrets");
                notes.push(format!("{count} in clear text: {}", item.secrets.join(", ")));
            }
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
    options: &PlanOptions<'_>,
    item: &ImportItem,
    resolved: ResolvedServer,
    configuration: &Configuration,
    invocation: &Invocation,
) -> ImportAction {
    let file = invocation.scope_file(item.scope);
    match servers::definition_in(configuration, &file, &item.server.name) {
        None => ImportAction::Add,
        Some(there)
            if there.fingerprint == resolved.fingerprint
                || is_stored_form(item, there, configuration, invocation) =>
        {
            ImportAction::Same
        }
        Some(_) if options.existing == IfExists::Overwrite => ImportAction::Replace,
        Some(_) => ImportAction::Conflict,
    }
}

/// Is the definition what an earlier import wrote, with the secrets stored elsewhere?
fn is_stored_form(
    item: &ImportItem,
    there: &ResolvedServer,
    configuration: &Configuration,
    invocation: &Invocation,
) -> bool {
    [SecretStorage::File, SecretStorage::Keychain].into_iter().any(|storage| {
        let Some((entry, _)) = referring_entry(item, storage, invocation) else { return false };
        let server = NewServer { entry, ..item.server.clone() };
        let resolved = servers::check_entry(invocation, configuration, item.scope, &server);
        !item.secrets.is_empty() && resolved.is_ok_and(|it| it.fingerprint == there.fingerprint)
    })
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
    existing: IfExists,
    invocation: &Invocation,
) -> Result<Vec<WritableScope>, Failure> {
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
