//! The client that the official conformance suite starts, with a server's URL as the last argument. Like any
//! embedding program it writes an entry, connects, and uses everything that the server has. It does not know the
//! scenario; the suite's context becomes configuration.

mod auto_approver;
mod sample_arguments;
mod suite_context;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::SKILLS_EXTENSION;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::request::ServerRequest;
use switchboard::sources::{Paths, loader};
use switchboard::wire::jsonrpc::message::Payload;
use switchboard::{CallContext, Host, HostEnv, HostOptions, ToolCall};

use auto_approver::AutoApprover;
use sample_arguments::Samples;
use suite_context::SuiteContext;

/// The server's name in the configuration.
const SERVER: &str = "suite";
/// The argument that enables loading of skills.
const LOAD_SKILLS: &str = "--load-skills";
/// The client metadata document that the suite knows.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// The timeout of a request. The suite waits 30 seconds in total.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let url = std::env::args().next_back().filter(|it| it.starts_with("http"));
    let url = url.ok_or("the server's URL must be the last argument")?;
    let context = SuiteContext::from_variable(std::env::var(suite_context::VARIABLE).ok())?;

    let folder = tempfile::tempdir()?;
    let paths = Paths::in_dir(folder.path());
    let env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
    let mut options = HostOptions::new(paths.clone(), env);
    options.elicitor = Arc::new(AutoApprover);
    options.model = Some(Arc::new(AutoApprover));
    options.retry_policy = RetryPolicy::NoRetry;
    options.login.guide = Some(Arc::new(AutoApprover));
    options.login.identity_provider = context.identity_provider();
    options.login.client_metadata_url = Some(DOCUMENT.parse()?);
    let (host, task) = Host::start(options)?;
    let servers = json!({"mcpServers": {SERVER: context.entry(&url)}});
    host.apply(&loader::from_program("conformance_client", &servers.to_string())).await;
    let snapshot = host.settled().await;

    let code = match snapshot.servers.get(SERVER) {
        Some(view) if view.status == Status::Connected => {
            use_everything(&host, &paths, view, &context).await?
        }
        Some(view) => {
            eprintln!("{}: {:?}", view.status.id(), view.status.cause());
            ExitCode::FAILURE
        }
        None => return Err("the entry was not taken".into()),
    };
    host.shutdown().await;
    task.await?;
    Ok(code)
}

/// Calls every tool, reads every resource and gets every prompt. Errors are printed and do not fail the run: some
/// scenarios reject requests on purpose.
async fn use_everything(
    host: &Host,
    paths: &Paths,
    view: &ServerView,
    context: &SuiteContext,
) -> Result<ExitCode, Box<dyn Error>> {
    let call_context = CallContext::new(host.watch_pool(), paths)?.with_trusted_server(SERVER);
    let samples = Samples::new(view.catalogue.items(ListKind::Tools).iter().map(decoded));
    let pool = host.pool();
    for tool in pool.tools().iter().filter(|it| it.server == SERVER) {
        let requested = context.calls_of(&tool.name);
        let calls = match requested.is_empty() {
            true => vec![samples.for_tool(&tool.name)],
            false => requested,
        };
        for arguments in calls {
            let mut call = ToolCall::new(&tool.exposed_name, arguments);
            call.options.timeout = REQUEST_TIMEOUT;
            match host.call_with(&call_context, call).await {
                Ok(result) => println!("{}: {}", tool.name, result.text()),
                Err(error) => eprintln!("{}: {error}", tool.name),
            }
        }
    }
    for quarantined in pool.quarantined() {
        eprintln!("{}: {}", quarantined.tool, quarantined.reason);
    }
    for resource in view.catalogue.items(ListKind::Resources) {
        send_request(host, "resources/read", json!({"uri": resource.name})).await;
    }
    for prompt in view.catalogue.items(ListKind::Prompts) {
        let arguments = sample_arguments::for_prompt(&decoded(prompt));
        send_request(host, "prompts/get", json!({"name": prompt.name, "arguments": arguments}))
            .await;
    }
    let has_skills = view.server_info.as_ref().is_some_and(|it| {
        it.capabilities.others.iter().any(|extension| extension == SKILLS_EXTENSION)
    });
    if has_skills {
        use_skills(host).await?;
    }
    call_context.audit.flush().await;
    Ok(ExitCode::SUCCESS)
}

/// Lists the skills, and loads them if requested; listing alone reads no files.
async fn use_skills(host: &Host) -> Result<(), Box<dyn Error>> {
    let load_files = std::env::args().any(|it| it == LOAD_SKILLS);
    for skill in host.skills(SERVER).await?.iter().filter(|_| load_files) {
        // If a skill cannot be verified, its files cannot be trusted either.
        if let Err(error) = host.load_skill(SERVER, skill).await {
            eprintln!("{}: {error}", skill.uri);
            continue;
        }
        for file in skill.files.iter().filter(|file| file.uri != skill.uri) {
            let read = host.skill_file(SERVER, skill, &file.uri).await;
            println!("{}: {} bytes", file.uri, read?.len());
        }
    }
    Ok(())
}

async fn send_request(host: &Host, method: &'static str, params: Json) {
    let mut request = ServerRequest::idempotent(method, REQUEST_TIMEOUT);
    request.params = Some(Payload::from_json(params.to_string().into()));
    match host.request(SERVER, request).await {
        Ok(answer) => println!("{method}: {} bytes", answer.as_bytes().len()),
        Err(error) => eprintln!("{method}: {error}"),
    }
}

fn decoded(item: &ListItem) -> Json {
    item.raw.decode().unwrap_or_default()
}
