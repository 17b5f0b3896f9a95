//! Limits the server to one era. The SDK supports both, so the legacy server needs a guard that responds like a
//! server without the modern protocol.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use axum::middleware::Next;
use rmcp::ErrorData;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, Service};
use serde_json::json;

const VERSION_HEADER: &str = "mcp-protocol-version";
/// The error code of legacy servers for an unknown version.
const BAD_REQUEST: i32 = -32000;
const LEGACY_VERSIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2024_11_05,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
];
const MODERN_VERSIONS: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

/// The supported eras.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SupportedEras {
    /// Both.
    Both,
    /// Only versions with `initialize` and sessions.
    Legacy,
    /// Only the version without.
    Modern,
}

impl SupportedEras {
    /// Parses an era's name.
    pub fn parse(name: &str) -> Option<SupportedEras> {
        match name {
            "both" => Some(SupportedEras::Both),
            "legacy" => Some(SupportedEras::Legacy),
            "modern" => Some(SupportedEras::Modern),
            _ => None,
        }
    }

    /// The supported versions.
    pub fn versions(self) -> &'static [ProtocolVersion] {
        match self {
            SupportedEras::Both => ProtocolVersion::KNOWN_VERSIONS,
            SupportedEras::Legacy => LEGACY_VERSIONS,
            SupportedEras::Modern => MODERN_VERSIONS,
        }
    }

    /// Tasks are an extension of the modern protocol.
    pub fn has_tasks(self) -> bool {
        self != SupportedEras::Legacy
    }
}

/// Rejects versions that the legacy protocol does not have, like its servers do.
pub async fn reject_modern_versions(request: Request, next: Next) -> Response<Body> {
    let version = request.headers().get(VERSION_HEADER);
    let is_known = version.is_none_or(|version| {
        LEGACY_VERSIONS.iter().any(|it| version.as_bytes() == it.as_str().as_bytes())
    });
    if is_known {
        return next.run(request).await;
    }
    let message = "Bad Request: Unsupported protocol version";
    let error = json!({"code": BAD_REQUEST, "message": message});
    let body = json!({"jsonrpc": "2.0", "error": error, "id": null});
    Response::builder()
        .status(StatusCode::BAD_REQUEST)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .expect("the parts are constants")
}

/// The guard for stdio: rejects `server/discover`.
#[derive(Debug)]
pub struct WithoutDiscover<S>(pub S);

impl<S: Service<RoleServer>> Service<RoleServer> for WithoutDiscover<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if matches!(request, ClientRequest::DiscoverRequest(_)) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "Method not found", None));
        }
        self.0.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}
