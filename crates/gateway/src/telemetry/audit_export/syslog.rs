//! Sends audit records to a syslog service in the format of RFC 5424, over a datagram socket of this machine, UDP or TCP
//! (with the octet counting of RFC 6587). A connection of TCP does not confirm what it delivers: after it breaks, the last
//! batch is sent again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard::audit::log::{CallOutcome, FedRecord};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, UnixDatagram};

use super::{Delivery, DeliveryError, DeliveryFuture};

/// The facility `log audit`.
const FACILITY: u8 = 13;
/// The name of this program in messages.
const APP_NAME: &str = "switchboard";
/// The type of messages.
const MESSAGE_ID: &str = "tool-call";

/// A syslog service.
#[derive(Debug, Clone)]
pub struct SyslogTarget {
    transport: SyslogTransport,
    /// The name of this machine in messages.
    host_name: String,
}

#[derive(Debug, Clone)]
enum SyslogTransport {
    Unix(PathBuf),
    /// `host:port`.
    Udp(String),
    Tcp(String),
}

impl SyslogTarget {
    /// A datagram socket of this machine.
    pub fn unix(path: &str, host_name: &str) -> SyslogTarget {
        SyslogTarget::new(SyslogTransport::Unix(PathBuf::from(path)), host_name)
    }

    /// `host:port` over UDP.
    pub fn udp(place: &str, host_name: &str) -> SyslogTarget {
        SyslogTarget::new(SyslogTransport::Udp(place.to_owned()), host_name)
    }

    /// `host:port` over TCP.
    pub fn tcp(place: &str, host_name: &str) -> SyslogTarget {
        SyslogTarget::new(SyslogTransport::Tcp(place.to_owned()), host_name)
    }

    fn new(transport: SyslogTransport, host_name: &str) -> SyslogTarget {
        let is_printable = |it: &char| it.is_ascii_graphic();
        let host_name: String = host_name.chars().filter(is_printable).take(255).collect();
        let host_name = if host_name.is_empty() { "-".to_owned() } else { host_name };
        SyslogTarget { transport, host_name }
    }

    pub(super) fn delivery(self) -> SyslogDelivery {
        SyslogDelivery { target: self, connection: None }
    }

    /// A record as a message.
    fn message(&self, fed: &FedRecord) -> String {
        let priority = FACILITY * 8 + severity(&fed.record.outcome);
        let (time, host, process) = (&fed.record.time, &self.host_name, std::process::id());
        // The mark says that the text is UTF-8.
        let line = &fed.line;
        format!("<{priority}>1 {time} {host} {APP_NAME} {process} {MESSAGE_ID} - \u{feff}{line}")
    }
}

/// The severity of an outcome: informational, notice or warning.
fn severity(outcome: &str) -> u8 {
    match outcome {
        it if it == CallOutcome::Denied.id() || it == CallOutcome::Cancelled.id() => 5,
        it if it == CallOutcome::Failed.id() || it == CallOutcome::Timeout.id() => 4,
        _ => 6,
    }
}

/// A syslog service, and the connection to it.
#[derive(Debug)]
pub(super) struct SyslogDelivery {
    target: SyslogTarget,
    connection: Option<SyslogConnection>,
}

