//! What settings say about plugins: which are enabled, which marketplaces are offered, and the values of options.

use std::collections::BTreeMap;

use super::id::PluginId;
use super::marketplace_policy::MarketplacePolicy;
use super::source::MarketplaceSource;
use crate::source::Origin;

/// What one settings file says about plugins. `V` holds values of options.
#[derive(Debug, Clone)]
pub struct PluginSettings<V> {
    /// `enabledPlugins`
    pub switches: Vec<PluginSwitch>,
    /// `extraKnownMarketplaces`
    pub marketplaces: Vec<OfferedMarketplace>,
    /// `pluginConfigs`
    pub values: BTreeMap<PluginId, PluginValues<V>>,
    /// `strictKnownMarketplaces` and `blockedMarketplaces`
    pub policy: MarketplacePolicy,
}

impl<V> Default for PluginSettings<V> {
    fn default() -> PluginSettings<V> {
        PluginSettings {
            switches: Vec::new(),
            marketplaces: Vec::new(),
            values: BTreeMap::new(),
            policy: MarketplacePolicy::default(),
        }
    }
}

/// An entry of `enabledPlugins`.
#[derive(Debug, Clone)]
pub struct PluginSwitch {
    /// The plugin.
    pub id: PluginId,
    /// Whether it is enabled.
    pub state: SwitchState,
    /// Who says so.
    pub authority: SwitchAuthority,
    /// The position of the entry.
    pub origin: Origin,
}

/// Whether a plugin is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchState {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Who switches a plugin on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchAuthority {
    /// The user, or an administrator.
    User,
    /// A file in the project, whose authors cannot approve what runs.
    Project,
}

/// An entry of `extraKnownMarketplaces`.
#[derive(Debug, Clone)]
pub struct OfferedMarketplace {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: MarketplaceSource,
    /// Who offers it.
    pub authority: SwitchAuthority,
    /// The position of the entry.
    pub origin: Origin,
}

/// Values for the options of a plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginValues<V> {
    /// The plugin's own options.
    pub options: V,
    /// The options of its servers from bundles, by the name of the server.
    pub servers: BTreeMap<String, V>,
}

impl<V> PluginSettings<V> {
    /// Adds the settings of a file with less authority.
    pub fn merge(&mut self, lower: PluginSettings<V>) {
        self.switches.extend(lower.switches);
        self.marketplaces.extend(lower.marketplaces);
        for (id, values) in lower.values {
            self.values.entry(id).or_insert(values);
        }
        self.policy.blocked.extend(lower.policy.blocked);
        if self.policy.allowed.is_none() {
            self.policy.allowed = lower.policy.allowed;
        }
    }

    /// What the nearest scope says about a plugin.
    pub fn switch(&self, id: &PluginId) -> Option<&PluginSwitch> {
        self.switches.iter().find(|it| it.id == *id)
    }

    /// Did the user, rather than only the project, enable the plugin?
    pub fn is_users_choice(&self, id: &PluginId) -> bool {
        let of_plugin = self.switches.iter().filter(|it| it.id == *id);
        let by_user = |it: &&PluginSwitch| it.authority == SwitchAuthority::User;
        of_plugin.clone().find(by_user).map_or(
            // No file says anything: it was installed by the user.
            of_plugin.clone().next().is_none(),
            |it| it.state == SwitchState::On,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::source::Source;

    #[track_caller]
    fn check(switches: &[(SwitchAuthority, SwitchState)], is_on: Option<SwitchState>, users: bool) {
        let id = PluginId::new("demo", "lab").expect("an id");
        let mut settings = PluginSettings::<()>::default();
        for (authority, state) in switches {
            let origin = Origin { source: Source::file(Scope::User, "f"), position: None };
            let id = id.clone();
            let one = PluginSwitch { id, state: *state, authority: *authority, origin };
            settings.merge(PluginSettings { switches: vec![one], ..PluginSettings::default() });
        }
        assert_eq!(settings.switch(&id).map(|it| it.state), is_on);
        assert_eq!(settings.is_users_choice(&id), users);
    }

    #[test]
    fn the_nearest_scope_decides_and_a_project_never_decides_for_the_user() {
        use SwitchAuthority::{Project, User};
        use SwitchState::{Off, On};
        check(&[], None, true);
        check(&[(User, Off), (Project, On), (User, On)], Some(Off), false);
        check(&[(Project, On)], Some(On), false);
        check(&[(Project, On), (User, Off)], Some(On), false);
        check(&[(Project, On), (User, On)], Some(On), true);
        check(&[(User, On), (Project, Off)], Some(On), true);
    }
}
