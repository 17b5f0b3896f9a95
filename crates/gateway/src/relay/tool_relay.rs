//! A tool call: found by the name that the client sees, permitted under the rules of its principal, and passed on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::audit::Ended;
use switchboard::calling::{CallFailure, RelayedCall};
use switchboard::pool::tool::Tool;
use switchboard_wire::asked::Members;
use switchboard_wire::era::Era;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::peer::Progress;
use switchboard_wire::reception;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::routes::no_such;
use super::states::{Leave, Whose};
use super::{Asked, PATIENCE, Relay, object, provenance, signs, unanswered};
use crate::attendant::Attendant;
use crate::consenting::ClientConsent;
use crate::directory::Directory;
use crate::search_tools;
use crate::visiting::about;

/// How long it takes at most until the tools of a server that is connected are served.
const SHOWN: Duration = Duration::from_secs(5);

impl Relay {
    pub(super) async fn called(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        let mut params = std::mem::take(&mut asked.params);
        let mut name = name_of(&params)?;
        let mut directory = self.served();
        if directory.stands_for_all(&name) {
            if name == search_tools::SEARCH {
                let may_see = |tool: &Tool| self.shows(&asked.guest.principal, tool);
                return search_tools::search(&directory, params.get("arguments"), &may_see);
            }
            params = search_tools::unwrapped(params)?;
            name = name_of(&params)?;
        }
        if !directory.tools.contains_key(&name)
            && let Some(tool) = directory.absent.get(&name).cloned()
            && self.shows(&asked.guest.principal, &tool)
        {
            directory = Box::pin(self.missed(&name, &tool.server)).await?;
        }
        let tool = directory.tools.get(&name).ok_or_else(|| no_such("tool", &name))?;
        params.take("name");
        let arguments = params.take("arguments");
        let call = Named { tool, called: &name, arguments };
        signs::told(&asked, |progress| self.made(&asked, call, params, progress)).await
    }

    /// What is served once the server of a tool is connected again. Its tools may be others then.
    async fn missed(&self, name: &str, server: &str) -> Result<Arc<Directory>, RemoteError> {
        self.host.wake(server).await.map_err(|it| unanswered(&it))?;
        let mut directory = self.directory.clone();
        let is_known =
            |it: &Arc<Directory>| it.tools.contains_key(name) || !it.absent.contains_key(name);
        match timeout(SHOWN, directory.wait_for(is_known)).await {
            Ok(_it_or_the_end) => Ok(self.served()),
            Err(_) => {
                let text = format!("`{server}` has not said yet which tools it has");
                Err(reception::failed(&text))
            }
        }
    }

    async fn made(
        &self,
        asked: &Asked,
        call: Named<'_>,
        mut params: Members,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Payload, RemoteError> {
        let principal = &asked.guest.principal;
        let attendant = Arc::new(Attendant::new(asked.guest.clone(), asked.outlet.clone()));
        let (called, arguments) = (call.called, call.arguments.clone());
        let about = || about_call(called, arguments.as_ref());
        let whose = Whose { server: &call.tool.server, principal, about: &about };
        if asked.guest.era == Era::Modern && self.unwrapped(&whose, &mut params)? == Leave::Given {
            attendant.give_leave();
        }
        if asked.guest.level().is_some() {
            Box::pin(self.tell_level_for(asked, &call.tool.server)).await;
        }
        let desk = self.desk(principal);
        let span = self.tracer.upstream_call(asked, &call.tool.server, &call.tool.name);
        let behest = self.behest(asked, attendant.clone(), (&call.tool.server, &span));
        let consent = ClientConsent { attendant: &attendant, otherwise: &*desk.consent };
        let relayed = RelayedCall {
            caller: principal,
            called: call.called,
            tool: call.tool,
            arguments: call.arguments,
            beside: params.into_all(),
            patience: PATIENCE,
            progress,
            behest,
            consent: &consent,
            provenance: provenance(asked),
        };
        let measured = self.meters.call(&call.tool.server);
        let (ended, outcome) = self.host.relay(&desk, relayed).await;
        measured.over(ended);
        span.ended(Some(ended).filter(|it| *it != Ended::Done).map(Ended::id));
        let result = outcome.or_else(failed)?;
        self.ledger.note(&result, &call.tool.server, principal);
        let leave = if attendant.has_leave() { Leave::Given } else { Leave::NotAsked };
        Ok(self.wrapped(&whose, result, leave))
    }
}

/// A tool with the name that the client used, and the arguments.
struct Named<'a> {
    tool: &'a Arc<Tool>,
    called: &'a str,
    arguments: Option<Payload>,
}

fn name_of(params: &Members) -> Result<String, RemoteError> {
    params.text("name").ok_or_else(|| reception::invalid("`name` is missing, or is no text"))
}

/// What a call is about: leave and answers for one are no good for another with other arguments.
fn about_call(called: &str, arguments: Option<&Payload>) -> String {
    let mut params = Members::default();
    params.put("name", object(&called.into()));
    if let Some(arguments) = arguments {
        params.put("arguments", arguments.clone());
    }
    about("tools/call", &params)
}

/// A call that was not permitted is a result, so that a model reads why; everything else is an error.
fn failed(failure: CallFailure) -> Result<Payload, RemoteError> {
    match failure {
        CallFailure::Denied { .. } => {
            let text = failure.to_string();
            Ok(object(&json!({"content": [{"type": "text", "text": text}], "isError": true})))
        }
        CallFailure::Ask(error) => Err(unanswered(&error)),
        CallFailure::NoTool { .. } | CallFailure::Arguments { .. } => {
            Err(reception::invalid(&failure.to_string()))
        }
    }
}
