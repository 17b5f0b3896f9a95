//! Answers one question of a client: finds the tool, resource or prompt that it is about and has it do its work.

use serde_json::{Value as Json, json};
use switchboard_wire::message::RemoteError;
use switchboard_wire::reception;

use crate::context::Context;
use crate::prompting::Given;
use crate::refusal::{Kind, Stop};
use crate::resource::{Contents, Resource, Resources, Template};
use crate::rounds::Call;
use crate::server::Server;

/// How many things one page of a list holds.
const PAGE: usize = 100;
/// How many values one completion suggests; the protocol sets it.
const SUGGESTIONS: usize = 100;
/// The longest name or address that is looked up.
const LONGEST_NAME: usize = 8 * 1024;

/// Answers a question, with what its era makes of an answer that needs another one first.
pub(crate) async fn answer(
    server: &Server,
    context: &Context,
    call: Call<'_>,
) -> Result<Json, RemoteError> {
    let era = context.asker().era;
    let stop = match perform(server, context, call).await {
        Ok(result) => return Ok(result),
        Err(stop) => stop,
    };
    match stop {
        Stop(Kind::Asks { key, request }) => {
            let state = server.rounds.state(&call, context.answers(), &key);
            Ok(reception::input_required(&json!({key: request}), &state))
        }
        stop if call.method == "tools/call" => stop.of_tool(era).map(|it| it.into_json()),
        stop => Err(stop.error(era)),
    }
}

async fn perform(server: &Server, context: &Context, call: Call<'_>) -> Result<Json, Stop> {
    let params = call.params;
    match call.method {
        "tools/list" => page("tools", server.listed_tools(), params),
        "tools/call" => {
            let name = name(params, "name")?;
            let tool = server.find_tool(name);
            let tool = tool.ok_or_else(|| Stop::invalid(format!("there is no tool `{name}`")))?;
            let arguments = there(params, "arguments").cloned().unwrap_or_else(|| json!({}));
            tool.call(context.clone(), arguments).await.map(|it| it.into_json())
        }
        "resources/list" => {
            let all = readable(server)?.list().await?;
            page("resources", all.iter().map(Resource::listed).collect(), params)
        }
        "resources/templates/list" => {
            let all = readable(server)?.templates();
            page("resourceTemplates", all.iter().map(Template::listed).collect(), params)
        }
        "resources/read" => {
            let contents = readable(server)?.read(name(params, "uri")?).await?;
            let contents: Vec<Json> = contents.into_iter().map(Contents::into_json).collect();
            Ok(json!({"contents": contents}))
        }
        "prompts/list" => {
            page("prompts", server.prompts().iter().map(|it| it.listed()).collect(), params)
        }
        "prompts/get" => {
            let name = name(params, "name")?;
            let prompt = server.prompts().iter().find(|it| it.name() == name);
            let prompt =
                prompt.ok_or_else(|| Stop::invalid(format!("there is no prompt `{name}`")))?;
            prompt.say(context.clone(), given(there(params, "arguments"))?).await
        }
        "completion/complete" => complete(server, params).await,
        method => Err(Stop::invalid(format!("nobody answers `{method}`"))),
    }
}

fn readable(server: &Server) -> Result<&dyn Resources, Stop> {
    let resources = server.readable().ok_or_else(|| Stop::invalid("there is nothing to read"))?;
    Ok(resources.as_ref())
}

/// A member, where it is there and says something.
fn there<'p>(params: &'p Json, member: &str) -> Option<&'p Json> {
    params.get(member).filter(|it| !it.is_null())
}

fn name<'p>(params: &'p Json, member: &str) -> Result<&'p str, Stop> {
    let name = params[member].as_str().filter(|it| it.len() <= LONGEST_NAME);
    name.ok_or_else(|| Stop::invalid(format!("`{member}` says what is meant, as a text")))
}

fn given(arguments: Option<&Json>) -> Result<Given, Stop> {
    match arguments {
        None => Ok(Given::new()),
        Some(arguments) => serde_json::from_value(arguments.clone())
            .map_err(|_| Stop::invalid("`arguments` are texts by name")),
    }
}

/// One page of a list. A cursor is where it goes on.
fn page(member: &str, all: Vec<Json>, params: &Json) -> Result<Json, Stop> {
    let start = match there(params, "cursor") {
        None => 0,
        Some(cursor) => {
            let start = cursor.as_str().and_then(|it| it.parse::<usize>().ok());
            start.ok_or_else(|| Stop::invalid("nobody gave out this cursor"))?
        }
    };
    let end = start.saturating_add(PAGE);
    let mut page = json!({});
    if end < all.len() {
        page["nextCursor"] = json!(end.to_string());
    }
    page[member] = all.into_iter().skip(start).take(PAGE).collect();
    Ok(page)
}

async fn complete(server: &Server, params: &Json) -> Result<Json, Stop> {
    let argument = name(&params["argument"], "name")?;
    let begun = name(&params["argument"], "value")?;
    let about = &params["ref"];
    let values = match about["type"].as_str() {
        Some("ref/prompt") => {
            let name = name(about, "name")?;
            let prompt = server.prompts().iter().find(|it| it.name() == name);
            let prompt =
                prompt.ok_or_else(|| Stop::invalid(format!("there is no prompt `{name}`")))?;
            prompt.complete(argument).await?
        }
        Some("ref/resource") => {
            readable(server)?.complete(name(about, "uri")?, argument, begun).await?
        }
        Some(_) | None => return Err(Stop::invalid("`ref` says what is to be completed")),
    };
    let begun = begun.to_lowercase();
    let fitting: Vec<&String> =
        values.iter().filter(|it| it.to_lowercase().starts_with(&begun)).collect();
    let suggested = &fitting[..fitting.len().min(SUGGESTIONS)];
    Ok(json!({"completion": {
        "values": suggested, "total": fitting.len(), "hasMore": fitting.len() > SUGGESTIONS,
    }}))
}
