//! What can be wrong with a plugin or a marketplace, for messages.

use std::fmt;

use super::channel::ChannelProblem;
use super::id::NameFault;
use super::manifest::PluginManifestError;
use super::marketplace::{EntryFault, MarketplaceError};
use super::relative_path::PathFault;
use super::source::SourceFault;

/// Something that is wrong with a plugin. Texts in it are untrusted.
#[derive(Debug, Clone)]
pub enum PluginProblem {
    /// A key of `enabledPlugins` or `pluginConfigs` is not `plugin@marketplace`.
    InvalidId,
    /// The name of a marketplace cannot be used.
    MarketplaceName(NameFault),
    /// The source of a marketplace cannot be used.
    MarketplaceSource(SourceFault),
    /// An entry of `strictKnownMarketplaces` is not valid, so it allows nothing.
    InvalidAllowedMarketplace,
    /// An entry of `blockedMarketplaces` is not valid, so it blocks nothing.
    InvalidBlockedMarketplace,
    /// One of our own files about plugins is not valid.
    CorruptState,
    /// The manifest cannot be used.
    Manifest(PluginManifestError),
    /// The manifest names another plugin than the entry in the marketplace.
    OtherName {
        /// The name in the manifest.
        found: String,
    },
    /// The marketplace cannot be used.
    Marketplace(MarketplaceError),
    /// The marketplace does not list the plugin any more.
    NotListed,
    /// The entry of the marketplace cannot be used.
    Entry(EntryFault),
    /// The entry says that it is everything, but the plugin's manifest has components.
    Contradiction,
    /// The plugin's folder is missing.
    NoFolder,
    /// A file cannot be read.
    Unreadable {
        /// The path.
        path: String,
        /// Why, after "it".
        why: String,
    },
    /// A file that is needed does not exist.
    NoFile {
        /// The path.
        path: String,
    },
    /// A path leads out of the plugin through a link.
    LeavesPlugin {
        /// The path.
        path: String,
    },
    /// A path cannot be used.
    Path(PathFault),
    /// A bundle was not installed with the plugin.
    BundleNotInstalled {
        /// The path or URL.
        name: String,
    },
    /// A bundle has to be downloaded, and the plugin is a folder of the user, for which nothing is downloaded.
    BundleNotDownloaded {
        /// Its URL.
        url: String,
    },
    /// An entry of a plugin names an installed bundle, as only the entries of users do.
    InstalledBundle,
    /// A server is defined twice; the last definition counts.
    ServerTwice,
    /// Options have no place in a text that a shell runs.
    OptionInShell,
    /// Rules and tool names could not tell the server from another one.
    NameClash {
        /// The other server.
        other: String,
        /// The name that both have in rules.
        rule_name: String,
    },
    /// Something is wrong with a channel.
    Channel(ChannelProblem),
}

impl PluginProblem {
    /// Does it leave nothing out?
    pub fn is_harmless(&self) -> bool {
        match self {
            PluginProblem::ServerTwice
            | PluginProblem::Channel(_)
            | PluginProblem::OtherName { .. }
            | PluginProblem::InvalidAllowedMarketplace => true,
            PluginProblem::InvalidId
            | PluginProblem::MarketplaceName(_)
            | PluginProblem::MarketplaceSource(_)
            | PluginProblem::InvalidBlockedMarketplace
            | PluginProblem::CorruptState
            | PluginProblem::Manifest(_)
            | PluginProblem::Marketplace(_)
            | PluginProblem::NotListed
            | PluginProblem::Entry(_)
            | PluginProblem::Contradiction
            | PluginProblem::NoFolder
            | PluginProblem::Unreadable { .. }
            | PluginProblem::NoFile { .. }
            | PluginProblem::LeavesPlugin { .. }
            | PluginProblem::Path(_)
            | PluginProblem::BundleNotInstalled { .. }
            | PluginProblem::BundleNotDownloaded { .. }
            | PluginProblem::InstalledBundle
            | PluginProblem::OptionInShell
            | PluginProblem::NameClash { .. } => false,
        }
    }

