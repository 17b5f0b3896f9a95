//! What the dashboard of a gateway learns from this program: the configuration as text, and changes to it. The same
//! functions make the output of the commands.

use std::path::{Path, PathBuf};

use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::permission::{PermissionMode, PermissionRules};
use switchboard::sources::loader::Configuration;
use switchboard_gateway::{
    ConfiguredServer, DashboardOperator, OperatorView, RuleLine, ServerSwitch, SharedHostView,
    SharedProgramView, SimulationInputs,
};
use tokio::runtime::Handle;

use crate::edit::enabled;
use crate::edit::enabled::Toggle;
use crate::invocation::Invocation;
use crate::invocation::lookup::changed_tools;
use crate::outcome::Failure;
use crate::output::{policy_text, server_text};
use crate::runtime::sharing;

/// This program, for the dashboard.
#[derive(Debug)]
pub struct InvocationOperator {
    invocation: Invocation,
    audit_file: PathBuf,
    /// The permission mode of the command line.
    mode: Option<PermissionMode>,
}

impl InvocationOperator {
    /// The operator of a gateway that this run starts.
    pub fn new(invocation: &Invocation, mode: Option<PermissionMode>) -> InvocationOperator {
        let audit_file = invocation.env.paths.audit();
        InvocationOperator { invocation: invocation.non_interactive(), audit_file, mode }
    }

    fn load(&self) -> Result<Configuration, String> {
        self.invocation.load().map_err(|failure| text_of(&failure))
    }

    fn mode(&self, configuration: &Configuration) -> PermissionMode {
        let of_settings =
            configuration.rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode);
        self.mode.unwrap_or(of_settings)
    }

    fn server(&self, server: &ResolvedServer) -> ConfiguredServer {
        let env = &self.invocation.env;
        let entry = server.entry.as_ref();
        ConfiguredServer {
            name: server.name.clone(),
            scope: server.scope().id().to_owned(),
            transport: entry.map_or("-", |it| it.transport.kind().id()).to_owned(),
            target: server_text::target(server).unwrap_or_else(|| "-".to_owned()),
            state: server_text::state_id(&server.state).to_owned(),
            state_text: server_text::state_text(&server.state),
            reason: server_text::state_reason(env, server),
            origin: self.invocation.display_origin(&server.origin),
            is_selected: server.is_selected(),
        }
    }

    fn rule_lines(&self, rules: &PermissionRules, principal: &str) -> Vec<RuleLine> {
        let line = |entry: &switchboard::config::permission::RuleEntry| RuleLine {
            effect: entry.effect.id().to_owned(),
            rule: entry.rule.to_printable(),
            origin: self.invocation.display_origin(&entry.origin),
            principal: principal.to_owned(),
        };
        rules.entries().iter().map(line).collect()
    }
}

impl DashboardOperator for InvocationOperator {
    fn view(&self) -> Result<OperatorView, String> {
        let configuration = self.load()?;
        let mut rules = self.rule_lines(&configuration.rules, "");
        for (principal, own) in configuration.principals.iter() {
            rules.extend(self.rule_lines(own, principal));
        }
        let policy = policy_text::lines(&self.invocation.env, &configuration.policy);
        Ok(OperatorView {
            servers: configuration.effective.servers.iter().map(|it| self.server(it)).collect(),
            rules,
            policy: policy.lines().map(str::to_owned).collect(),
            mode: self.mode(&configuration).id().to_owned(),
        })
    }

    fn switch(&self, server: &str, to: ServerSwitch) -> Result<String, String> {
        let toggle = match to {
            ServerSwitch::Enabled => Toggle::Enable,
            ServerSwitch::Disabled => Toggle::Disable,
        };
        let done = enabled::set_enabled(&self.invocation, server, None, toggle);
        done.map(|output| output.text).map_err(|failure| text_of(&failure))
    }

    fn simulation_inputs(&self) -> Result<SimulationInputs, String> {
        let configuration = self.load()?;
        let servers = configuration.effective.servers.iter();
        let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone());
        Ok(SimulationInputs {
            mode: self.mode(&configuration),
            trusted_servers: trusted.collect(),
            changed_tools: changed_tools(&self.invocation, &configuration),
            rules: configuration.rules,
        })
    }

    fn shared_host(&self) -> Option<SharedHostView> {
        let client = sharing::client(&self.invocation);
        let (build, status) = Handle::try_current().ok()?.block_on(client.status()).ok()?;
        let programs = status.programs.into_iter().map(|program| SharedProgramView {
            name: program.server,
            pid: program.pid,
            clients: program
                .clients
                .iter()
                .map(|it| format!("{} ({})", it.command, it.pid))
                .collect(),
        });
        Some(SharedHostView {
            pid: status.pid,
            build: build.to_string(),
            since: status.since,
            programs: programs.collect(),
        })
    }

    fn audit_file(&self) -> &Path {
        &self.audit_file
    }
}

/// A failure in one line.
fn text_of(failure: &Failure) -> String {
    let mut text = failure.message.clone();
    for cause in &failure.causes {
        text.push_str(": ");
        text.push_str(cause);
    }
    if let Some(hint) = &failure.hint {
        text.push_str(". ");
        text.push_str(hint);
    }
    printable(&text)
}
