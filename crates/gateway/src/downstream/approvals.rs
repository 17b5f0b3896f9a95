//! Who has approved a call: its client's user, the operator, or both.

use serde::{Deserialize, Serialize};

/// Who has approved a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Approvals {
    /// The client's user.
    pub(crate) client: bool,
    /// The operator of the gateway.
    pub(crate) operator: bool,
}

impl Approvals {
    /// The client's user alone.
    pub(crate) const CLIENT: Approvals = Approvals { client: true, operator: false };
    /// The operator alone.
    pub(crate) const OPERATOR: Approvals = Approvals { client: false, operator: true };

    /// The approvals of both.
    pub(crate) fn union(self, other: Approvals) -> Approvals {
        Approvals { client: self.client || other.client, operator: self.operator || other.operator }
    }

    /// As bits, for an atomic.
    pub(crate) fn to_bits(self) -> u8 {
        u8::from(self.client) | u8::from(self.operator) << 1
    }

    /// From bits of [`Approvals::to_bits`].
    pub(crate) fn from_bits(bits: u8) -> Approvals {
        Approvals { client: bits & 1 != 0, operator: bits & 2 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_survive_the_conversion_to_bits_and_add_up() {
        for approvals in [Approvals::default(), Approvals::CLIENT, Approvals::OPERATOR] {
            assert_eq!(Approvals::from_bits(approvals.to_bits()), approvals);
        }
        let both = Approvals::CLIENT.union(Approvals::OPERATOR);
        assert_eq!(Approvals::from_bits(both.to_bits()), both);
        assert!(both.client && both.operator);
    }
}