#[derive(Debug)]
enum SyslogConnection {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl SyslogDelivery {
    async fn connect(&self) -> io::Result<SyslogConnection> {
        match &self.target.transport {
            SyslogTransport::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(SyslogConnection::Unix(socket))
            }
            SyslogTransport::Udp(place) => {
                let mut last = io::ErrorKind::NotFound.into();
                for address in tokio::net::lookup_host(place).await? {
                    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    let socket = UdpSocket::bind(any).await?;
                    match socket.connect(address).await {
                        Ok(()) => return Ok(SyslogConnection::Udp(socket)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            SyslogTransport::Tcp(place) => {
                Ok(SyslogConnection::Tcp(TcpStream::connect(place).await?))
            }
        }
    }

    async fn send(&mut self, batch: &[Arc<FedRecord>]) -> io::Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        match &mut connection {
            SyslogConnection::Unix(socket) => {
                for fed in batch {
                    socket.send(self.target.message(fed).as_bytes()).await?;
                }
            }
            SyslogConnection::Udp(socket) => {
                for fed in batch {
                    socket.send(self.target.message(fed).as_bytes()).await?;
                }
            }
            SyslogConnection::Tcp(stream) => {
                check_open(stream)?;
                let mut text = String::new();
                for fed in batch {
                    let message = self.target.message(fed);
                    text.push_str(&format!("{} {message}", message.len()));
                }
                stream.write_all(text.as_bytes()).await?;
                stream.flush().await?;
            }
        }
        self.connection = Some(connection);
        Ok(())
    }
}

/// Fails if the service has closed the connection: what is written then is lost.
fn check_open(stream: &TcpStream) -> io::Result<()> {
    let mut unread = [0; 512];
    loop {
        match stream.try_read(&mut unread) {
            Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
            // A service has nothing to say.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

impl Delivery for SyslogDelivery {
    fn deliver<'a>(&'a mut self, batch: &'a [Arc<FedRecord>]) -> DeliveryFuture<'a> {
        Box::pin(async move { self.send(batch).await.map_err(DeliveryError::later) })
    }
}

#[cfg(test)]
mod tests {
    use switchboard::audit::log::{AuditLog, AuditRecord};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Records with these outcomes, as a feed has them.
    async fn records(outcomes: &[&str]) -> Vec<Arc<FedRecord>> {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        let mut feed = audit.feed(10).await;
        for outcome in outcomes {
            let mut record = AuditRecord::begin("ada", "t");
            record.time = "2026-01-02T03:04:05Z".to_owned();
            record.outcome = (*outcome).to_owned();
            audit.record(record);
        }
        audit.flush().await;
        std::iter::from_fn(|| feed.try_next()).collect()
    }

    #[track_caller]
    fn check_message(text: &str, priority: u8, fed: &FedRecord) {
        let process = std::process::id();
        let head = format!(
            "<{priority}>1 2026-01-02T03:04:05Z host switchboard {process} tool-call - \u{feff}"
        );
        assert_eq!(text.strip_prefix(&head), Some(fed.line.as_str()), "{text}");
    }

    #[tokio::test]
    async fn datagrams_have_one_record_each_with_the_severity_of_its_outcome() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("log");
        let unix = UnixDatagram::bind(&path).expect("a socket");
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let place = udp.local_addr().expect("an address").to_string();
        let batch = records(&["ok", "denied", "timeout"]).await;
        for target in [
            SyslogTarget::unix(path.to_str().expect("UTF-8"), "host"),
            SyslogTarget::udp(&place, "ho st"),
        ] {
            let is_unix = matches!(target.transport, SyslogTransport::Unix(_));
            target.delivery().deliver(&batch).await.expect("it is sent");
            for (fed, priority) in batch.iter().zip([110, 109, 108]) {
                let mut bytes = [0; 4096];
                let count = match is_unix {
                    true => unix.recv(&mut bytes).await.expect("a message"),
                    false => udp.recv(&mut bytes).await.expect("a message"),
                };
                check_message(std::str::from_utf8(&bytes[..count]).expect("UTF-8"), priority, fed);
            }
        }
    }

    #[tokio::test]
    async fn messages_over_tcp_are_counted_and_a_new_connection_follows_a_closed_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        let batch = records(&["ok", "ok"]).await;
        let mut delivery = SyslogTarget::tcp(&place, "host").delivery();
        for _ in 0..2 {
            delivery.deliver(&batch).await.expect("it is sent");
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for fed in &batch {
                let mut length = String::new();
                loop {
                    match stream.read_u8().await.expect("a digit") {
                        b' ' => break,
                        digit => length.push(char::from(digit)),
                    }
                }
                let mut message = vec![0; length.parse().expect("a number")];
                stream.read_exact(&mut message).await.expect("a message");
                check_message(std::str::from_utf8(&message).expect("UTF-8"), 110, fed);
            }
            drop(stream);
            // The end of the connection may still be under way.
            while delivery.deliver(&[]).await.is_ok() {
                tokio::task::yield_now().await;
            }
        }
    }
}
