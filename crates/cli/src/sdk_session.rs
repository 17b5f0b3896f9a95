//! A session that a program runs through an agent SDK (`swb --input-format stream-json`): connects standard input and
//! output, the host and the configuration to `switchboard_chat::control`, which knows the protocol.

mod backend;
mod program_servers;
mod rule_notation;
mod server_report;
mod session_rules;
mod unavailable_model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::config::permission::PermissionMode;
use switchboard::connection::RetryPolicy;
use switchboard::sources::ConfigWatcher;
use switchboard::{Host, HostOptions};
use switchboard_chat::control::backend::{ModelSelection, SessionBackend};
use switchboard_chat::control::elicitor::SdkElicitor;
use switchboard_chat::control::peer::ControlPeer;
use switchboard_chat::control::permission_prompt::PermissionSource;
use switchboard_chat::control::sdk_servers::SdkServers;
use switchboard_chat::control::session;
use switchboard_chat::control::session::{
    ExtraFrames, PrintHookEvents, PrintPartialMessages, Program, SessionEnd, SessionSetup,
};
use switchboard_chat::control::state::{BypassMode, PrintSessionState};
use switchboard_chat::conversation::setup::DEFAULT_MAX_ROUNDS;
use switchboard_chat::conversation::structured_output::StructuredOutput;
use switchboard_chat::ide::IdeSession;
use switchboard_tui::backend::StartedIde;
use tokio::time::timeout;

use crate::commands::print::{ConversationArgs, PermissionPrompts, PromptTool};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::browser_server::BrowserUse;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::runtime::browser;
use crate::runtime::call_context;
use crate::runtime::channels;
use crate::runtime::host;
use crate::runtime::ide;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::stdio;
use backend::CliBackend;
use unavailable_model::UnavailableModel;

/// Set by SDKs that wait for the frame which says that nothing is left to do.
const READS_STATE_VARIABLE: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";

/// How long the session with an IDE may take to end: programs kill what does not exit within seconds.
const IDE_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a session until the program closes its end. Standard output carries frames only, so a failure is printed to
/// standard error.
pub fn run(
    invocation: &Invocation,
    arguments: &ConversationArgs,
) -> Result<CommandOutput, Failure> {
    match run_session(invocation, arguments) {
        Ok(SessionEnd::Finished) => Ok(CommandOutput::default()),
        Ok(SessionEnd::FinishedWithError) => Ok(exit_only(Exit::Failure)),
        Ok(SessionEnd::Broken(error)) => {
            let failure = Failure::new(Exit::Failure, &error.to_string());
            report::print_stderr(&report::failure_text(&failure));
            Ok(exit_only(Exit::Failure))
        }
        Err(failure) => {
            report::print_stderr(&report::failure_text(&failure));
            Ok(exit_only(failure.exit))
        }
    }
}

fn exit_only(exit: Exit) -> CommandOutput {
    CommandOutput { exit: Some(exit), ..CommandOutput::default() }
}

fn run_session(
    invocation: &Invocation,
    arguments: &ConversationArgs,
) -> Result<SessionEnd, Failure> {
    let invocation = &invocation.non_interactive();
    let (peer, driver) = ControlPeer::new();
    let servers = SdkServers::new(peer.clone());
    let elicitor = host::elicitor(invocation, Arc::new(SdkElicitor::new(peer.clone())))?;
    let hosted = servers.hosted();
    // Settings may ask for the browser, too.
    let _loaded = invocation.providers();
    let in_process = match invocation.browser_use() {
        BrowserUse::AskedFor => browser::in_process(invocation)?,
        BrowserUse::AsConfigured => BTreeMap::new(),
    };
    let customize = |options: HostOptions| HostOptions {
        elicitor,
        hosted_servers: Some(hosted),
        // A server of the program may have the name of one of ours that the program did not ask for.
        in_process,
        ..options
    };
    host::with_custom_host(
        invocation,
        RetryPolicy::RetryWithBackoff,
        customize,
        async |host, interrupts| {
            let (input, output, pending_output) = stdio::streams().map_err(|error| {
                Failure::new(Exit::Failure, "standard input and output cannot be used")
                    .caused_by(error)
            })?;
            let (incoming, tasks) = driver.start(input, output);
            let program = Program { peer: peer.clone(), incoming, servers };
            let end = SdkSession { invocation, arguments, host }.run(program, interrupts).await;
            peer.finish();
            tasks.join().await;
            pending_output.wait().await;
            end
        },
    )
}

struct SdkSession<'a> {
    invocation: &'a Invocation,
    arguments: &'a ConversationArgs,
    host: &'a Host,
}

/// Applies changed files while the session runs.
async fn follow_configuration(
    watcher: Option<ConfigWatcher>,
    backend: &CliBackend,
) -> std::convert::Infallible {
    if let Some(mut watcher) = watcher {
        while let Some(_changed) = watcher.next().await {
            // The servers of the program may be others than when the watcher was started.
            if let Err(why) = backend.reload().await {
                backend.warn(&why);
            }
        }
    }
    std::future::pending().await
}

