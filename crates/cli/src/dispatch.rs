//! Maps a parsed command to the function that runs it. `args` and `commands` do not know this module.

use crate::args::CommandArgs;
use crate::chat_ui::{launch, plain};
use crate::commands::demo::DemoPlayers;
use crate::commands::{
    acp, add, add_json, adopt, approvals, approve, audit, auth, bundle, call, complete,
    completions, config, demo, describe, disable, doctor, enable, get, host, idp, import, list,
    login, logout, logs, man, paths, permissions, ping, plugin, policy, principals, prompt,
    prompts, ps, read, reconnect, registry, reject, remove, reset_project_choices, resources,
    result, search, serve, status, subscribe, tools, ui, version,
};
use crate::help;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

const DEMO_PLAYERS: DemoPlayers = DemoPlayers {
    is_plain_terminal: launch::is_plain_terminal,
    screen: launch::run_demo,
    plain: plain::run_demo,
};

/// Runs a command.
pub fn run(command: CommandArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match command {
        CommandArgs::Demo(it) => demo::run(&it, invocation, DEMO_PLAYERS),
        CommandArgs::List(it) => list::run(&it, invocation),
        CommandArgs::Status(it) => status::run(&it, invocation),
        CommandArgs::Doctor(it) => doctor::run(&it, invocation),
        CommandArgs::Login(it) => login::run(&it, invocation),
        CommandArgs::Logout(it) => logout::run(&it, invocation),
        CommandArgs::Auth(it) => auth::run(&it, invocation),
        CommandArgs::Idp(it) => idp::run(&it, invocation),
        CommandArgs::Logs(it) => logs::run(&it, invocation),
        CommandArgs::Ping(it) => ping::run(&it, invocation),
        CommandArgs::Ps(it) => ps::run(&it, invocation),
        CommandArgs::Host(it) => host::run(&it, invocation),
        CommandArgs::Reconnect(it) => reconnect::run(&it, invocation),
        CommandArgs::Tools(it) => tools::run(&it, invocation),
        CommandArgs::Search(it) => search::run(&it, invocation),
        CommandArgs::Describe(it) => describe::run(&it, invocation),
        CommandArgs::Call(it) => call::run(&it, invocation),
        CommandArgs::Read(it) => read::run(&it, invocation),
        CommandArgs::Result(it) => result::run(&it, invocation),
        CommandArgs::Permissions(it) => permissions::run(&it, invocation),
        CommandArgs::Audit(it) => audit::run(&it, invocation),
        CommandArgs::Resources(it) => resources::run(&it, invocation),
        CommandArgs::Prompts(it) => prompts::run(&it, invocation),
        CommandArgs::Prompt(it) => prompt::run(&it, invocation),
        CommandArgs::Complete(it) => complete::run(&it, invocation),
        CommandArgs::Subscribe(it) => subscribe::run(&it, invocation),
        CommandArgs::Acp(it) => acp::run(&it, invocation),
        CommandArgs::Principals(it) => principals::run(&it, invocation),
        CommandArgs::Serve(it) => serve::run(&it, invocation),
        CommandArgs::Ui(it) => ui::run(&it, invocation),
        CommandArgs::Approvals(it) => approvals::run(&it, invocation),
        CommandArgs::Get(it) => get::run(&it, invocation),
        CommandArgs::Add(it) => add::run(&it, invocation),
        CommandArgs::Bundle(it) => bundle::run(&it, invocation),
        CommandArgs::Plugin(it) => plugin::run(&it, invocation),
        CommandArgs::AddJson(it) => add_json::run(&it, invocation),
        CommandArgs::Adopt(it) => adopt::run(&it, invocation),
        CommandArgs::Import(it) => import::run(&it, invocation),
        CommandArgs::Registry(it) => registry::run(&it, invocation),
        CommandArgs::Remove(it) => remove::run(&it, invocation),
        CommandArgs::Enable(it) => enable::run(&it, invocation),
        CommandArgs::Disable(it) => disable::run(&it, invocation),
        CommandArgs::Approve(it) => approve::run(&it, invocation),
        CommandArgs::Reject(it) => reject::run(&it, invocation),
        CommandArgs::ResetProjectChoices(it) => reset_project_choices::run(&it, invocation),
        CommandArgs::Policy(it) => policy::run(&it, invocation),
        CommandArgs::Config(it) => config::run(&it, invocation),
        CommandArgs::Paths(it) => paths::run(&it, invocation),
        CommandArgs::Completions(it) => completions::run(&it, help::reference_command()),
        CommandArgs::Man(it) => man::run(&it, help::reference_command()),
        CommandArgs::Version(it) => version::run(&it, invocation),
    }
}
