//! The approver of a call of a gateway's client: the user of the client, the operator of the gateway, or both.

use std::fmt;

/// The approver of a call of a gateway's client. Without a gateway the user is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Approver {
    /// The user of the client; the operator, if the client cannot be asked.
    #[default]
    Client,
    /// The operator.
    Operator,
    /// Both: the call is made only if both agree.
    Both,
}

impl Approver {
    /// Every approver.
    pub const ALL: [Approver; 3] = [Approver::Client, Approver::Operator, Approver::Both];
    /// The accepted values of the setting, for messages.
    pub(crate) const EXPECTED: &'static str = "`client`, `operator` or `both`";

    /// The name in settings.
    pub fn id(self) -> &'static str {
        match self {
            Approver::Client => "client",
            Approver::Operator => "operator",
            Approver::Both => "both",
        }
    }

    /// Parses the name of an approver.
    pub fn parse(text: &str) -> Option<Approver> {
        Approver::ALL.into_iter().find(|it| it.id() == text)
    }

    /// The approver that satisfies two rules.
    pub(super) fn union(self, other: Approver) -> Approver {
        if self == other { self } else { Approver::Both }
    }

    /// The approver of something that is not the client's to decide.
    pub fn without_client_alone(self) -> Approver {
        match self {
            Approver::Client | Approver::Operator => Approver::Operator,
            Approver::Both => Approver::Both,
        }
    }
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}
