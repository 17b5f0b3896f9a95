//! IDEs: where they are looked for, which one a conversation connects, and the session that works with it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::Host;
use switchboard::ide::{
    FoundIdes, IDE_SERVER, IdeChoice, IdeLock, IdePlatform, IdeSearch, IdeSelector, ValidityCheck,
    ide_server,
};
use switchboard::permission::ActiveRules;
use switchboard::sources::loader::Configuration;
use switchboard_builtin::workspace::proposed_edit::{ProposedEdit, propose_edit, read_text};
use switchboard_chat::ide::{EditPlanner, IdeSession, IdeSessionOptions, PlannedEdit};
use switchboard_tui::backend::StartedIde;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::ide_text;
use crate::runtime::in_process;

/// Selects an IDE by its port.
const PORT_VARIABLE: &str = "SWB_IDE_PORT";
/// The same; IDEs set it in their terminals.
const SSE_PORT_VARIABLE: &str = "CLAUDE_CODE_SSE_PORT";
/// Whether an IDE is connected without `--ide`; has precedence over the settings.
const AUTO_CONNECT_VARIABLE: &str = "CLAUDE_CODE_AUTO_CONNECT_IDE";
/// The host where IDEs listen.
const HOST_VARIABLE: &str = "CLAUDE_CODE_IDE_HOST_OVERRIDE";
/// Lets every lock file count.
const SKIP_CHECK_VARIABLE: &str = "CLAUDE_CODE_IDE_SKIP_VALID_CHECK";
/// Another place of the folder in which IDEs write lock files.
const OTHER_CONFIG_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// Whether the user asks for an IDE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeFlag {
    /// `--ide`.
    Set,
    /// No flag: the environment and the settings decide.
    NotSet,
}

/// Whether the user asks for an IDE, with the flag or our own variable. The variables of IDEs and the settings do not ask:
/// programs inherit the former from the terminal that they were started in.
pub fn is_asked_for(invocation: &Invocation, flag: IdeFlag) -> bool {
    flag == IdeFlag::Set || port(invocation, PORT_VARIABLE).is_some()
}

fn port(invocation: &Invocation, name: &str) -> Option<u16> {
    invocation.env.variables.get(name).and_then(|it| it.trim().parse().ok())
}

/// Where IDEs are looked for. Files of a project have no part in it.
pub fn search(invocation: &Invocation) -> IdeSearch {
    let env = &invocation.env;
    let text = |name: &str| env.variables.get(name).filter(|it| !it.is_empty());
    let other = text(OTHER_CONFIG_VARIABLE).map(PathBuf::from).filter(|it| it.is_absolute());
    let mut folders = vec![env.paths.ide_locks()];
    folders.extend(other.map(|it| it.join("ide")));
    folders.push(env.home.join(".claude").join("ide"));
    IdeSearch {
        folders,
        working_folder: env.working_folder.clone(),
        host: text(HOST_VARIABLE).cloned(),
        check: match is_true(text(SKIP_CHECK_VARIABLE)) {
            Some(true) => ValidityCheck::Skip,
            Some(false) | None => ValidityCheck::Check,
        },
    }
}

