//! `request_access`: asks the user which applications may be used, and records the answer.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_builtin::kit::elicitation::{Elicitation, ElicitationResult, FormField};
use switchboard_builtin::kit::{HandlerContext, HandlerError, LogLevel, ToolOutput};

use crate::applications::desktop_entry::{Application, ApplicationReach};
use crate::error::{ComputerError, Result};
use crate::grants::{Ability, Grants};
use crate::session::{Precondition, Session, Work};
use crate::shown_text::shown;
use crate::x11::windows::{ClientWindow, DESKTOP_KEY};

/// The most applications in one request.
const MAX_APPLICATIONS: usize = 12;
/// The longest reason, in characters.
const MAX_REASON: usize = 300;
/// The longest name, in characters.
const MAX_NAME: usize = 60;
/// The name under which the model asks for what belongs to no application.
const DESKTOP_NAME: &str = "desktop";
/// How many names an error lists.
const MAX_KNOWN: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessArguments {
    /// Names of applications, or `desktop` for background, panels and menus of the desktop.
    #[schemars(length(max = MAX_APPLICATIONS))]
    applications: Vec<String>,
    /// What you want to do, in one sentence; the user reads it.
    reason: String,
    #[serde(default)]
    clipboard_read: bool,
    #[serde(default)]
    clipboard_write: bool,
    /// Key combinations that act on the whole desktop, such as alt+Tab.
    #[serde(default)]
    system_keys: bool,
}

/// An application that is asked for.
#[derive(Debug, Clone)]
struct RequestedApplication {
    label: String,
    keys: BTreeSet<String>,
    /// The programs of its open windows.
    programs: BTreeSet<String>,
    reach: ApplicationReach,
}

/// What is asked for, and what of it is missing.
struct AccessRequest {
    applications: Vec<RequestedApplication>,
    abilities: Vec<Ability>,
    is_granted: bool,
}

impl AccessArguments {
    fn abilities(&self) -> Vec<Ability> {
        let wanted = [
            (self.clipboard_read, Ability::ReadClipboard),
            (self.clipboard_write, Ability::WriteClipboard),
            (self.system_keys, Ability::SystemKeys),
        ];
        wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, it)| it).collect()
    }
}

/// Asks the user.
pub(crate) async fn request(
    session: Arc<Session>,
    context: HandlerContext,
    arguments: AccessArguments,
) -> std::result::Result<ToolOutput, HandlerError> {
    let (names, abilities) = (arguments.applications.clone(), arguments.abilities());
    let resolve = move |work: &mut Work<'_>| resolve(work, &names, abilities);
    let request = session.run(context.clone(), Precondition::Display, resolve).await?;
    if request.is_granted {
        return Ok(ToolOutput::text(format!("already granted: {}", summary(&session.grants()))));
    }
    let elicitation = elicitation(&request, &arguments.reason);
    let content = match context.elicit(&elicitation).await? {
        ElicitationResult::Accepted(content) => content,
        ElicitationResult::Declined => {
            record(&context, "access declined by the user").await;
            return Err(
                ComputerError::Declined("they declined; do not ask again for the same").into()
            );
        }
        ElicitationResult::Cancelled => {
            return Err(ComputerError::Declined("they closed the question").into());
        }
    };
    let grant = move |work: &mut Work<'_>| {
        let granted = grant(work.grants, &request, &content);
        if granted.is_empty() {
            return Err(ComputerError::Declined("they left everything out"));
        }
        work.desktop.resume()?;
        Ok(granted.join(", "))
    };
    let granted = session.run(context.clone(), Precondition::Display, grant).await?;
    record(&context, &format!("access granted for this session: {granted}")).await;
    Ok(ToolOutput::text(format!("granted: {granted}. Call screenshot before you act.")))
}

/// Records an answer of the user in the log of the program and in that of the server.
async fn record(context: &HandlerContext, text: &str) {
    tracing::info!(target: "computer", "{text}");
    context.log(LogLevel::Notice, text).await;
}

fn resolve(
    work: &mut Work<'_>,
    names: &[String],
    abilities: Vec<Ability>,
) -> Result<AccessRequest> {
    let is_empty = names.is_empty() && abilities.is_empty();
    if is_empty || names.len() > MAX_APPLICATIONS {
        let expected = format!("a list of 1 to {MAX_APPLICATIONS} applications");
        return Err(ComputerError::Argument { name: "applications", expected });
    }
    let windows = work.desktop.display.client_windows()?;
    let installed = &work.session.applications;
    let applications: Vec<RequestedApplication> =
        names.iter().map(|it| find(it, &windows, installed)).collect::<Result<_>>()?;
    let has_all = applications.iter().all(|it| work.grants.has_application(&it.keys))
        && abilities.iter().all(|it| work.grants.has_ability(*it));
    let is_granted = has_all && !work.desktop.is_stopped()?;
    Ok(AccessRequest { applications, abilities, is_granted })
}

