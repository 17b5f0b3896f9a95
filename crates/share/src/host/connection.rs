//! One client of a shared host: reads its request, answers it, and carries its messages if it attached.

use std::io;
use std::time::Duration;

use switchboard_wire::jsonrpc::message::DEFAULT_MAX_MESSAGE_SIZE;
use switchboard_wire::transport::stdio::StdioTransport;
use switchboard_wire::transport::{Transport, TransportEvent};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::program::{ClientEvent, ClientLink, JoinOutcome};
use super::registry::{AttachDecision, HostEvent};
use crate::protocol::{
    AttachRequest, Build, MAX_LINE, PROTOCOL, Request, RequestLine, Response, ResponseLine,
};

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// While more bytes than this wait for a client, it gets no more messages. They wait in a bounded queue.
const HIGH_WATER: usize = 1024 * 1024;
/// How long the last messages for a client may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a client joins a program, which may end at the same moment.
const MAX_JOINS: usize = 3;

/// What connections need of the host.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    pub(super) build: Build,
    pub(super) events: mpsc::Sender<HostEvent>,
}

/// Serves one client until it leaves or its server ends.
pub(super) async fn serve(stream: UnixStream, context: ConnectionContext) {
    let (reader, writer) = stream.into_split();
    let mut connection = Connection { reader: BufReader::new(reader), writer, context };
    let Ok(Ok(line)) = timeout(REQUEST_TIMEOUT, connection.read_line()).await else { return };
    let response = match serde_json::from_str::<RequestLine>(&line) {
        Ok(RequestLine { protocol, build, request }) => {
            let is_newer = build.is_newer_than(&connection.context.build);
            match request.filter(|_| protocol == PROTOCOL) {
                Some(Request::Attach(_)) if is_newer => Response::Outdated,
                Some(Request::Attach(request)) => match connection.attach(*request).await {
                    Ok(link) => return connection.carry(link).await,
                    Err(response) => response,
                },
                Some(request) => connection.answer(request).await,
                // A client of any version may ask it to make room.
                None if line.contains("\"retire\"") => connection.answer(Request::Retire).await,
                None => Response::Outdated,
            }
        }
        Err(error) => Response::Invalid { reason: error.to_string() },
    };
    let _client_gone = connection.write(&response).await;
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    context: ConnectionContext,
}

impl Connection {
    async fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut self.reader).take(limit).read_line(&mut line).await?;
        match line.ends_with('\n') {
            true => Ok(line),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    async fn write(&mut self, response: &Response) -> io::Result<()> {
        let line = ResponseLine {
            protocol: PROTOCOL,
            build: self.context.build.clone(),
            response: response.clone(),
        };
        let mut line = serde_json::to_vec(&line).map_err(io::Error::other)?;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }

    /// Joins the program that the client wants. The client has its answer then.
    async fn attach(&mut self, request: AttachRequest) -> Result<ClientLink, Response> {
        // Not the server's fault, so it is shared the next time.
        let unavailable = || Response::Invalid { reason: "its program ended".to_owned() };
        for _ in 0..MAX_JOINS {
            let decision =
                self.ask(|reply| HostEvent::Attach { request: Box::new(request.clone()), reply });
            let (handle, joined) = match decision.await {
                Some(AttachDecision::Use(handle)) => {
                    let joined = handle.join(request.client.clone()).await;
                    (handle, joined)
                }
                Some(AttachDecision::Started(handle, joined)) => (handle, joined.await.ok()),
                Some(AttachDecision::NotShareable(reason)) => {
                    return Err(Response::NotShareable { reason });
                }
                Some(AttachDecision::Outdated) | None => return Err(Response::Outdated),
            };
            match joined {
                Some(JoinOutcome::Joined { pid, era, link }) => {
                    let era = era.map(|it| it.as_str().to_owned());
                    let response = Response::Attached { program: handle.number, pid, era };
                    if self.write(&response).await.is_err() {
                        let _program_ended =
                            link.incoming.send((link.session, ClientEvent::Left)).await;
                        return Err(unavailable());
                    }
                    return Ok(link);
                }
                Some(JoinOutcome::NotStarted { errno }) => {
                    return Err(Response::NotStarted { errno });
                }
                Some(JoinOutcome::NotShareable(reason)) => {
                    return Err(Response::NotShareable { reason: reason.to_owned() });
                }
                // It ended in the meantime.
                None => {}
            }
        }
        Err(unavailable())
    }

    async fn answer(&mut self, request: Request) -> Response {
        match request {
            Request::Attach(_) => Response::Outdated,
            Request::Exit { program } => {
                let exit = self.ask(|reply| HostEvent::Exit { program, reply }).await;
                Response::Exit(exit.flatten())
            }
            Request::Status => match self.ask(|reply| HostEvent::Status { reply }).await {
                Some(status) => Response::Status(Box::new(status)),
                None => Response::Outdated,
            },
            Request::Retire => self.order(HostEvent::Retire).await,
            Request::Stop => self.order(HostEvent::Stop).await,
        }
    }

    async fn order(&self, event: HostEvent) -> Response {
        let _host_ended = self.context.events.send(event).await;
        Response::Done
    }

    /// Asks the registry; `None` if the host ends.
    async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> HostEvent) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.context.events.send(event(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Carries messages until the client leaves or its server ends.
    async fn carry(self, link: ClientLink) {
        let ClientLink { session, mut outgoing, incoming } = link;
        let mut transport = StdioTransport::new(self.reader, self.writer, DEFAULT_MAX_MESSAGE_SIZE);
        loop {
            let has_room = transport.queued_bytes() < HIGH_WATER;
            tokio::select! {
                message = outgoing.recv(), if has_room => match message {
                    Some(message) => {
                        transport.push(message.into());
                        while transport.queued_bytes() < HIGH_WATER
                            && let Ok(message) = outgoing.try_recv()
                        {
                            transport.push(message.into());
                        }
                    }
                    // The server has ended.
                    None => {
                        let _slow = timeout(CLOSE_TIMEOUT, transport.shutdown()).await;
                        return;
                    }
                },
                arrival = transport.next() => match arrival {
                    Ok(TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. }) => {
                        if incoming.send((session, ClientEvent::Message(message))).await.is_err() {
                            return;
                        }
                    }
                    Ok(TransportEvent::Malformed(_) | TransportEvent::DeliveryFailed { .. }) => {}
                    Err(_) => break,
                },
            }
        }
        let _server_ended = incoming.send((session, ClientEvent::Left)).await;
    }
}
