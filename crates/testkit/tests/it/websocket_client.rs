//! A WebSocket client on plain frames.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::client::{Client, TIMEOUT};

const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;

pub struct WebSocketClient {
    stream: BufReader<TcpStream>,
}

impl WebSocketClient {
    /// Connects with the subprotocol `mcp`.
    pub fn open(url: &str) -> WebSocketClient {
        let (status, socket) =
            WebSocketClient::handshake(url, "sec-websocket-protocol: other, mcp\r\n");
        assert_eq!(status, "HTTP/1.1 101 Switching Protocols");
        socket
    }

    /// Performs the handshake and returns the server's response.
    pub fn handshake(url: &str, header: &str) -> (String, WebSocketClient) {
        let host = url.strip_prefix("ws://").and_then(|it| it.strip_suffix("/mcp"));
        let host = host.expect("that is the address");
        let mut stream = TcpStream::connect(host).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        let request = format!(
            "GET /mcp HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{header}\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("the server responds");
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let is_open = head[0].contains("101");
        assert!(!is_open || head.contains(&"sec-websocket-protocol: mcp".to_owned()), "{head:?}");
        (head.swap_remove(0), WebSocketClient { stream })
    }

    /// The next frame's opcode and payload.
    pub fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes)?;
                usize::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.stream.read_exact(&mut bytes)?;
                usize::try_from(u64::from_be_bytes(bytes)).map_err(io::Error::other)?
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok((head[0] & 0x0f, payload))
    }
}

impl Client for WebSocketClient {
    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        // Clients must mask their frames; a mask of zeros changes nothing.
        let length = u16::try_from(text.len()).expect("tests send little").to_be_bytes();
        let head = [0x80 | TEXT, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
        let frame = [&head[..], text.as_bytes()].concat();
        self.stream.get_mut().write_all(&frame).expect("the server reads");
    }

    fn next(&mut self) -> Value {
        let (kind, payload) = self.frame().expect("the connection is open");
        assert_eq!(kind, TEXT);
        serde_json::from_slice(&payload).expect("it is JSON")
    }
}
