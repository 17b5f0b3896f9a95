//! A session with the computer server in this process, whose user accepts what is asked.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard_computer::{ComputerSettings, Multiplexer, Presence};
use switchboard_wire::client::Client;
use switchboard_wire::client::handshake;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::transport::in_memory;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::screen::TIMEOUT;
use crate::failure::Failure;

const NAME: &str = "the computer server";
const POLL: Duration = Duration::from_millis(20);

/// A session with the server.
pub struct ComputerSession {
    client: Client,
    server: JoinHandle<()>,
}

impl ComputerSession {
    /// Starts the server for a display.
    pub async fn open(display: &str) -> Result<ComputerSession, Failure> {
        let settings = ComputerSettings {
            display: Ok(display.to_owned()),
            presence: Presence::Interactive,
            data_folders: Vec::new(),
            environment: Vec::new(),
            own_processes: Vec::new(),
            own_window: None,
            multiplexer: Multiplexer::Absent,
        };
        let (ours, theirs) = in_memory::pair();
        let server = tokio::spawn(switchboard_computer::serve(settings, theirs));
        let SpawnedPeer { peer, events, .. } = Peer::spawn(ours);
        tokio::spawn(accept(events));
        let offer = ClientDescription {
            legacy_capabilities: None,
            name: "bench".to_owned(),
            title: "Bench".to_owned(),
            version: "1".to_owned(),
            capabilities: vec![ClientCapability::Elicitation],
        };
        let client = handshake::negotiate(&peer, &offer, EraHint::Legacy).await;
        let client = client.map_err(|error| Failure::client(NAME, error))?;
        Ok(ComputerSession { client, server })
    }

    /// The text of a tool's result, or of its failure.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Json,
    ) -> Result<Result<String, String>, Failure> {
        let params = json!({"name": tool, "arguments": arguments}).to_string();
        let request = self.client.request("tools/call").params(Payload::from_json(params.into()));
        let sent = request.timeout(TIMEOUT).send().await;
        let result = sent.map_err(|error| Failure::client(NAME, error))?;
        let result: Json = result.decode().map_err(|error| Failure::client(NAME, error))?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        Ok(match result["isError"] == true {
            true => Err(text),
            false => Ok(text),
        })
    }

    /// The same of a tool that must succeed.
    pub async fn expect(&self, tool: &str, arguments: Json) -> Result<String, Failure> {
        self.call(tool, arguments).await?.map_err(|error| Failure::client(NAME, error))
    }

    /// How long a tool takes that must succeed.
    pub async fn time(&self, tool: &str, arguments: Json) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.expect(tool, arguments).await?;
        Ok(start.elapsed())
    }

    /// Gets access to an application as soon as it shows a window.
    pub async fn grant(&self, application: &str) -> Result<(), Failure> {
        let arguments = json!({"applications": [application], "reason": "a measurement"});
        let start = Instant::now();
        loop {
            match self.call("request_access", arguments.clone()).await? {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > TIMEOUT => {
                    return Err(Failure::client(NAME, error));
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Gives the focus to the newest window of an application that is granted, as soon as it is there. Windows that
    /// existed `before` do not count.
    pub async fn focus(&self, application: &str, before: &[u32]) -> Result<u32, Failure> {
        let start = Instant::now();
        loop {
            let windows = self.windows(application).await?;
            if let Some(window) = windows.into_iter().find(|it| !before.contains(it))
                && self.call("focus_window", json!({"window": window})).await?.is_ok()
            {
                return Ok(window);
            }
            if start.elapsed() > TIMEOUT {
                return Err(Failure::client(NAME, format!("{application} got no focus")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The windows of an application.
    pub async fn windows(&self, application: &str) -> Result<Vec<u32>, Failure> {
        let text = self.expect("list_windows", json!({})).await?;
        let window = |line: &str| {
            let (number, rest) = line.split_once(' ')?;
            rest.starts_with(application).then(|| number.parse().ok())?
        };
        Ok(text.lines().filter_map(window).collect())
    }

    /// Ends the session, and waits until the server has cleaned up.
    pub async fn close(self) -> Result<(), Failure> {
        self.client.close();
        self.server.await.map_err(|error| Failure::client(NAME, error))
    }
}

/// Accepts what the server asks the user.
async fn accept(mut events: mpsc::Receiver<PeerEvent>) {
    while let Some(event) = events.recv().await {
        if let PeerEvent::Request(request) = event {
            let answer = json!({"action": "accept", "content": {}}).to_string();
            request.respond(Payload::from_json(answer.into())).await;
        }
    }
}
