//! `swb plugin`: marketplaces and plugins. Installing copies files and writes settings; it runs nothing, and the servers of a
//! plugin start only after they were approved.

pub(crate) mod approval;
mod configure;
mod details;
mod fetching;
pub(crate) mod files;
mod import;
mod install;
mod list;
mod marketplace;
mod marketplace_argument;
mod options;
mod switch;
mod uninstall;
mod update;
mod validate;

use clap::{Args, Subcommand};
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb plugin`.
#[derive(Debug, Args)]
pub struct PluginArgs {
    /// The action.
    #[command(subcommand)]
    pub action: PluginAction,
}

/// Actions on plugins.
#[derive(Debug, Subcommand)]
pub enum PluginAction {
    /// Add, list, update and remove marketplaces
    Marketplace(marketplace::MarketplaceArgs),
    /// Install a plugin of a marketplace; runs nothing of it
    Install(install::InstallArgs),
    /// Uninstall a plugin, with its settings, its secrets and its data
    #[command(alias = "remove")]
    Uninstall(uninstall::UninstallPluginArgs),
    /// Enable a plugin
    Enable(switch::SwitchArgs),
    /// Disable a plugin without uninstalling it
    Disable(switch::SwitchArgs),
    /// Set the options of a plugin, or of one of its servers
    Configure(configure::ConfigurePluginArgs),
    /// List plugins and their state
    #[command(alias = "ls")]
    List(list::ListPluginsArgs),
    /// Show one plugin: where it comes from, its servers, its options
    Details(details::DetailsArgs),
    /// Update plugins and their marketplaces
    Update(update::UpdateArgs),
    /// Check a plugin or a marketplace in a folder
    Validate(validate::ValidateArgs),
    /// Import the marketplaces and plugins that Claude Code has installed
    Import(import::ImportPluginsArgs),
}

/// The page of the screen: the plugins, or one of them.
pub(crate) fn screen_page(
    id: Option<&str>,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    match id {
        Some(id) => details::run(&details::DetailsArgs { plugin: id.to_owned() }, invocation),
        None => Ok(list::list(configuration, &files::state(invocation)?, invocation)),
    }
}

/// Runs the command.
pub fn run(arguments: &PluginArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        PluginAction::Marketplace(it) => marketplace::run(it, invocation),
        PluginAction::Install(it) => install::run(it, invocation),
        PluginAction::Uninstall(it) => uninstall::run(it, invocation),
        PluginAction::Enable(it) => switch::run(it, switch::Toggle::Enable, invocation),
        PluginAction::Disable(it) => switch::run(it, switch::Toggle::Disable, invocation),
        PluginAction::Configure(it) => configure::run(it, invocation),
        PluginAction::List(it) => list::run(it, invocation),
        PluginAction::Details(it) => details::run(it, invocation),
        PluginAction::Update(it) => update::run(it, invocation),
        PluginAction::Validate(it) => validate::run(it, invocation),
        PluginAction::Import(it) => import::run(it, invocation),
    }
}
