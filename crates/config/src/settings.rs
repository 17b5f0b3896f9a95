//! Reads a settings file: servers, policy lists, permission rules and the other sections.
//! Each section has its own reader; `merge` and `permission` decide with what they return.

pub mod audit;
pub mod browser;
mod channels;
pub mod connector_account;
pub mod gateway_limits;
pub mod hooks;
pub mod identity_provider;
pub mod login_defaults;
pub mod model;
pub mod plugins;
mod policy_lists;
pub mod principals;
pub mod quotas;
pub mod registry;
mod section;
pub mod session_ingress;
pub mod sharing;
#[cfg(test)]
mod test_reader;

use std::sync::Arc;

use crate::channel::ChannelPolicy;
use crate::document::{LineIndex, Member, Span, Value, find_member, strip_bom};
use crate::file::permission_section as permissions;
use crate::file::{Layer, Naming, OptionValues, read_servers, read_top_level, report_unknown_keys};
use crate::permission::{PermissionRules, Principals, RuleNotation, RulePaths};
use crate::plugin::{PluginSettings, SwitchAuthority};
use crate::policy::Policy;
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
pub use crate::schema::{SETTINGS_KEYS, SettingsKey};
use crate::source::{Authority, Origin, Source};
use audit::AuditSettings;
use browser::BrowserSection;
use connector_account::ConnectorAccount;
use gateway_limits::GatewayLimits;
use hooks::ElicitationHook;
use identity_provider::IdentityProvider;
use login_defaults::LoginDefaults;
use model::ModelSettings;
use policy_lists::{POLICY_LIST_KEYS, is_list_unreadable};
use quotas::CallQuota;
use registry::RegistrySettings;
use session_ingress::SessionIngress;
use sharing::SharingSettings;

/// The content of a settings file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its servers, and the problems of the whole file.
    pub layer: Layer,
    /// Its policy lists.
    pub policy: Policy,
    /// The servers that it disables.
    pub disabled: Vec<DisabledServer>,
    /// Its permission rules.
    pub permissions: PermissionRules,
    /// Permission rules for the clients of a gateway.
    pub principals: Principals,
    /// Commands that answer elicitations.
    pub hooks: Vec<ElicitationHook>,
    /// The identity provider of the enterprise.
    pub identity_provider: Option<IdentityProvider>,
    /// Defaults for logins at every server.
    pub login_defaults: LoginDefaults,
    /// The account whose connectors are used.
    pub connector_account: Option<ConnectorAccount>,
    /// Where servers are looked for.
    pub registry: Option<RegistrySettings>,
    /// Where it disables every connector.
    pub connectors_disabled: Option<Origin>,
    /// The origin that gets the token of this session.
    pub session_ingress: Option<SessionIngress>,
    /// The language model to use.
    pub model: Option<ModelSettings>,
    /// How the audit log is kept.
    pub audit: AuditSettings,
    /// How much of a gateway clients may use.
    pub gateway_limits: GatewayLimits,
    /// How many tools the clients of a gateway may call.
    pub quotas: Vec<CallQuota>,
    /// How servers are shared with other sessions.
    pub sharing: SharingSettings,
    /// How the browser server works.
    pub browser: BrowserSection,
    /// The colours of the screen.
    pub theme: Option<Theme>,
    /// Whether conversations connect an IDE by themselves.
    pub auto_connect_ide: Option<bool>,
    /// What it says about channels.
    pub channels: ChannelPolicy,
    /// What it says about plugins.
    pub plugins: PluginSettings<OptionValues>,
}

/// A name in `disabledMcpServers` and its position.
#[derive(Debug, Clone)]
pub struct DisabledServer {
    /// The name.
    pub name: String,
    /// The position of the name.
    pub origin: Origin,
}

/// The colours of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
}

impl Settings {
    /// Creates settings without content.
    pub fn empty(source: &Arc<Source>) -> Settings {
        Settings {
            layer: Layer::empty(source),
            policy: Policy::default(),
            disabled: Vec::new(),
            permissions: PermissionRules::default(),
            principals: Principals::default(),
            hooks: Vec::new(),
            identity_provider: None,
            login_defaults: LoginDefaults::default(),
            connector_account: None,
            registry: None,
            connectors_disabled: None,
            session_ingress: None,
            model: None,
            audit: AuditSettings::default(),
            gateway_limits: GatewayLimits::default(),
            quotas: Vec::new(),
            sharing: SharingSettings::default(),
            browser: BrowserSection::default(),
            theme: None,
            auto_connect_ide: None,
            channels: ChannelPolicy::default(),
            plugins: PluginSettings::default(),
        }
    }

    /// Creates settings that could not be read. They may contain policy lists, so no server may run until they
    /// can be read.
    pub fn failed(source: &Arc<Source>, kind: ProblemKind) -> Settings {
        let mut settings = Settings::empty(source);
        settings.layer = Layer::failed(source, kind);
        settings.policy.unreadable = Some(source.clone());
        settings.permissions = PermissionRules::unreadable(source);
        settings
    }

