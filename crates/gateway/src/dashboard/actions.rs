//! What the forms of the pages do. Each is a POST with the token of its page; the outcome is another page.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard::permission::{GrantScope, PermissionDecision};
use tokio::time::timeout;

use super::clients::{ClientDirectory, SessionEnd};
use super::context::DashboardParts;
use super::form::{Form, link};
use super::operator::ServerSwitch;
use super::page::{Notice, NoticeKind};
use super::parts::shown;
use super::screens::Screen;
use super::screens::tool::{FormInput, ToolScreen, definition_digest};
use super::tool_form;

/// How long a page waits for a server to reconnect or a login to go on.
const WAIT: Duration = Duration::from_secs(3);
/// The longest reason for a denial, in characters.
const MAX_REASON_CHARS: usize = 500;
/// The longest name in a notice.
const MAX_NAME_CHARS: usize = 80;

/// What comes after an action.
pub(crate) enum ActionOutcome {
    /// Another page.
    Redirect(String),
    /// The page of the form again, with what is wrong.
    Show(Screen, String),
    /// An error.
    Failed(String),
}

/// Performs the action of a path. None if there is none.
pub(crate) async fn perform(
    path: &str,
    form: &Form,
    parts: &DashboardParts,
    clients: &dyn ClientDirectory,
) -> Option<ActionOutcome> {
    Some(match path {
        "/ui/server/reconnect" => reconnect(form, parts).await,
        "/ui/server/switch" => switch(form, parts).await,
        "/ui/tool/call" => call_tool(form, parts).await,
        "/ui/run/cancel" => cancel_run(form, parts).await,
        "/ui/approvals/decide" => decide(form, parts).await,
        "/ui/clients/end-session" => end_session(form, clients),
        "/ui/clients/cancel-request" => cancel_request(form, parts).await,
        "/ui/logins/start" => start_login(form, parts).await,
        "/ui/logins/submit" => submit_to_login(form, parts).await,
        _ => return None,
    })
}

/// The notice that a page shows after an action. The query names it; its text is fixed.
pub(crate) fn notice(query: &Form) -> Option<Notice> {
    let name = shown(query.text("name"), MAX_NAME_CHARS);
    let done = |text: String| Some(Notice { kind: NoticeKind::Done, text });
    match query.text("notice") {
        "reconnecting" => done(format!("{name} is reconnecting.")),
        "enabled" => done(format!("{name} is enabled.")),
        "disabled" => done(format!("{name} is disabled.")),
        "allowed" => done("The call was allowed.".to_owned()),
        "denied" => done("The call was denied.".to_owned()),
        "session-ended" => done("The session was ended.".to_owned()),
        "request-cancelled" => done("The request was cancelled.".to_owned()),
        "call-cancelled" => done("The call was cancelled.".to_owned()),
        "gone" => Some(Notice {
            kind: NoticeKind::Problem,
            text: "Too late: it had ended, or was decided elsewhere.".to_owned(),
        }),
        _ => None,
    }
}

fn redirect(path: &str, notice: &str, more: &[(&str, &str)]) -> ActionOutcome {
    let pairs = [more, &[("notice", notice)]].concat();
    ActionOutcome::Redirect(link(path, &pairs))
}

async fn reconnect(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let name = form.text("name");
    let reconnecting = timeout(WAIT, parts.gateway.relay.host.reconnect(name)).await;
    match reconnecting {
        Ok(None) => ActionOutcome::Failed("There is no such server.".to_owned()),
        Ok(Some(())) | Err(_) => redirect("/ui/server", "reconnecting", &[("name", name)]),
    }
}

async fn switch(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let (name, operator) = (form.text("name").to_owned(), parts.operator.clone());
    let (to, notice) = match form.text("to") {
        "enabled" => (ServerSwitch::Enabled, "enabled"),
        "disabled" => (ServerSwitch::Disabled, "disabled"),
        _ => return ActionOutcome::Failed("The form is not complete.".to_owned()),
    };
    let switched = name.clone();
    let work = tokio::task::spawn_blocking(move || operator.switch(&switched, to));
    match work.await {
        Ok(Ok(_)) => redirect("/ui/server", notice, &[("name", &name)]),
        Ok(Err(why)) => ActionOutcome::Failed(why),
        Err(_) => ActionOutcome::Failed("The configuration could not be changed.".to_owned()),
    }
}