    /// How to fix it, if the message does not say that.
    pub fn hint(&self) -> Option<String> {
        match self {
            PluginProblem::InvalidId => Some("write `plugin@marketplace`".to_owned()),
            PluginProblem::NotListed => {
                Some("remove it, or look for its new name: swb plugin marketplace list".to_owned())
            }
            PluginProblem::NoFolder => Some("install it again: swb plugin install ID".to_owned()),
            PluginProblem::BundleNotInstalled { .. } => {
                Some("install its bundle: swb plugin update ID".to_owned())
            }
            PluginProblem::BundleNotDownloaded { .. } => Some(
                "put the file into the plugin's folder, and write `./file.mcpb` in its manifest"
                    .to_owned(),
            ),
            PluginProblem::InstalledBundle => Some(
                "a plugin lists its bundles as `./file.mcpb` in `mcpServers` of its manifest"
                    .to_owned(),
            ),
            PluginProblem::CorruptState => Some(
                "move the file away, then add the marketplaces and install the plugins again"
                    .to_owned(),
            ),
            PluginProblem::NameClash { .. } => {
                Some("disable one of them: swb plugin disable ID".to_owned())
            }
            PluginProblem::MarketplaceName(_)
            | PluginProblem::MarketplaceSource(_)
            | PluginProblem::InvalidAllowedMarketplace
            | PluginProblem::InvalidBlockedMarketplace
            | PluginProblem::Manifest(_)
            | PluginProblem::OtherName { .. }
            | PluginProblem::Marketplace(_)
            | PluginProblem::Entry(_)
            | PluginProblem::Contradiction
            | PluginProblem::Unreadable { .. }
            | PluginProblem::NoFile { .. }
            | PluginProblem::LeavesPlugin { .. }
            | PluginProblem::Path(_)
            | PluginProblem::ServerTwice
            | PluginProblem::OptionInShell
            | PluginProblem::Channel(_) => None,
        }
    }
}

impl fmt::Display for PluginProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PluginProblem::InvalidId => f.write_str("is not the id of a plugin"),
            PluginProblem::MarketplaceName(fault) => {
                write!(f, "is not the name of a marketplace: {fault}")
            }
            PluginProblem::MarketplaceSource(fault) => {
                write!(f, "is not the source of a marketplace: {fault}")
            }
            PluginProblem::InvalidAllowedMarketplace => {
                f.write_str("is not the source of a marketplace; it allows nothing")
            }
            PluginProblem::InvalidBlockedMarketplace => {
                f.write_str("is not the source of a marketplace; it blocks nothing")
            }
            PluginProblem::CorruptState => f.write_str("is not valid, so no plugin is loaded"),
            PluginProblem::Manifest(error) => write!(f, "the plugin's manifest: {error}"),
            PluginProblem::OtherName { found } => {
                write!(f, "the plugin's manifest names another plugin: `{found}`")
            }
            PluginProblem::Marketplace(error) => write!(f, "the marketplace: {error}"),
            PluginProblem::NotListed => f.write_str("the marketplace does not list the plugin"),
            PluginProblem::Entry(fault) => write!(f, "the plugin's entry: {fault}"),
            PluginProblem::Contradiction => f.write_str(
                "its entry has `strict: false`, but the plugin's own manifest has components",
            ),
            PluginProblem::NoFolder => f.write_str("the plugin's folder is missing"),
            PluginProblem::Unreadable { path, why } => {
                write!(f, "`{path}` cannot be read: it {why}")
            }
            PluginProblem::NoFile { path } => write!(f, "there is no file `{path}`"),
            PluginProblem::LeavesPlugin { path } => {
                write!(f, "`{path}` is a link that leads out of the plugin")
            }
            PluginProblem::Path(fault) => write!(f, "a path cannot be used: {fault}"),
            PluginProblem::BundleNotInstalled { name } => {
                write!(f, "the bundle `{name}` is not installed")
            }
            PluginProblem::BundleNotDownloaded { url } => write!(
                f,
                "the bundle `{url}` is downloaded only for a plugin that is installed from a marketplace"
            ),
            PluginProblem::InstalledBundle => {
                f.write_str("a plugin may not name an installed bundle in an entry")
            }
            PluginProblem::ServerTwice => {
                f.write_str("the plugin defines it twice; the last definition counts")
            }
            PluginProblem::OptionInShell => {
                f.write_str("may not contain options: a shell would run what is in them")
            }
            PluginProblem::NameClash { other, rule_name } => write!(
                f,
                "in permission rules and tool names it is `{rule_name}`, and so is `{other}`"
            ),
            PluginProblem::Channel(problem) => write!(f, "{problem}"),
        }
    }
}
