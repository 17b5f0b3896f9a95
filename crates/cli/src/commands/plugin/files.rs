//! Our own files about plugins: reading and changing them, and finding what users name.

use std::time::SystemTime;

use switchboard::config::display::printable;
use switchboard::config::edit::EditError;
use switchboard::config::file::entry_decoder::nearest;
use switchboard::config::plugin::{
    InstallRecord, InstallScope, InstalledPlugins, KnownMarketplace, KnownMarketplaces,
    Marketplace, MarketplacePolicy, MarketplaceRefusal, MarketplaceSource, PluginId,
};
use switchboard::sources::atomic_file::{self, Privacy};
use switchboard::sources::plugins::{PluginState, read_marketplace, read_state};
use switchboard::sources::project_root;
use switchboard::utc_timestamp;
use switchboard_packages::plugin::PluginStore;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

/// What is known and installed.
pub(crate) fn state(invocation: &Invocation) -> Result<PluginState, Failure> {
    read_state(&invocation.env.paths).map_err(|error| {
        let file = invocation.display_path(&error.path);
        let failure = Failure::new(Exit::Configuration, &format!("{file} cannot be used"));
        match error.failure {
            Some(why) => failure.caused_by(ReadCause(why.to_string())),
            None => failure
                .hint("move it away, then add the marketplaces and install the plugins again"),
        }
    })
}

/// Why a file cannot be read, as an error.
#[derive(Debug)]
struct ReadCause(String);

impl std::fmt::Display for ReadCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the file {}", self.0)
    }
}

impl std::error::Error for ReadCause {}

/// Changes the known marketplaces.
pub(super) fn change_known(
    invocation: &Invocation,
    change: impl FnOnce(&mut KnownMarketplaces),
) -> Result<(), Failure> {
    // Fails where the file is not valid; the change below then finds a valid one.
    state(invocation)?;
    let path = invocation.env.paths.known_marketplaces();
    atomic_file::change(&path, Privacy::Owner, |text| -> Result<String, EditError> {
        let Ok(mut known) = KnownMarketplaces::parse(text) else { return Ok(text.to_owned()) };
        change(&mut known);
        Ok(known.to_text())
    })?;
    Ok(())
}

/// Changes the installed plugins.
pub(super) fn change_installed(
    invocation: &Invocation,
    change: impl FnOnce(&mut InstalledPlugins),
) -> Result<(), Failure> {
    state(invocation)?;
    let path = invocation.env.paths.installed_plugins();
    atomic_file::change(&path, Privacy::Owner, |text| -> Result<String, EditError> {
        let Ok(mut installed) = InstalledPlugins::parse(text) else { return Ok(text.to_owned()) };
        change(&mut installed);
        Ok(installed.to_text())
    })?;
    Ok(())
}

/// The files of plugins and marketplaces.
pub(crate) fn store(invocation: &Invocation) -> PluginStore {
    PluginStore::new(&invocation.env.paths.plugin_store())
}

/// The time, as our files have it.
pub(super) fn now() -> String {
    utc_timestamp(SystemTime::now())
}

/// The scope of an installation.
pub(super) fn install_scope(invocation: &Invocation, scope: WritableScope) -> InstallScope {
    let root = project_root(&invocation.env.working_folder);
    match scope {
        WritableScope::User => InstallScope::User,
        WritableScope::Project => InstallScope::Project(root),
        WritableScope::Local => InstallScope::Local(root),
    }
}

/// The scope that commands write to for an installation.
pub(super) fn writable_scope(record: &InstallRecord) -> WritableScope {
    match record.scope {
        InstallScope::User => WritableScope::User,
        InstallScope::Project(_) => WritableScope::Project,
        InstallScope::Local(_) => WritableScope::Local,
    }
}

/// A known marketplace, and what its file says.
pub(super) struct OpenMarketplace {
    pub(super) name: String,
    pub(super) known: KnownMarketplace,
    pub(super) content: Marketplace,
}

