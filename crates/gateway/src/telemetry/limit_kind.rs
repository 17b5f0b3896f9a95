//! The limits of the HTTP server by name, for their counter and their log events.

/// A limit, as the `limit` label of the metrics has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitKind {
    Sessions,
    SessionsTotal,
    Requests,
    RequestsTotal,
    RequestRate,
    ReplayBytes,
    ReplayBytesTotal,
    Connections,
    PrincipalConnections,
    AddressConnections,
    AddressSessions,
    AddressRequests,
    AddressRequestRate,
    UnauthenticatedConnections,
    CallsPerMinute,
    CallsPerDay,
    ConcurrentCalls,
}

impl LimitKind {
    /// Every limit, in the order of declaration.
    pub(crate) const ALL: [LimitKind; 17] = [
        LimitKind::Sessions,
        LimitKind::SessionsTotal,
        LimitKind::Requests,
        LimitKind::RequestsTotal,
        LimitKind::RequestRate,
        LimitKind::ReplayBytes,
        LimitKind::ReplayBytesTotal,
        LimitKind::Connections,
        LimitKind::PrincipalConnections,
        LimitKind::AddressConnections,
        LimitKind::AddressSessions,
        LimitKind::AddressRequests,
        LimitKind::AddressRequestRate,
        LimitKind::UnauthenticatedConnections,
        LimitKind::CallsPerMinute,
        LimitKind::CallsPerDay,
        LimitKind::ConcurrentCalls,
    ];

    /// The value of the `limit` label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            LimitKind::Sessions => "sessions",
            LimitKind::SessionsTotal => "sessions-total",
            LimitKind::Requests => "requests",
            LimitKind::RequestsTotal => "requests-total",
            LimitKind::RequestRate => "request-rate",
            LimitKind::ReplayBytes => "replay-bytes",
            LimitKind::ReplayBytesTotal => "replay-bytes-total",
            LimitKind::Connections => "connections",
            LimitKind::PrincipalConnections => "principal-connections",
            LimitKind::AddressConnections => "address-connections",
            LimitKind::AddressSessions => "address-sessions",
            LimitKind::AddressRequests => "address-requests",
            LimitKind::AddressRequestRate => "address-request-rate",
            LimitKind::UnauthenticatedConnections => "unauthenticated-connections",
            LimitKind::CallsPerMinute => "calls-per-minute",
            LimitKind::CallsPerDay => "calls-per-day",
            LimitKind::ConcurrentCalls => "concurrent-calls",
        }
    }

    /// Is it a limit over all principals?
    pub(crate) fn is_total(self) -> bool {
        matches!(
            self,
            LimitKind::SessionsTotal
                | LimitKind::RequestsTotal
                | LimitKind::ReplayBytesTotal
                | LimitKind::Connections
        )
    }
}
