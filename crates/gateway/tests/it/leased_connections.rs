//! Connections that modern requests over HTTP use alone: they end with a request that was cancelled.

use serde_json::json;
use testkit::processes::processes_with_environment;
use tokio::time::{Duration, timeout};

use crate::gateway_fixture::{FixtureOptions, ServerMatrix, wait_until};
use crate::test_client::{ClientKind, TestClient};

/// The number of processes of servers.
fn server_processes() -> usize {
    processes_with_environment(&format!("SWITCHBOARD_OWNER={}.", std::process::id())).len()
}

#[tokio::test]
async fn a_cancelled_request_leaves_no_process() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls"], FixtureOptions::default()).await;
    let mut client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    wait_until("the server runs", || server_processes() == 1).await;
    let arguments = json!({"text": "slow", "steps": 1, "ms": 60_000});
    let request = client
        .build_request("tools/call", json!({"name": "mcp__ls__talk", "arguments": arguments}));
    let call = async {
        let mut response = client.http.post(&request).await;
        response.message().await
    };
    let called = async {
        upstreams.wait_called("ls", "talk").await;
        assert_eq!(server_processes(), 2, "the request has a process of its own");
    };
    tokio::select! {
        _answered = call => panic!("the call has ended"),
        () = called => {}
    }
    // The client has disconnected.
    wait_until("the process has ended", || server_processes() == 1).await;
    let next = client.request("tools/call", json!({"name": "mcp__ls__echo", "arguments": {}}));
    timeout(Duration::from_secs(20), next).await.expect("an answer");
    drop(client);
    fixture.stop().await;
}
