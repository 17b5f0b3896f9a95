//! Log events: which ones a connection emits, and that they contain no arguments, environment or payloads.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::connect::{Address, ConnectOptions, connect};
use switchboard_wire::jsonrpc::payload::Payload;
use switchboard_wire::process::{DescendantSearch, ProcessOptions, Program};
use switchboard_wire::protocol::capabilities::ClientDescription;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the events of the wire crate as text.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string");
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("switchboard_wire")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = EventText(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A legacy server that rejects `server/discover` and echoes every other request.
const SCRIPT: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *server/discover*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"secret-message"}}\n' "$id";;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18"}}\n' "$id";;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"result":"secret-result"}\n' "$id";;
  esac
done # secret-argument"#;

#[tokio::test]
async fn a_connection_logs_its_lifecycle_and_no_secrets() {
    let collector = Collector::default();
    let _guard = tracing::subscriber::set_default(collector.clone());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = Program {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), SCRIPT.into()],
        env: vec![("PATH".into(), path), ("TOKEN".into(), "secret-variable".into())],
        cwd: None,
    };
    let options = ConnectOptions {
        client: ClientDescription {
            legacy_capabilities: None,
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
            capabilities: Vec::new(),
        },
        era_hint: EraHint::Unknown,
        timeout: Duration::from_secs(10),
        process_options: ProcessOptions::default(),
        http_client: None,
    };
    let connection = connect(&Address::Stdio(program), &options).await.expect("it connects");
    let params = Payload::from_json(r#"{"name":"secret-param"}"#.into());
    connection.client.request("tools/call").params(params).send().await.expect("a result");
    connection.close(DescendantSearch::Now).await;
    let events = collector.0.lock().expect("no panic").join("\n");
    for expected in [
        "INFO message=process started program=sh pid=",
        "TRACE message=request sent number=1 method=\"server/discover\"",
        "TRACE message=notification sent method=\"notifications/initialized\"",
        "INFO message=handshake completed era=\"legacy\" protocol_version=\"2025-06-18\"",
        "INFO message=connection opened transport=\"stdio\"",
        "TRACE message=request sent number=3 method=\"tools/call\"",
        "INFO message=connection closed reason=\"closed\"",
        "INFO message=process stopped program=sh status=exit status: 0 step=CloseStdin",
    ] {
        assert!(events.contains(expected), "{expected} is not in:\n{events}");
    }
    assert!(!events.contains("secret"), "{events}");
}
