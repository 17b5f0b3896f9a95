//! Reads `gatewayLimits` of a settings file: how much of a gateway one client, one address and all clients may use.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::GATEWAY_LIMITS_KEYS;

/// The key of the section.
pub(crate) const KEY: &str = "gatewayLimits";

/// The limits of a gateway over HTTP. The gateway has defaults for absent values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Sessions and `subscriptions/listen` streams of one principal.
    pub sessions: Option<u64>,
    /// Sessions and `subscriptions/listen` streams of all clients.
    pub sessions_total: Option<u64>,
    /// Requests in flight of one principal.
    pub requests_in_flight: Option<u64>,
    /// Requests in flight of all clients.
    pub requests_in_flight_total: Option<u64>,
    /// Requests per second of one principal.
    pub requests_per_second: Option<u64>,
    /// Megabytes of events that are kept for one principal.
    pub kept_megabytes: Option<u64>,
    /// Megabytes of events that are kept for all clients.
    pub kept_megabytes_total: Option<u64>,
    /// Connections of one principal.
    pub connections: Option<u64>,
    /// Connections from one remote address.
    pub connections_per_address: Option<u64>,
    /// Connections of all clients.
    pub connections_total: Option<u64>,
}

impl GatewayLimits {
    /// These limits, completed by those of a file that comes later. Earlier files take precedence.
    pub fn merge(self, later: GatewayLimits) -> GatewayLimits {
        GatewayLimits {
            sessions: self.sessions.or(later.sessions),
            sessions_total: self.sessions_total.or(later.sessions_total),
            requests_in_flight: self.requests_in_flight.or(later.requests_in_flight),
            requests_in_flight_total: self
                .requests_in_flight_total
                .or(later.requests_in_flight_total),
            requests_per_second: self.requests_per_second.or(later.requests_per_second),
            kept_megabytes: self.kept_megabytes.or(later.kept_megabytes),
            kept_megabytes_total: self.kept_megabytes_total.or(later.kept_megabytes_total),
            connections: self.connections.or(later.connections),
            connections_per_address: self.connections_per_address.or(later.connections_per_address),
            connections_total: self.connections_total.or(later.connections_total),
        }
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> GatewayLimits {
    let Some(mut section) = Section::open(members, KEY, GATEWAY_LIMITS_KEYS, reporter) else {
        return GatewayLimits::default();
    };
    GatewayLimits {
        sessions: section.positive_integer("sessions"),
        sessions_total: section.positive_integer("sessionsTotal"),
        requests_in_flight: section.positive_integer("requestsInFlight"),
        requests_in_flight_total: section.positive_integer("requestsInFlightTotal"),
        requests_per_second: section.positive_integer("requestsPerSecond"),
        kept_megabytes: section.positive_integer("keptMegabytes"),
        kept_megabytes_total: section.positive_integer("keptMegabytesTotal"),
        connections: section.positive_integer("connections"),
        connections_per_address: section.positive_integer("connectionsPerAddress"),
        connections_total: section.positive_integer("connectionsTotal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn every_key_is_read_and_earlier_files_take_precedence() {
        let names = GATEWAY_LIMITS_KEYS.iter().map(|it| it.name);
        let members: Vec<String> =
            names.zip(1..).map(|(name, number)| format!("\"{name}\": {number}")).collect();
        let all = read(&format!("{{\"gatewayLimits\": {{{}}}}}", members.join(", ")));
        assert!(all.layer.problems.is_empty(), "{:?}", all.layer.problems);
        let expected = GatewayLimits {
            sessions: Some(1),
            sessions_total: Some(2),
            requests_in_flight: Some(3),
            requests_in_flight_total: Some(4),
            requests_per_second: Some(5),
            kept_megabytes: Some(6),
            kept_megabytes_total: Some(7),
            connections: Some(8),
            connections_per_address: Some(9),
            connections_total: Some(10),
        };
        assert_eq!(all.gateway_limits, expected);
        let first = GatewayLimits { sessions: Some(50), ..GatewayLimits::default() };
        let merged = first.merge(all.gateway_limits);
        assert_eq!(merged, GatewayLimits { sessions: Some(50), ..expected });
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        let bad = read(r#"{"gatewayLimits": {"sessions": 0, "session": 5, "connections": "8"}}"#);
        let keys = problem_keys(&bad);
        assert_eq!(
            keys,
            ["gatewayLimits.session", "gatewayLimits.sessions", "gatewayLimits.connections"]
        );
        assert_eq!(bad.gateway_limits, GatewayLimits::default());
    }
}