    /// Reads a project's file: its servers, and those of its rules that restrict. The authors of a project may
    /// deny calls on this machine, but not allow them.
    pub fn read_project(source: &Arc<Source>, text: &str) -> Settings {
        let text = strip_bom(text);
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        match read_top_level(text, &mut reporter) {
            Some(members) => {
                let rules = permissions::read_project(&members, &mut reporter);
                settings.permissions = rules;
                settings.layer.definitions = read_servers(&members, Naming::Plain, &mut reporter);
                settings.connectors_disabled =
                    connector_account::read_disabled(&members, &mut reporter);
                let [disable, alias] = connector_account::DISABLE_KEYS;
                settings.plugins =
                    plugins::read_shared(&members, SwitchAuthority::Project, &mut reporter);
                let [enabled, offered] = plugins::SHARED_KEYS;
                let known =
                    ["mcpServers", "permissions", "$schema", disable, alias, enabled, offered];
                report_unknown_keys(&members, &known, &mut reporter);
            }
            None if text.contains(permissions::KEY) => {
                settings.permissions = PermissionRules::unreadable(source);
            }
            None => {}
        }
        settings.layer.problems = reporter.problems;
        settings
    }

    /// Reads a settings file. If its lists cannot be read, no server may run: an invalid list must not count as
    /// a missing list.
    pub fn read(source: &Arc<Source>, text: &str, authority: Authority) -> Settings {
        Settings::read_in(RuleNotation::Own, source, text, authority)
    }

    /// Reads the settings of `--settings`, whose permission rules may have the notation of agent SDKs.
    pub fn read_session(source: &Arc<Source>, text: &str, paths: &RulePaths) -> Settings {
        Settings::read_in(RuleNotation::Sdk(paths), source, text, Authority::User)
    }

    fn read_in(
        notation: RuleNotation<'_>,
        source: &Arc<Source>,
        text: &str,
        authority: Authority,
    ) -> Settings {
        let text = strip_bom(text);
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        let members = read_top_level(text, &mut reporter);
        if let Some(members) = &members {
            let reporter = &mut reporter;
            settings.policy = policy_lists::read(members, authority, reporter);
            settings.permissions = permissions::read_in(notation, members, authority, reporter);
            settings.principals = principals::read(members, authority, reporter);
            settings.hooks = hooks::read(members, reporter);
            settings.identity_provider = identity_provider::read(members, reporter);
            settings.login_defaults = login_defaults::read(members, reporter);
            settings.connector_account = connector_account::read(members, reporter);
            settings.registry = registry::read(members, reporter);
            settings.connectors_disabled = connector_account::read_disabled(members, reporter);
            settings.session_ingress = session_ingress::read(members, reporter);
            settings.model = model::read(members, reporter);
            settings.audit = audit::read(members, reporter);
            settings.gateway_limits = gateway_limits::read(members, reporter);
            settings.quotas = quotas::read(members, reporter);
            settings.sharing = sharing::read(members, authority, reporter);
            settings.channels = channels::read(members, authority, reporter);
            settings.plugins = plugins::read(members, authority, reporter);
            settings.browser = browser::read(members, authority, reporter);
            if authority == Authority::User {
                settings.disabled = policy_lists::read_disabled(members, authority, reporter);
                settings.theme = read_theme(members, reporter);
                settings.auto_connect_ide = read_auto_connect_ide(members, reporter);
                settings.layer.definitions = read_servers(members, Naming::Plain, reporter);
            }
            report_unknown_keys(members, &known_keys(authority), reporter);
        } else if authority == Authority::Administrator && reporter.problems.is_empty() {
            let span = Span { start: 0, end: 0 };
            reporter.report(span, ProblemSubject::default(), ProblemKind::Empty);
        }
        settings.layer.problems = reporter.problems;
        if members.is_none() && !settings.layer.problems.is_empty() {
            settings.permissions = PermissionRules::unreadable(source);
        }
        let is_unreadable = match members {
            Some(_) => settings.layer.problems.iter().any(is_list_unreadable),
            None => match authority {
                Authority::Administrator => true,
                Authority::User => POLICY_LIST_KEYS.iter().any(|list| text.contains(list)),
            },
        };
        if is_unreadable {
            settings.policy.unreadable = Some(source.clone());
        }
        settings
    }
}

fn read_auto_connect_ide(members: &[Member], reporter: &mut Reporter<'_>) -> Option<bool> {
    const KEY: &str = "autoConnectIde";
    let member = find_member(members, KEY)?;
    match &member.node.value {
        Value::Bool(value) => return Some(*value),
        Value::Null => return None,
        Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {}
    }
    let subject = ProblemSubject { server: None, key: KEY };
    reporter.report_wrong_type(&member.node, subject, "true or false");
    None
}

fn read_theme(members: &[Member], reporter: &mut Reporter<'_>) -> Option<Theme> {
    const KEY: &str = "theme";
    let member = find_member(members, KEY)?;
    match &member.node.value {
        Value::Null => return None,
        Value::String(text) if text == "dark" => return Some(Theme::Dark),
        Value::String(text) if text == "light" => return Some(Theme::Light),
        Value::String(_)
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
    let subject = ProblemSubject { server: None, key: KEY };
    reporter.report_wrong_type(&member.node, subject, "`dark` or `light`");
    None
}

/// Returns the keys that count in settings of this authority.
fn known_keys(authority: Authority) -> Vec<&'static str> {
    let counts = |key: &&SettingsKey| match authority {
        Authority::User => true,
        Authority::Administrator => key.managed,
    };
    SETTINGS_KEYS.iter().filter(counts).map(|key| key.name).collect()
}
