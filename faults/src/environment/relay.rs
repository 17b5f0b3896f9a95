//! The remote end of the link, as a program: accepts connections over the link and forwards them to servers on its own
//! loopback, fast or slowly. It reads orders from standard input; its network namespace is the remote network.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The argument that runs this program as the relay.
pub const SUBCOMMAND: &str = "__relay";
/// The slow link: the delay of each chunk, and its size.
const SLOW_DELAY: Duration = Duration::from_millis(150);
const SLOW_CHUNK_BYTES: usize = 2048;

/// The port to forward to, by name. `slow` applies to all of them.
#[derive(Debug, Default)]
struct RelayState {
    ports: HashMap<String, u16>,
    is_slow: bool,
}

/// Runs until standard input ends. Orders are `open NAME` (prints a port), `to NAME PORT`, `slow` and `fast`.
pub fn run() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let state = Arc::new(Mutex::new(RelayState::default()));
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["open", name] => {
                let state = state.clone();
                match runtime.block_on(TcpListener::bind(("0.0.0.0", 0))) {
                    Ok(listener) => {
                        let port = listener.local_addr().map_or(0, |it| it.port());
                        runtime.spawn(accept(listener, name.to_owned(), state));
                        println!("{port}");
                    }
                    Err(error) => println!("{error}"),
                }
            }
            ["to", name, port] => {
                let port = port.parse().unwrap_or(0);
                lock(&state).ports.insert(name.to_owned(), port);
                println!("done");
            }
            ["slow"] | ["fast"] => {
                lock(&state).is_slow = words[0] == "slow";
                println!("done");
            }
            _ => println!("unknown order `{line}`"),
        }
    }
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

fn lock(state: &Mutex<RelayState>) -> std::sync::MutexGuard<'_, RelayState> {
    state.lock().expect("no thread panics while it holds the lock")
}

async fn accept(listener: TcpListener, name: String, state: Arc<Mutex<RelayState>>) {
    while let Ok((outer, _)) = listener.accept().await {
        let port = lock(&state).ports.get(&name).copied().unwrap_or(0);
        let state = state.clone();
        tokio::spawn(async move {
            // Without a server on the port, the connection is closed.
            let Ok(inner) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let _only_slower = (outer.set_nodelay(true), inner.set_nodelay(true));
            let ((outer_read, outer_write), (inner_read, inner_write)) =
                (outer.into_split(), inner.into_split());
            tokio::select! {
                () = forward(outer_read, inner_write, &state) => {}
                () = forward(inner_read, outer_write, &state) => {}
            }
        });
    }
}

async fn forward(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    state: &Mutex<RelayState>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let chunk_size = if lock(state).is_slow { SLOW_CHUNK_BYTES } else { bytes.len() };
        let Ok(count @ 1..) = from.read(&mut bytes[..chunk_size]).await else { return };
        if lock(state).is_slow {
            sleep(SLOW_DELAY).await;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
