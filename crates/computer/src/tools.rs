//! The tools, by what they are for.

mod act;
mod applications;
mod clipboard;
mod look;

use std::sync::Arc;

use switchboard_builtin::kit::{HandlerContext, Tool, ToolOutput};

use crate::access::{self, AccessArguments};
use crate::action_arguments::NoArguments;
use crate::applications::installed;
use crate::session::Session;

pub(crate) use look::described;

/// All tools.
pub(crate) fn all(session: &Arc<Session>) -> Vec<Tool> {
    let mut tools = vec![request_access(session), list_granted(session)];
    tools.extend(look::tools(session));
    tools.extend(act::tools(session));
    tools.extend(clipboard::tools(session));
    tools.push(applications::open_application(session));
    tools
}

fn request_access(session: &Arc<Session>) -> Tool {
    let description = format!(
        "Asks the user to let you see and control applications until this session ends. Call it first; nothing else works \
         before.{}",
        installed::described(&session.applications)
    );
    let session = session.clone();
    let request = move |context: HandlerContext, it: AccessArguments| {
        access::request(session.clone(), context, it)
    };
    Tool::typed("request_access", &description, request)
        .title("Ask for access to applications")
        .non_destructive()
}

fn list_granted(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let list = move |_: HandlerContext, _: NoArguments| {
        let text = format!("granted: {}", access::summary(&session.grants()));
        async move { Ok(ToolOutput::text(text)) }
    };
    let description = "Lists what the user has granted to this session.";
    Tool::typed("list_granted_applications", description, list).read_only()
}
