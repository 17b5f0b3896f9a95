//! The command line: one table from which parsing, help, completions, the man page and the reference are made.

use clap::{Parser, Subcommand};

use crate::commands::{
    add, add_json, approvals, approve, audit, auth, call, complete, completions, config, demo,
    disable, doctor, enable, get, idp, import, list, login, logout, logs, man, paths, permissions,
    ping, policy, print, prompt, prompts, read, reconnect, reject, remove, reset_project_choices,
    resources, result, search, serve, status, subscribe, tools,
};
use crate::invocation::options::GlobalOptions;

/// One host for every MCP server you have.
///
/// Finds the servers that you, your project and your company have configured, says where each comes
/// from and whether it may run, edits those files safely, connects to every server and says what is
/// wrong where that fails. Every command also answers to `swb mcp …`.
#[derive(Debug, Parser)]
#[command(name = "swb", bin_name = "swb", version, max_term_width = 100)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// What is asked of the model.
    #[command(flatten)]
    pub conversation: print::ConversationArgs,
    /// What to do; without it, an overview.
    #[command(subcommand)]
    pub command: Option<TopLevelCommand>,
}

/// A command, with or without `mcp` in front.
#[derive(Debug, Subcommand)]
pub enum TopLevelCommand {
    /// The commands themselves.
    #[command(flatten)]
    Plain(CommandArgs),
    /// The same commands once more, for hands that type `mcp`
    Mcp {
        /// The command.
        #[command(subcommand)]
        command: CommandArgs,
    },
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CommandArgs {
    /// Watch a conversation that plays itself: no key, no network, nothing is kept
    Demo(demo::DemoArgs),
    /// List configured servers, without connecting to any
    List(list::ListArgs),
    /// Connect to every server and show how each is doing
    Status(status::StatusArgs),
    /// Find out what is wrong with servers, and how to mend it
    Doctor(doctor::DoctorArgs),
    /// Sign in to a server
    Login(login::LoginArgs),
    /// Sign out of a server: give the login back, and forget it
    Logout(logout::LogoutArgs),
    /// Show every login, for whom, for what and until when
    Auth(auth::AuthArgs),
    /// Sign in at the identity provider, once for every server with `oauth.xaa`
    Idp(idp::IdpArgs),
    /// Show what a server said on standard error
    Logs(logs::LogsArgs),
    /// Connect to one server and measure how long it takes to answer
    Ping(ping::PingArgs),
    /// Have running programs of ours connect to a server anew
    Reconnect(reconnect::ReconnectArgs),
    /// List every tool of every server, by the name that a model would see
    Tools(tools::ToolsArgs),
    /// Find tools by what they are called and what they do
    Search(search::SearchArgs),
    /// Call a tool, under the rules
    Call(call::CallArgs),
    /// Read a resource of a server
    Read(read::ReadArgs),
    /// Read a result that was too long to be shown
    Result(result::ResultArgs),
    /// Show the rules about tools, and what they decide
    Permissions(permissions::PermissionsArgs),
    /// Show who called which tool, what was decided and how it ended
    Audit(audit::AuditArgs),
    /// List what can be read from servers
    Resources(resources::ResourcesArgs),
    /// List the prompts that servers have
    Prompts(prompts::PromptsArgs),
    /// Show what a server's prompt says
    Prompt(prompt::PromptArgs),
    /// Ask a server what an argument of a prompt or template could be
    Complete(complete::CompleteArgs),
    /// Stay, and say whenever a resource of a server changes
    Subscribe(subscribe::SubscribeArgs),
    /// Be a server: tools for files and commands, over standard input and output
    Serve(serve::ServeArgs),
    /// Answer for calls of a gateway's clients that wait for you
    Approvals(approvals::ApprovalsArgs),
    /// Show one server: where it comes from, what it runs, whether it may
    Get(get::GetArgs),
    /// Add a server: a command to start or a URL to reach
    Add(Box<add::AddArgs>),
    /// Add a server from its JSON entry
    AddJson(add_json::AddJsonArgs),
    /// Take over servers that other programs have configured
    Import(import::ImportArgs),
    /// Remove a server
    Remove(remove::RemoveArgs),
    /// Switch a server on
    Enable(enable::EnableArgs),
    /// Switch a server off
    Disable(disable::DisableArgs),
    /// Let a project's server run, exactly as it is defined now
    Approve(approve::ApproveArgs),
    /// Never let a project's server run
    Reject(reject::RejectArgs),
    /// Forget what was approved and rejected in this project
    ResetProjectChoices(reset_project_choices::ResetProjectChoicesArgs),
    /// Explain what policies allow and deny
    Policy(policy::PolicyArgs),
    /// Explain and check the configuration as a whole
    Config(config::ConfigArgs),
    /// Show where everything is kept
    Paths(paths::PathsArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page
    Man(man::ManArgs),
}
