//! The command line: one clap table. Parsing, help, completions, the man page and the reference pages are made from
//! it.

pub mod serve_file;
pub mod stream_json;

use clap::{Parser, Subcommand};

use crate::commands::{
    acp, add, add_json, adopt, approvals, approve, audit, auth, bundle, call, complete,
    completions, config, demo, describe, disable, doctor, enable, get, host, idp, import, list,
    login, logout, logs, man, paths, permissions, ping, plugin, policy, principals, print, prompt,
    prompts, ps, read, reconnect, registry, reject, remove, reset_project_choices, resources,
    result, search, serve, status, subscribe, tools, ui, version,
};
use crate::invocation::options::GlobalOptions;

/// One host for every MCP server you have.
///
/// Finds the MCP servers that you, your project and your company have configured, shows where each
/// comes from and whether it may run, edits those files safely, connects to the servers, and
/// diagnoses those that fail. Without a command it opens the screen, or prints an overview where
/// there is no terminal. Every command is also available as `swb mcp …`.
#[derive(Debug, Parser)]
#[command(name = "swb", bin_name = "swb", version, max_term_width = 100)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// Options of a conversation.
    #[command(flatten)]
    pub conversation: print::ConversationArgs,
    /// The command; without one, the screen or an overview.
    #[command(subcommand)]
    pub command: Option<TopLevelCommand>,
}

/// A command, with or without `mcp` before it.
#[derive(Debug, Subcommand)]
pub enum TopLevelCommand {
    /// The commands.
    #[command(flatten)]
    Plain(CommandArgs),
    /// The same commands, for users who type `swb mcp …`
    Mcp {
        /// The command.
        #[command(subcommand)]
        command: CommandArgs,
    },
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum CommandArgs {
    /// Watch a scripted conversation; needs no API key and no network, and saves nothing
    Demo(demo::DemoArgs),
    /// Add a server: a command to start or a URL to connect to
    Add(Box<add::AddArgs>),
    /// Inspect, install and configure `.mcpb` bundles
    Bundle(bundle::BundleArgs),
    /// Install plugins from marketplaces, and configure their servers
    #[command(alias = "plugins")]
    Plugin(plugin::PluginArgs),
    /// Import servers that other programs have configured
    Import(import::ImportArgs),
    /// Move the servers of other clients into Switchboard, and make the clients use it
    Adopt(adopt::AdoptArgs),

    /// Find servers in a public registry, and add them
    Registry(registry::RegistryArgs),

    /// List configured servers without connecting to them
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one server: its definitions, origin and state
    Get(get::GetArgs),
    /// Connect to servers and show the state of each connection
    Status(status::StatusArgs),
    /// Diagnose servers: what is wrong and how to fix it
    Doctor(doctor::DoctorArgs),
    /// Show the log of a server
    Logs(logs::LogsArgs),
    /// Connect to a server and measure its response time
    Ping(ping::PingArgs),
    /// List the server processes that run, and who uses them
    Ps(ps::PsArgs),
    /// Show or stop the shared host, which keeps servers for several sessions
    Host(host::HostArgs),
    /// Make other running swb processes reconnect to a server
    #[command(alias = "restart")]
    Reconnect(reconnect::ReconnectArgs),
    /// Add a server from its JSON entry
    AddJson(add_json::AddJsonArgs),
    /// Remove a server
    Remove(remove::RemoveArgs),
    /// Enable a server
    Enable(enable::EnableArgs),
    /// Disable a server without removing it
    Disable(disable::DisableArgs),

    /// List the tools of servers
    Tools(tools::ToolsArgs),
    /// Find tools by name and description
    Search(search::SearchArgs),
    /// Show one tool: its description and its arguments
    Describe(describe::DescribeArgs),
    /// Call a tool
    Call(call::CallArgs),
    /// Show a stored result that was too long to print
    Result(result::ResultArgs),
    /// List the resources of servers
    Resources(resources::ResourcesArgs),
    /// Read a resource
    Read(read::ReadArgs),
    /// Print changes of resources as they happen
    Subscribe(subscribe::SubscribeArgs),
    /// List the prompts of servers
    Prompts(prompts::PromptsArgs),
    /// Show a prompt with its arguments filled in
    Prompt(prompt::PromptArgs),
    /// Complete an argument of a prompt or a resource template
    Complete(complete::CompleteArgs),

    /// List, explain, change and simulate permission rules
    Permissions(permissions::PermissionsArgs),
    /// Decide calls of gateway clients that wait for approval
    Approvals(approvals::ApprovalsArgs),
    /// Approve servers of this project, exactly as they are defined now
    Approve(approve::ApproveArgs),
    /// Reject servers of this project
    Reject(reject::RejectArgs),
    /// Forget which servers of this project were approved or rejected
    ResetProjectChoices(reset_project_choices::ResetProjectChoicesArgs),
    /// Explain which policy rule allows or refuses a server
    Policy(policy::PolicyArgs),
    /// Show the audit log of tool calls
    Audit(audit::AuditArgs),

    /// Sign in to a server
    Login(login::LoginArgs),
    /// Sign out of a server: revoke the login and delete it
    Logout(logout::LogoutArgs),
    /// List the stored logins
    Auth(auth::AuthArgs),
    /// Sign in at the identity provider, once for all servers with `oauth.xaa`
    Idp(idp::IdpArgs),

    /// Run an MCP server: the workspace tools, or all configured servers as one
    Serve(Box<serve::ServeArgs>),
    /// List the clients of running gateways: calls, quotas, and when they were seen last
    Principals(principals::PrincipalsArgs),
    /// Open the dashboard of a running gateway, or of your own servers
    Ui(ui::UiArgs),
    /// Run an agent for an editor that speaks the Agent Client Protocol
    Acp(acp::AcpArgs),

    /// Explain and check the configuration
    Config(config::ConfigArgs),
    /// Show the paths of all files
    Paths(paths::PathsArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print a manual page
    Man(man::ManArgs),
    /// Print the version
    Version(version::VersionArgs),
}