async fn call_tool(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let exposed_name = form.text("tool").to_owned();
    let pool = parts.gateway.relay.host.pool();
    let Some(tool) = pool.find(&exposed_name).cloned() else {
        return ActionOutcome::Failed("There is no such tool any more.".to_owned());
    };
    let again = |why: String| {
        let entered = Some(FormInput(form.clone()));
        let is_raw = form.text("mode") == "json";
        ActionOutcome::Show(
            Screen::Tool(ToolScreen { exposed_name: exposed_name.clone(), is_raw, entered }),
            why,
        )
    };
    if form.text("definition") != definition_digest(&tool) {
        let why = "The tool's definition has changed since this page was loaded. Check it, and call again.";
        return again(why.to_owned());
    }
    let arguments = match form.text("mode") {
        "json" => match serde_json::from_str::<Json>(form.text("arguments")) {
            Ok(arguments @ Json::Object(_)) => arguments,
            Ok(_) => return again("The arguments are not a JSON object.".to_owned()),
            Err(error) => return again(format!("The arguments are not JSON: {error}")),
        },
        _ => {
            let schema = tool.input_schema.decode::<Json>().unwrap_or_default();
            let fields = tool_form::fields(&schema).unwrap_or_default();
            match tool_form::arguments(&fields, |name| form.get(name)) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let name = shown(&error.name, MAX_NAME_CHARS);
                    return again(format!("{name}: expected {}.", error.expected));
                }
            }
        }
    };
    match parts.runs.start(tool, arguments).await {
        Some(id) => ActionOutcome::Redirect(format!("/ui/run?id={id}")),
        None => again("Too many calls of the dashboard are running.".to_owned()),
    }
}

async fn cancel_run(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let id = form.text("id");
    if let Ok(id) = id.parse() {
        parts.runs.cancel(id).await;
    }
    redirect("/ui/run", "call-cancelled", &[("id", id)])
}

async fn decide(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let pending = parts.approvals.pending();
    let number: Option<u64> = form.text("number").parse().ok();
    let back = match form.text("run") {
        "" => "/ui/approvals".to_owned(),
        run => link("/ui/run", &[("id", run)]),
    };
    let to = |notice: &str| {
        let separator = if back.contains('?') { '&' } else { '?' };
        ActionOutcome::Redirect(format!("{back}{separator}notice={notice}"))
    };
    let Some(approval) = pending.iter().find(|it| Some(it.id) == number) else {
        return to("gone");
    };
    let rule = |position: &str| {
        let position: usize = position.parse().ok()?;
        approval.suggestions.get(position).map(|it| it.rule.clone())
    };
    let decision = form.text("decision");
    let scope = match decision.split_once(':') {
        None if decision == "once" => Some(GrantScope::Once),
        Some(("session", position)) => rule(position).map(GrantScope::Session),
        Some(("always", position)) => rule(position).map(GrantScope::Always),
        Some(_) | None => None,
    };
    let (decision, notice) = match (scope, decision) {
        (Some(scope), _) => {
            let decided_by = "the gateway's operator allowed it in the dashboard".to_owned();
            (PermissionDecision::Allow { decided_by, scope }, "allowed")
        }
        (None, "deny") => {
            let reason: String = form.text("reason").chars().take(MAX_REASON_CHARS).collect();
            let because = &approval.reason;
            let why = match reason.is_empty() {
                true => format!("{because}, and the gateway's operator denied it"),
                false => format!("{because}, and the gateway's operator says: {reason}"),
            };
            (PermissionDecision::Deny(why), "denied")
        }
        (None, _) => return ActionOutcome::Failed("The form is not complete.".to_owned()),
    };
    match parts.approvals.decide(approval.id, decision).await {
        Some(_) => to(notice),
        None => to("gone"),
    }
}

fn end_session(form: &Form, clients: &dyn ClientDirectory) -> ActionOutcome {
    match clients.end_session(form.text("session")) {
        SessionEnd::Ended => redirect("/ui/clients", "session-ended", &[]),
        SessionEnd::Unknown => redirect("/ui/clients", "gone", &[]),
    }
}

async fn cancel_request(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let is_cancelled = match form.text("id").parse() {
        Ok(id) => parts.gateway.multi_round_trip.cancel_suspended(id).await,
        Err(_) => false,
    };
    let notice = if is_cancelled { "request-cancelled" } else { "gone" };
    redirect("/ui/clients", notice, &[])
}

async fn start_login(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let server = form.text("name");
    let host = &parts.gateway.relay.host;
    match host.start_login(server).await {
        Some(stage) => {
            parts.runs.follow_login(server, stage).await;
            ActionOutcome::Redirect("/ui/logins".to_owned())
        }
        None => ActionOutcome::Failed("There is no such server.".to_owned()),
    }
}

async fn submit_to_login(form: &Form, parts: &DashboardParts) -> ActionOutcome {
    let (server, pasted) = (form.text("name"), form.text("callback").to_owned());
    match parts.gateway.relay.host.submit_to_login(server, pasted).await {
        Some(mut stage) => {
            let follow = stage.clone();
            let _shown_as_it_is = timeout(WAIT, stage.changed()).await;
            parts.runs.follow_login(server, follow).await;
            ActionOutcome::Redirect("/ui/logins".to_owned())
        }
        None => ActionOutcome::Failed("No login of this server waits for an answer.".to_owned()),
    }
}
