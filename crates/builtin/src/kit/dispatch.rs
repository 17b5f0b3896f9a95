//! Runs one request: finds the tool, resource or prompt and calls its handler.

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::server;

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::{HandlerError, HandlerErrorKind};
use crate::kit::prompt::PromptArguments;
use crate::kit::request_state::MethodCall;
use crate::kit::resource::{Resource, ResourceContents, ResourceProvider, ResourceTemplate};
use crate::kit::server::Server;

/// The number of items per page of a list.
const PAGE_SIZE: usize = 100;
/// The maximum number of completion values; the protocol defines it.
const MAX_COMPLETIONS: usize = 100;
/// The maximum length of a name or URI.
const MAX_NAME_LENGTH: usize = 8 * 1024;

/// Runs a request. Where the handler needs input first, the result asks a modern client for it.
pub(crate) async fn dispatch(
    server: &Server,
    context: &HandlerContext,
    call: MethodCall<'_>,
) -> Result<Json, RpcError> {
    let era = context.client().era;
    let error = match run_method(server, context, call).await {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    match error {
        HandlerError(HandlerErrorKind::InputRequired { key, request }) => {
            let state = server.request_states.issue(&call, context.input_responses(), &key);
            Ok(server::input_required(&json!({key: request}), &state))
        }
        error if call.method == "tools/call" => {
            error.into_tool_result(era).map(|it| it.into_json())
        }
        error => Err(error.into_remote_error(era)),
    }
}

async fn run_method(
    server: &Server,
    context: &HandlerContext,
    call: MethodCall<'_>,
) -> Result<Json, HandlerError> {
    let params = call.params;
    match call.method {
        "tools/list" => paginate("tools", server.tool_list(), params),
        "tools/call" => {
            let name = string_param(params, "name")?;
            let tool = server.find_tool(name);
            let tool = tool.ok_or_else(|| {
                HandlerError::invalid_params(format!("there is no tool `{name}`"))
            })?;
            let arguments = non_null(params, "arguments").cloned().unwrap_or_else(|| json!({}));
            tool.call(context.clone(), arguments).await.map(|it| it.into_json())
        }
        "resources/list" => {
            let all = resource_provider(server)?.list().await?;
            paginate("resources", all.iter().map(Resource::to_json).collect(), params)
        }
        "resources/templates/list" => {
            let all = resource_provider(server)?.templates();
            paginate(
                "resourceTemplates",
                all.iter().map(ResourceTemplate::to_json).collect(),
                params,
            )
        }
        "resources/read" => {
            let contents = resource_provider(server)?.read(string_param(params, "uri")?).await?;
            let contents: Vec<Json> =
                contents.into_iter().map(ResourceContents::into_json).collect();
            Ok(json!({"contents": contents}))
        }
        "prompts/list" => {
            paginate("prompts", server.prompts().iter().map(|it| it.to_json()).collect(), params)
        }
        "prompts/get" => {
            let name = string_param(params, "name")?;
            let prompt = server.prompts().iter().find(|it| it.name() == name);
            let prompt = prompt.ok_or_else(|| {
                HandlerError::invalid_params(format!("there is no prompt `{name}`"))
            })?;
            prompt.render(context.clone(), prompt_arguments(non_null(params, "arguments"))?).await
        }
        "completion/complete" => complete(server, params).await,
        method => Err(HandlerError::invalid_params(format!("unknown method `{method}`"))),
    }
}

fn resource_provider(server: &Server) -> Result<&dyn ResourceProvider, HandlerError> {
    let resources = server
        .resource_provider()
        .ok_or_else(|| HandlerError::invalid_params("the server has no resources"))?;
    Ok(resources.as_ref())
}

/// A member that is present and not null.
fn non_null<'p>(params: &'p Json, member: &str) -> Option<&'p Json> {
    params.get(member).filter(|it| !it.is_null())
}

fn string_param<'p>(params: &'p Json, member: &str) -> Result<&'p str, HandlerError> {
    let name = params[member].as_str().filter(|it| it.len() <= MAX_NAME_LENGTH);
    name.ok_or_else(|| HandlerError::invalid_params(format!("`{member}` must be a string")))
}

fn prompt_arguments(arguments: Option<&Json>) -> Result<PromptArguments, HandlerError> {
    match arguments {
        None => Ok(PromptArguments::new()),
        Some(arguments) => serde_json::from_value(arguments.clone())
            .map_err(|_| HandlerError::invalid_params("`arguments` must map names to strings")),
    }
}

/// One page of a list. The cursor is the index of the next item.
fn paginate(member: &str, all: Vec<Json>, params: &Json) -> Result<Json, HandlerError> {
    let start = match non_null(params, "cursor") {
        None => 0,
        Some(cursor) => {
            let start = cursor.as_str().and_then(|it| it.parse::<usize>().ok());
            start.ok_or_else(|| HandlerError::invalid_params("unknown cursor"))?
        }
    };
    let end = start.saturating_add(PAGE_SIZE);
    let mut page = json!({});
    if end < all.len() {
        page["nextCursor"] = json!(end.to_string());
    }
    page[member] = all.into_iter().skip(start).take(PAGE_SIZE).collect();
    Ok(page)
}

async fn complete(server: &Server, params: &Json) -> Result<Json, HandlerError> {
    let argument = string_param(&params["argument"], "name")?;
    let prefix = string_param(&params["argument"], "value")?;
    let reference = &params["ref"];
    let values = match reference["type"].as_str() {
        Some("ref/prompt") => {
            let name = string_param(reference, "name")?;
            let prompt = server.prompts().iter().find(|it| it.name() == name);
            let prompt = prompt.ok_or_else(|| {
                HandlerError::invalid_params(format!("there is no prompt `{name}`"))
            })?;
            prompt.complete(argument).await?
        }
        Some("ref/resource") => {
            resource_provider(server)?
                .complete(string_param(reference, "uri")?, argument, prefix)
                .await?
        }
        Some(_) | None => {
            return Err(HandlerError::invalid_params("`ref` must name a prompt or a resource"));
        }
    };
    let prefix = prefix.to_lowercase();
    let matches: Vec<&String> =
        values.iter().filter(|it| it.to_lowercase().starts_with(&prefix)).collect();
    let suggestions = &matches[..matches.len().min(MAX_COMPLETIONS)];
    Ok(json!({"completion": {
        "values": suggestions, "total": matches.len(), "hasMore": matches.len() > MAX_COMPLETIONS,
    }}))
}
