//! Resources that a server allows to be kept: a client gets the same response again, and no other client's.

use serde_json::json;
use testkit::{Script, ScriptedServer};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, remote};
use crate::test_client::{ClientKind, TestClient};

/// How many reads a server has received.
fn reads(server: &ScriptedServer) -> usize {
    let requests = server.requests().into_iter().filter_map(|it| it.body);
    requests.filter(|it| it["method"] == "resources/read").count()
}

async fn fixture(ttl_ms: u64) -> (ScriptedServer, GatewayFixture) {
    let mut script = Script::modern().resources(2);
    script.ttl_ms = ttl_ms;
    let server = ScriptedServer::http(script);
    let entry = remote(server.url());
    let fixture = GatewayFixture::open(&[("s", entry)], FixtureOptions::default()).await;
    (server, fixture)
}

async fn client(fixture: &mut GatewayFixture, kind: ClientKind, number: usize) -> TestClient {
    TestClient::with_capabilities(fixture, kind, number, json!({})).await
}

#[tokio::test]
async fn a_resource_is_read_once_for_each_principal_while_it_is_valid() {
    let (server, mut fixture) = fixture(60_000).await;
    let mut first = client(&mut fixture, ClientKind::ModernHttp, 0).await;
    let listed = first.request("resources/list", json!({})).await;
    let resources = listed.result()["resources"].as_array().expect("a list").clone();
    let uri = |index: usize| json!({"uri": resources[index]["uri"]});
    let content = first.request("resources/read", uri(0)).await.result().clone();
    assert_eq!(first.request("resources/read", uri(0)).await.result(), &content);
    assert_eq!(reads(&server), 1, "the second response is the first one");
    first.request("resources/read", uri(1)).await.result();
    assert_eq!(reads(&server), 2, "another resource");
    let mut same = client(&mut fixture, ClientKind::LegacyHttp, 0).await;
    same.request("resources/read", uri(0)).await.result();
    assert_eq!(reads(&server), 2, "the same principal in another era");
    let mut other = client(&mut fixture, ClientKind::ModernHttp, 1).await;
    assert_eq!(other.request("resources/read", uri(0)).await.result(), &content);
    assert_eq!(reads(&server), 3, "the response was for one principal");
    drop((first, same, other));
    fixture.stop().await;
}

#[tokio::test]
async fn without_a_time_to_live_every_request_reaches_the_server() {
    let (server, mut fixture) = fixture(0).await;
    let mut client = client(&mut fixture, ClientKind::ModernHttp, 0).await;
    let listed = client.request("resources/list", json!({})).await;
    let uri = json!({"uri": listed.result()["resources"][0]["uri"]});
    for _ in 0..2 {
        client.request("resources/read", uri.clone()).await.result();
    }
    assert_eq!(reads(&server), 2);
    drop(client);
    fixture.stop().await;
}