fn is_true(text: Option<&String>) -> Option<bool> {
    match text?.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Looks for IDEs.
pub async fn find(invocation: &Invocation) -> FoundIdes {
    FoundIdes::find(&search(invocation)).await
}

/// Starts the session. It works with whatever IDE is connected, now or later.
pub fn start_session(invocation: &Invocation, host: &Host, rules: &ActiveRules) -> StartedIde {
    let working_folder = invocation.env.working_folder.clone();
    let planner = Arc::new(WorkspacePlanner { invocation: invocation.clone() });
    let options = IdeSessionOptions { working_folder, rules: rules.clone(), planner };
    let (session, updates, task) = IdeSession::start(host.clone(), options);
    StartedIde { session, updates, task }
}

/// Connects an IDE as flag, environment and settings say. Returns a warning where the user asked for one and gets none.
pub async fn connect_at_start(
    invocation: &Invocation,
    (host, session): (&Host, &IdeSession),
    configuration: &Configuration,
    flag: IdeFlag,
) -> String {
    let variables = &invocation.env.variables;
    let automatic = is_true(variables.get(AUTO_CONNECT_VARIABLE));
    let own_port = port(invocation, PORT_VARIABLE);
    let is_asked_for = is_asked_for(invocation, flag);
    // A terminal of an IDE names its port, unless the user does not want that.
    let port = own_port
        .or_else(|| port(invocation, SSE_PORT_VARIABLE).filter(|_| automatic != Some(false)));
    let is_wanted = is_asked_for
        || port.is_some()
        || automatic.or(configuration.auto_connect_ide).unwrap_or(false);
    if !is_wanted {
        return String::new();
    }
    let found = find(invocation).await;
    let by_port = port.map(|it| found.choose(IdeSelector::Port(it)));
    let choice = match by_port {
        Some(chosen @ IdeChoice::Chosen(_)) => chosen,
        Some(nothing) if own_port.is_some() => nothing,
        // A variable that an IDE set which has ended.
        Some(_) if !is_asked_for && automatic.or(configuration.auto_connect_ide) != Some(true) => {
            return String::new();
        }
        Some(_) | None => found.choose(IdeSelector::OnlyValid),
    };
    let lock = match choice {
        IdeChoice::Chosen(lock) => lock,
        other if is_asked_for => return ide_text::not_chosen(&invocation.env, &found, &other),
        IdeChoice::NoneFound
        | IdeChoice::NoneMatches
        | IdeChoice::Several(_)
        | IdeChoice::NothingAtPort(_) => return String::new(),
    };
    match connect(lock, &found.host, (host, session), configuration).await {
        Ok(()) => String::new(),
        Err(failure) if is_asked_for => {
            ide_text::warning(&format!("no IDE is connected: {}", failure.message))
        }
        Err(_) => String::new(),
    }
}

/// Connects an IDE.
pub async fn connect(
    lock: &IdeLock,
    ide_host: &str,
    (host, session): (&Host, &IdeSession),
    configuration: &Configuration,
) -> Result<(), Failure> {
    let server = ide_server(lock, ide_host, configuration).map_err(|refusal| {
        Failure::new(Exit::Policy, &refusal.to_string())
            .hint("`swb doctor ide` shows the lock files")
    })?;
    let folders = lock.workspace_folders.iter();
    session.set_ide_folders(match lock.platform {
        IdePlatform::Local => folders.map(PathBuf::from).collect(),
        // Its paths are none of this system.
        IdePlatform::Windows => Vec::new(),
    });
    host.set_ide(Some(server)).await;
    Ok(())
}

/// Runs `/ide`: lists IDEs, connects one by its number or port, or disconnects.
pub async fn run_command(
    invocation: &Invocation,
    (host, session): (&Host, &IdeSession),
    configuration: &Configuration,
    argument: Option<&str>,
) -> Result<String, Failure> {
    let argument = match argument {
        Some("off") => {
            host.set_ide(None).await;
            return Ok("The IDE is disconnected.".to_owned());
        }
        Some("status") | None => None,
        Some(argument) => Some(argument),
    };
    let found = find(invocation).await;
    let Some(argument) = argument else {
        return Ok(ide_text::list(&invocation.env, &found, host.ide().as_deref()));
    };
    let running = found.running();
    let number: Option<usize> = argument.parse().ok();
    let by_position = number.and_then(|it| running.get(it.checked_sub(1)?).copied());
    let by_port = || running.iter().copied().find(|it| number == Some(usize::from(it.port)));
    let Some(lock) = by_position.or_else(by_port) else {
        let message = format!("no IDE has the number or port `{argument}`");
        return Err(Failure::new(Exit::NotFound, &message).hint("`/ide` lists those that run"));
    };
    connect(lock, &found.host, (host, session), configuration).await?;
    let connected = host.ensure_connected(IDE_SERVER).await;
    match (connected, host.ide()) {
        (Ok(()), _) => Ok(format!("{} is connected.", ide_text::name(lock))),
        (Err(_), Some(view)) => Ok(ide_text::status(&view)),
        (Err(error), None) => {
            Err(Failure::new(Exit::Connection, "the IDE is not connected").caused_by(error))
        }
    }
}

/// Computes edits as the workspace server does.
struct WorkspacePlanner {
    invocation: Invocation,
}

impl WorkspacePlanner {
    /// The folders of the built-in tools now: folders are added while a session runs.
    fn roots(&self) -> Vec<PathBuf> {
        in_process::roots(&self.invocation)
    }
}

impl EditPlanner for WorkspacePlanner {
    fn plan(&self, tool: &str, arguments: &Json) -> Option<PlannedEdit> {
        let ProposedEdit { path, old_text, new_text } =
            propose_edit(&self.roots(), tool, arguments)?;
        Some(PlannedEdit { path, old_text, new_text })
    }

    fn arguments_for(
        &self,
        tool: &str,
        arguments: &Json,
        edit: &PlannedEdit,
        contents: &str,
    ) -> Option<Json> {
        let PlannedEdit { path, old_text, new_text } = edit.clone();
        ProposedEdit { path, old_text, new_text }.arguments_for(tool, arguments, contents)
    }

    fn read(&self, edit: &PlannedEdit) -> Option<String> {
        read_text(&self.roots(), &edit.path)
    }
}
