//! The baseline server: bytes over a pipe or TCP, without any protocol.

use std::io::{self, Read, Write};
use std::net::TcpListener;

/// The size of a message of the client.
pub const MESSAGE_BYTES: usize = 100;
/// The digits at the start of a message that say how many bytes to answer with.
pub const SIZE_DIGITS: usize = 10;

/// Answers each message with as many bytes as its first digits say, until the client closes.
pub fn serve_bytes(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let mut out = Vec::new();
    loop {
        let count = reader.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let whole = filled / MESSAGE_BYTES * MESSAGE_BYTES;
        out.clear();
        for message in buffer[..whole].chunks(MESSAGE_BYTES) {
            let digits = std::str::from_utf8(&message[..SIZE_DIGITS]).unwrap_or_default();
            out.resize(out.len() + digits.parse::<usize>().unwrap_or(0), b'x');
            // Sent in parts, so that large responses do not accumulate.
            if out.len() >= 1 << 20 {
                writer.write_all(&out)?;
                out.clear();
            }
        }
        writer.write_all(&out)?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Runs [`serve_bytes`] for one client after the other; prints its address first.
pub fn serve_tcp() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    for stream in listener.incoming() {
        let mut reader = stream?;
        reader.set_nodelay(true)?;
        let mut writer = reader.try_clone()?;
        // A client that disconnects early does not affect the next one.
        let _gone = serve_bytes(&mut reader, &mut writer);
    }
    Ok(())
}
