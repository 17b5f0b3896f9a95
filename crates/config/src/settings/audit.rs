//! Reads `audit` of a settings file: how long calls are recorded, and whether a call may run without a record.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::AUDIT_KEYS;

/// The key of the section.
pub(crate) const KEY: &str = "audit";
const DEFAULT_KEEP_DAYS: u64 = 30;
const DEFAULT_MAX_MEGABYTES: u64 = 1024;

/// The policy for calls whose record cannot be written to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrecordedCalls {
    /// They run, and the program says that they are not recorded.
    Allow,
    /// They are refused.
    Refuse,
}

impl UnrecordedCalls {
    fn parse(word: &str) -> Option<UnrecordedCalls> {
        match word {
            "allow" => Some(UnrecordedCalls::Allow),
            "refuse" => Some(UnrecordedCalls::Refuse),
            _ => None,
        }
    }
}

/// How records are linked, so that changes of the log are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditChain {
    /// They are not.
    #[default]
    Off,
    /// Each names the digest of the one before it.
    Hash,
    /// The same, and what is written together is signed.
    Signed,
}

impl AuditChain {
    fn parse(word: &str) -> Option<AuditChain> {
        match word {
            "off" => Some(AuditChain::Off),
            "hash" => Some(AuditChain::Hash),
            "signed" => Some(AuditChain::Signed),
            _ => None,
        }
    }
}

/// Where a syslog service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A datagram socket of this machine.
    Unix(String),
    /// `host:port` over UDP.
    Udp(String),
    /// `host:port` over TCP.
    Tcp(String),
}

impl SyslogAddress {
    fn parse(text: &str) -> Option<SyslogAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| SyslogAddress::Unix(path.to_owned()));
        }
        let url = url::Url::parse(text).ok()?;
        let place = format!("{}:{}", url.host_str()?, url.port()?);
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none();
        match url.scheme() {
            "udp" if is_bare => Some(SyslogAddress::Udp(place)),
            "tcp" if is_bare => Some(SyslogAddress::Tcp(place)),
            _ => None,
        }
    }
}

/// Where a gateway sends its records, besides the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditTargets {
    /// A syslog service.
    pub syslog: Option<SyslogAddress>,
    /// A URL.
    pub webhook: Option<String>,
    /// The file with the token for the URL.
    pub webhook_token_file: Option<String>,
    /// The collector of OpenTelemetry.
    pub otlp: Option<bool>,
}

/// How the audit log is kept. Absent values have defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSettings {
    unrecorded_calls: Option<UnrecordedCalls>,
    keep_days: Option<u64>,
    max_megabytes: Option<u64>,
    chain: Option<AuditChain>,
    key_file: Option<String>,
    targets: AuditTargets,
    minimum: Minimum,
}

/// The least that files which come later may set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Minimum {
    /// Any value.
    #[default]
    None,
    /// The defaults: an administrator who sets no value relies on them.
    Defaults,
}

impl Minimum {
    fn apply(self, value: Option<u64>, default: u64) -> Option<u64> {
        match self {
            Minimum::None => value,
            Minimum::Defaults => value.map(|it| it.max(default)),
        }
    }
}

impl AuditSettings {
    /// The policy for calls whose record cannot be written. By default they run.
    pub fn unrecorded_calls(&self) -> UnrecordedCalls {
        self.unrecorded_calls.unwrap_or(UnrecordedCalls::Allow)
    }

    /// The number of days for which a record is kept whatever the size of the log.
    pub fn keep_days(&self) -> u64 {
        self.keep_days.unwrap_or(DEFAULT_KEEP_DAYS)
    }

    /// The maximum size of all files of the log together.
    pub fn max_megabytes(&self) -> u64 {
        self.max_megabytes.unwrap_or(DEFAULT_MAX_MEGABYTES)
    }

    /// How records are linked.
    pub fn chain(&self) -> AuditChain {
        self.chain.unwrap_or_default()
    }

    /// The private key of the chain, where it is not beside the log.
    pub fn key_file(&self) -> Option<&str> {
        self.key_file.as_deref()
    }

    /// Where a gateway sends its records.
    pub fn targets(&self) -> &AuditTargets {
        &self.targets
    }

    /// These settings, completed by those of a file that comes later. Earlier files take precedence.
    pub fn merge(self, later: AuditSettings) -> AuditSettings {
        let keep_days = self.minimum.apply(later.keep_days, DEFAULT_KEEP_DAYS);
        let max_megabytes = self.minimum.apply(later.max_megabytes, DEFAULT_MAX_MEGABYTES);
        AuditSettings {
            unrecorded_calls: self.unrecorded_calls.or(later.unrecorded_calls),
            keep_days: self.keep_days.or(keep_days),
            max_megabytes: self.max_megabytes.or(max_megabytes),
            // A key belongs to the chain of the same file.
            key_file: match self.chain {
                Some(_) => self.key_file,
                None => self.key_file.or(later.key_file),
            },
            chain: self.chain.or(later.chain),
            targets: AuditTargets {
                syslog: self.targets.syslog.or(later.targets.syslog),
                // A token belongs to the URL of the same file.
                webhook_token_file: match self.targets.webhook {
                    Some(_) => self.targets.webhook_token_file,
                    None => later.targets.webhook_token_file,
                },
                webhook: self.targets.webhook.or(later.targets.webhook),
                otlp: self.targets.otlp.or(later.targets.otlp),
            },
            minimum: self.minimum,
        }
    }