/// A known marketplace.
pub(super) fn known<'s>(
    state: &'s PluginState,
    name: &str,
) -> Result<&'s KnownMarketplace, Failure> {
    state.known.0.get(name).ok_or_else(|| {
        let names: Vec<&str> = state.known.0.keys().map(String::as_str).collect();
        let failure = Failure::new(Exit::NotFound, &format!("there is no marketplace `{name}`"));
        match (nearest(name, names.iter().copied()), names.is_empty()) {
            (Some(near), _) => failure.hint(&format!("did you mean `{near}`?")),
            (None, true) => failure.hint("add one: swb plugin marketplace add SOURCE"),
            (None, false) => failure.hint(&format!("the known ones are {}", names.join(", "))),
        }
    })
}

/// Reads a known marketplace.
pub(super) fn open(state: &PluginState, name: &str) -> Result<OpenMarketplace, Failure> {
    let known = known(state, name)?;
    let (path, content) = read_marketplace(&known.location);
    let content = content.map_err(|problem| {
        let message = format!("the marketplace `{name}` cannot be read");
        let place = printable(&path.to_string_lossy());
        Failure::new(Exit::Configuration, &message)
            .detail(format!("  {place}: {}\n", printable(&problem.to_string())))
            .hint(&format!("fetch it again: swb plugin marketplace update {name}"))
    })?;
    Ok(OpenMarketplace { name: name.to_owned(), known: known.clone(), content })
}

/// The plugin that a text names: `plugin@marketplace`, or a name that only one of `ids` has.
pub(super) fn plugin_id<'i>(
    text: &str,
    ids: impl Iterator<Item = &'i PluginId>,
) -> Result<PluginId, Failure> {
    if text.contains('@') {
        return PluginId::parse(text).ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("`{text}` is not the id of a plugin"))
                .hint("write plugin@marketplace")
        });
    }
    let ids: Vec<&PluginId> = ids.collect();
    let named: Vec<&&PluginId> = ids.iter().filter(|it| it.plugin == text).collect();
    match &named[..] {
        [only] => Ok((**only).clone()),
        [] => {
            let names: Vec<&str> = ids.iter().map(|it| it.plugin.as_str()).collect();
            let failure = Failure::new(Exit::NotFound, &format!("there is no plugin `{text}`"));
            Err(match nearest(text, names.into_iter()) {
                Some(near) => failure.hint(&format!("did you mean `{near}`?")),
                None => failure.hint("swb plugin list --available"),
            })
        }
        several => {
            let shown: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("several marketplaces have a plugin `{text}`");
            Err(Failure::new(Exit::Conflict, &message).hint(&shown.join(", ")))
        }
    }
}

/// Fails where an administrator refuses a marketplace.
pub(super) fn expect_allowed(
    policy: &MarketplacePolicy,
    source: &MarketplaceSource,
    invocation: &Invocation,
) -> Result<(), Failure> {
    policy.evaluate(source).map_err(|refusal| {
        let message = "an administrator's policy refuses this marketplace";
        Failure::new(Exit::Policy, message).hint(&refusal_text(&refusal, invocation))
    })
}

/// Which list refuses a marketplace.
pub(super) fn refusal_text(refusal: &MarketplaceRefusal, invocation: &Invocation) -> String {
    match refusal {
        MarketplaceRefusal::Blocked(origin) => format!(
            "`blockedMarketplaces` in {} contains it",
            invocation.env.display_origin(origin)
        ),
        MarketplaceRefusal::NotAllowed(origin) => format!(
            "`strictKnownMarketplaces` in {} does not contain it",
            invocation.env.display_origin(origin)
        ),
        MarketplaceRefusal::Unknown(origin) => format!(
            "{} restricts marketplaces, and where this one comes from is not known; add it again",
            invocation.env.display_origin(origin)
        ),
    }
}
