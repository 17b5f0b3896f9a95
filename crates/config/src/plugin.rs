//! Plugins: where they are published, what their manifests say, which of them are enabled, and the servers that they
//! define. Pure: files are read by `host`, and fetched by `packages`.

mod channel;
mod fields;
mod id;
mod installed;
mod manifest;
mod marketplace;
mod marketplace_policy;
mod problem;
mod relative_path;
mod source;
mod switch;

pub use channel::{ChannelProblem, PluginChannel};
pub use id::{
    NEUTRAL_VARIABLES, NameFault, PLUGIN_DATA, PLUGIN_ROOT, PROJECT_DIR, PluginId, PluginOrigin,
    check_marketplace_name, check_plugin_name,
};
pub use installed::{
    CorruptPluginState, InstallRecord, InstallScope, InstalledPlugins, KnownMarketplace,
    KnownMarketplaces,
};
pub use manifest::{
    InlineServers, MAX_MANIFEST_SIZE, McpServers, PluginManifest, PluginManifestError,
};
pub use marketplace::{
    EntryFault, EntryJson, MARKETPLACE_FILE, MAX_MARKETPLACE_SIZE, Marketplace, MarketplaceEntry,
    MarketplaceError, RenameOutcome, Strictness,
};
pub use marketplace_policy::{MarketplaceMatcher, MarketplacePolicy, MarketplaceRefusal};
pub use problem::PluginProblem;
pub use relative_path::{PathFault, RelativePath};
pub use source::{
    ArchiveSource, GitOrigin, GitSource, MarketplaceSource, NpmSource, PluginSource, SourceFault,
};
pub use switch::{
    OfferedMarketplace, PluginSettings, PluginSwitch, PluginValues, SwitchAuthority, SwitchState,
};

/// The name of a plugin's manifest, in its folder or in [`MANIFEST_FOLDER`].
pub const MANIFEST_FILE: &str = "plugin.json";
/// The folder for the manifests of plugins and marketplaces.
pub const MANIFEST_FOLDER: &str = ".claude-plugin";