    /// These settings of an administrator, under whom calls without a record are refused unless they say otherwise, and
    /// users keep no less than the defaults.
    pub fn managed(self) -> AuditSettings {
        let unrecorded_calls = self.unrecorded_calls.or(Some(UnrecordedCalls::Refuse));
        AuditSettings { unrecorded_calls, minimum: Minimum::Defaults, ..self }
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> AuditSettings {
    let Some(mut section) = Section::open(members, KEY, AUDIT_KEYS, reporter) else {
        return AuditSettings::default();
    };
    AuditSettings {
        unrecorded_calls: section.optional_one_of(
            "unrecordedCalls",
            "`allow` or `refuse`",
            UnrecordedCalls::parse,
        ),
        keep_days: section.positive_integer("keepDays"),
        max_megabytes: section.positive_integer("maxMegabytes"),
        chain: section.optional_one_of("chain", "`off`, `hash` or `signed`", AuditChain::parse),
        key_file: section.optional_one_of("keyFile", "an absolute path", absolute_path),
        targets: AuditTargets {
            syslog: section.optional_one_of(
                "syslog",
                "`unix:/PATH`, `udp://HOST:PORT` or `tcp://HOST:PORT`",
                SyslogAddress::parse,
            ),
            webhook: section.https_url("webhook"),
            webhook_token_file: section.optional_one_of(
                "webhookTokenFile",
                "an absolute path",
                absolute_path,
            ),
            otlp: section.boolean("otlp"),
        },
        minimum: Minimum::None,
    }
}

fn absolute_path(text: &str) -> Option<String> {
    std::path::Path::new(text).is_absolute().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn values_are_read_and_absent_ones_have_defaults() {
        let all = read(
            r#"{"audit": {"unrecordedCalls": "refuse", "keepDays": 90, "maxMegabytes": 5000}}"#,
        );
        assert!(all.layer.problems.is_empty(), "{:?}", all.layer.problems);
        let audit = all.audit;
        assert_eq!(audit.unrecorded_calls(), UnrecordedCalls::Refuse);
        assert_eq!((audit.keep_days(), audit.max_megabytes()), (90, 5000));
        let none = read("{}").audit;
        assert_eq!(none.unrecorded_calls(), UnrecordedCalls::Allow);
        assert_eq!((none.keep_days(), none.max_megabytes()), (30, 1024));
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        let bad =
            read(r#"{"audit": {"unrecordedCalls": "deny", "keepDays": 0, "maxMegabyte": 1}}"#);
        let keys = problem_keys(&bad);
        assert_eq!(keys, ["audit.maxMegabyte", "audit.unrecordedCalls", "audit.keepDays"]);
        assert_eq!(bad.audit, AuditSettings::default());
    }

    #[test]
    fn the_chain_and_the_targets_are_read_and_an_administrators_come_first() {
        let text = r#"{"audit": {"chain": "signed", "keyFile": "/etc/key", "syslog": "tcp://log.example:601",
            "webhook": "https://hook.example/", "webhookTokenFile": "/etc/token", "otlp": true}}"#;
        let all = read(text);
        assert!(all.layer.problems.is_empty(), "{:?}", all.layer.problems);
        let audit = all.audit;
        assert_eq!((audit.chain(), audit.key_file()), (AuditChain::Signed, Some("/etc/key")));
        let targets = audit.targets().clone();
        assert_eq!(targets.syslog, Some(SyslogAddress::Tcp("log.example:601".to_owned())));
        assert_eq!(targets.webhook_token_file.as_deref(), Some("/etc/token"));
        assert_eq!(targets.otlp, Some(true));
        let own = r#"{"audit": {"chain": "hash", "syslog": "unix:/dev/log", "webhook": "https://a.example/"}}"#;
        let merged = read(own).audit.managed().merge(audit);
        // No key and no token of another file.
        assert_eq!((merged.chain(), merged.key_file()), (AuditChain::Hash, None));
        assert_eq!(merged.targets().webhook_token_file, None);
        assert_eq!(merged.targets().syslog, Some(SyslogAddress::Unix("/dev/log".to_owned())));
        assert_eq!(merged.targets().otlp, Some(true));
    }

    #[test]
    fn addresses_and_paths_that_mean_nothing_are_reported() {
        let bad = read(
            r#"{"audit": {"syslog": "log.example", "keyFile": "key", "webhook": "http://x.example/", "otlp": 1}}"#,
        );
        let keys = problem_keys(&bad);
        assert_eq!(keys, ["audit.keyFile", "audit.syslog", "audit.webhook", "audit.otlp"]);
    }

    #[test]
    fn an_administrators_settings_refuse_unless_they_say_otherwise_and_users_cannot_loosen_them() {
        let text = r#"{"audit": {"unrecordedCalls": "allow", "keepDays": 1, "maxMegabytes": 1}}"#;
        let users = read(text).audit;
        assert_eq!((users.keep_days(), users.max_megabytes()), (1, 1));
        let silent = AuditSettings::default().managed().merge(users.clone());
        assert_eq!(silent.unrecorded_calls(), UnrecordedCalls::Refuse);
        assert_eq!((silent.keep_days(), silent.max_megabytes()), (30, 1024));
        let more = read(r#"{"audit": {"keepDays": 90, "maxMegabytes": 5000}}"#).audit;
        let more = AuditSettings::default().managed().merge(more).merge(users.clone());
        assert_eq!((more.keep_days(), more.max_megabytes()), (90, 5000));
        let text = r#"{"audit": {"unrecordedCalls": "allow", "keepDays": 365}}"#;
        let allowing = read(text).audit.managed().merge(users.clone());
        assert_eq!(allowing.unrecorded_calls(), UnrecordedCalls::Allow);
        assert_eq!(allowing.keep_days(), 365);
        let short = read(r#"{"audit": {"keepDays": 7}}"#).audit.managed().merge(users);
        assert_eq!(short.keep_days(), 7, "the administrator's own value has no minimum");
    }
}