/// The application that is meant by a name.
fn find(
    name: &str,
    windows: &[ClientWindow],
    installed: &[Application],
) -> Result<RequestedApplication> {
    let name = shown(name, MAX_NAME);
    let key = name.to_lowercase();
    if key == DESKTOP_NAME {
        let label = "the desktop: its background, panels and menus".to_owned();
        let keys = BTreeSet::from([DESKTOP_KEY.to_owned()]);
        let (programs, reach) = (BTreeSet::new(), ApplicationReach::Itself);
        return Ok(RequestedApplication { label, keys, programs, reach });
    }
    let mut keys = BTreeSet::new();
    let mut label = None;
    let mut reach = ApplicationReach::Itself;
    if let Some(application) = installed.iter().find(|it| it.is_called(&key)) {
        keys.extend(application.keys.iter().cloned());
        label = Some(application.name.clone());
        reach = application.reach;
    }
    let mut programs = BTreeSet::new();
    for window in windows {
        let owner = &window.owner;
        if owner.key == key || keys.contains(&owner.key) {
            keys.insert(owner.key.clone());
            label.get_or_insert_with(|| shown(&owner.label, MAX_NAME));
            programs.extend(owner.pid.and_then(program_of));
        }
    }
    // No window may be granted as the desktop by calling itself so.
    keys.remove(DESKTOP_KEY);
    if reach == ApplicationReach::Itself {
        reach = ApplicationReach::of_keys(&keys);
    }
    match label {
        Some(label) => Ok(RequestedApplication { label, keys, programs, reach }),
        None => Err(ComputerError::UnknownApplication { name, known: known(windows, installed) }),
    }
}

/// The names that can be asked for.
fn known(windows: &[ClientWindow], installed: &[Application]) -> String {
    let open = windows.iter().filter(|it| it.owner.key != DESKTOP_KEY);
    let open: BTreeSet<String> = open.map(|it| shown(&it.owner.label, MAX_NAME)).collect();
    let list = |names: Vec<String>| match names.is_empty() {
        true => "none".to_owned(),
        false => names.into_iter().take(MAX_KNOWN).collect::<Vec<_>>().join(", "),
    };
    let installed = installed.iter().map(|it| it.name.clone()).collect();
    format!("open: {}; installed: {}", list(open.into_iter().collect()), list(installed))
}

/// The path of a process's program.
fn program_of(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(shown(&path.to_string_lossy(), 120))
}

fn elicitation(request: &AccessRequest, reason: &str) -> Elicitation {
    let mut message =
        "The model asks to see and control these on your screen, until this session ends:\n"
            .to_owned();
    let mut fields = Vec::new();
    for (number, application) in request.applications.iter().enumerate() {
        let programs: Vec<&str> = application.programs.iter().map(String::as_str).collect();
        let running = match programs.is_empty() {
            true => String::new(),
            false => format!(" (running: {})", programs.join(", ")),
        };
        let reach = match application.reach {
            ApplicationReach::Itself => "",
            ApplicationReach::Commands => "; commands that are typed into it run as you",
        };
        message += &format!("- {}{running}{reach}\n", application.label);
        let field = FormField::boolean(&field_name(number), &application.label);
        fields.push(field.with_default(true));
    }
    for ability in &request.abilities {
        message += &format!("- {}\n", ability.description());
        let field = FormField::boolean(ability.name(), ability.description());
        fields.push(field.with_default(false));
    }
    message += &format!("Its reason: {}\n", shown(reason, MAX_REASON));
    message += "Press Escape or move the pointer during an action to stop it.";
    Elicitation::form(&message, fields)
}

fn field_name(number: usize) -> String {
    format!("application_{}", number + 1)
}

/// Grants what the user accepted and returns its names.
fn grant(grants: &mut Grants, request: &AccessRequest, content: &Map<String, Json>) -> Vec<String> {
    let answer = |name: &str| content.get(name).and_then(Json::as_bool);
    let mut granted = Vec::new();
    for (number, application) in request.applications.iter().enumerate() {
        // A client that shows no fields accepts the applications in the message.
        if answer(&field_name(number)).unwrap_or(true) {
            grants.add_application(&application.label, &application.keys);
            granted.push(application.label.clone());
        }
    }
    for &ability in &request.abilities {
        if answer(ability.name()).unwrap_or(false) {
            grants.add_ability(ability);
            granted.push(ability.name().to_owned());
        }
    }
    granted
}

/// What is granted, for the model.
pub(crate) fn summary(grants: &Grants) -> String {
    let names = grants.application_names();
    let names = names.into_iter().map(str::to_owned);
    let abilities = grants.abilities().map(|it| it.name().to_owned());
    let all: Vec<String> = names.chain(abilities).collect();
    match all.is_empty() {
        true => "nothing; call request_access".to_owned(),
        false => all.join(", "),
    }
}