impl SdkSession<'_> {
    async fn run(
        &self,
        program: Program,
        interrupts: &mut Interrupts,
    ) -> Result<SessionEnd, Failure> {
        let (invocation, arguments, host) = (self.invocation, self.arguments, self.host);
        let configuration = invocation.load_embedded(Vec::new())?;
        let (transcript, history) = arguments.open_conversation(invocation)?;
        let mode = arguments.mode();
        let context = call_context::call_context(invocation, &configuration, host, mode)?;
        let rules = context.rules.clone();
        let audit = context.audit.clone();
        let backend =
            Arc::new(CliBackend::new(invocation, arguments, (host, configuration), rules));
        let inbox = host.open_channel_inbox();
        report::print_stderr(&channels::unmatched_text(invocation, &backend.configuration()));
        backend.apply().await;
        for notice in arguments.sdk.limit_notices() {
            backend.warn(&notice);
        }
        let model = backend.open_model(ModelSelection::default()).await;
        let model = model.unwrap_or_else(|why| Arc::new(UnavailableModel::new(&why)));
        let watcher = ConfigWatcher::start(backend.load_options(), &backend.configuration()).ok();
        let StartedIde { session: ide, updates, task: ide_task } =
            ide::start_session(invocation, host, &backend.rules());
        // Mentions are typed by no front end: they go along with the next prompt.
        drop(updates);
        let setup = SessionSetup {
            host: host.clone(),
            model,
            system_prompt: arguments.system_text(invocation)?.into(),
            history,
            session_id: transcript.session_id().to_owned(),
            transcript_path: transcript.path(),
            transcript: Some(transcript),
            folder: invocation.env.working_folder.clone(),
            max_rounds: arguments
                .max_turns
                .and_then(|it| usize::try_from(it).ok())
                .unwrap_or(DEFAULT_MAX_ROUNDS),
            permission_source: self.permission_source(),
            bypass: self.bypass(context.mode),
            call_context: context,
            extra_frames: self.extra_frames(),
            hooks: Vec::new(),
            notices: arguments.sdk.limit_notices(),
            awaited_fields: arguments.sdk.initialize_fields.clone(),
            first_message: arguments.print.clone().filter(|it| !it.trim().is_empty()),
            ide: ide.clone(),
            structured_output: arguments.sdk.json_schema.clone().map(StructuredOutput::new),
            channels: inbox,
        };
        let running = session::run(setup, backend.clone(), program);
        let end = tokio::select! {
            end = running => Ok(end),
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
            never = follow_configuration(watcher, &backend) => match never {},
            never = self.connect_ide(&ide, &backend) => match never {},
        };
        drop(ide);
        let _too_slow = timeout(IDE_END_TIMEOUT, ide_task).await;
        audit.flush().await;
        call_context::warn_about_lost_records(invocation, &audit);
        end
    }

    /// Connects an IDE that the user asks for, beside the start of the session, which does not wait for it.
    async fn connect_ide(
        &self,
        session: &Arc<IdeSession>,
        backend: &CliBackend,
    ) -> std::convert::Infallible {
        let flag = self.arguments.ide_flag();
        // The person at an editor does not know of the program's session.
        if ide::is_asked_for(self.invocation, flag) {
            let configuration = backend.configuration();
            let host = (self.host, &**session);
            let warning = ide::connect_at_start(self.invocation, host, &configuration, flag).await;
            report::print_stderr(&warning);
        }
        std::future::pending().await
    }

    fn permission_source(&self) -> PermissionSource {
        let sdk = &self.arguments.sdk;
        if sdk.permission_prompts == Some(PermissionPrompts::None) {
            return PermissionSource::None;
        }
        match &sdk.permission_prompt_tool {
            Some(PromptTool::Stdio) => PermissionSource::Program,
            Some(PromptTool::Tool(name)) => PermissionSource::Tool(name.clone()),
            None => PermissionSource::None,
        }
    }

    fn bypass(&self, mode: PermissionMode) -> BypassMode {
        let sdk = &self.arguments.sdk;
        let is_allowed = sdk.allow_dangerously_skip_permissions
            || sdk.dangerously_skip_permissions
            || mode == PermissionMode::Bypass;
        if is_allowed { BypassMode::Available } else { BypassMode::Unavailable }
    }

    fn extra_frames(&self) -> ExtraFrames {
        let sdk = &self.arguments.sdk;
        let variables = &self.invocation.env.variables;
        let reads_state = variables.get(READS_STATE_VARIABLE).is_some_and(|it| it == "1");
        ExtraFrames {
            partial_messages: sdk.include_partial_messages.then_some(PrintPartialMessages),
            hook_events: sdk.include_hook_events.then_some(PrintHookEvents),
            session_state: reads_state.then_some(PrintSessionState),
        }
    }
}
