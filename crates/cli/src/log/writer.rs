//! A thread that writes log lines. The program never waits for it: lines that come faster than they can be written are
//! dropped, and the log says how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::log::file::LogFile;

/// How many lines may wait to be written.
const QUEUE_CAPACITY: usize = 8192;
/// How often a flush looks for room in a full queue.
const FLUSH_POLL: Duration = Duration::from_millis(5);

/// Where lines are written.
pub(super) enum LogSink {
    Stderr,
    File(Box<LogFile>),
}

impl LogSink {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            LogSink::Stderr => io::stderr().lock().write_all(line),
            LogSink::File(file) => file.write_line(line),
        }
    }
}

enum LogCommand {
    Line(String),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// Sends lines to the writer's thread.
#[derive(Debug, Clone)]
pub(super) struct LineSender {
    commands: SyncSender<LogCommand>,
    dropped: Arc<AtomicU64>,
}

impl LineSender {
    /// Queues a line without waiting.
    pub(super) fn send(&self, line: String) {
        if self.commands.try_send(LogCommand::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The writer's thread. It ends when the last sender is dropped.
#[derive(Debug)]
pub(super) struct LineWriter(LineSender);

impl LineWriter {
    /// Starts the thread.
    pub(super) fn start(sink: LogSink) -> io::Result<LineWriter> {
        let (commands, receiver) = sync_channel(QUEUE_CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        let builder = thread::Builder::new().name("log".to_owned());
        builder.spawn(move || run(sink, &receiver, &counter))?;
        Ok(LineWriter(LineSender { commands, dropped }))
    }

    pub(super) fn sender(&self) -> LineSender {
        self.0.clone()
    }

    /// Waits until all lines so far are written, but no longer than `max_wait`: the reader may have stopped reading.
    pub(super) fn flush(&self, max_wait: Duration) {
        let deadline = Instant::now() + max_wait;
        let (done, flushed) = sync_channel(1);
        let mut command = LogCommand::Flush(done);
        loop {
            command = match self.0.commands.try_send(command) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(command)) if Instant::now() < deadline => command,
                Err(TrySendError::Full(_)) => return,
            };
            thread::sleep(FLUSH_POLL);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match flushed.recv_timeout(left) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

fn run(mut sink: LogSink, commands: &Receiver<LogCommand>, dropped: &AtomicU64) {
    for command in commands {
        let lost = dropped.swap(0, Ordering::Relaxed);
        let note = format!("[{lost} log lines dropped: they came faster than they were written]\n");
        if lost > 0 && sink.write(note.as_bytes()).is_err() {
            dropped.fetch_add(lost, Ordering::Relaxed);
        }
        match command {
            LogCommand::Line(line) => {
                if sink.write(line.as_bytes()).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            LogCommand::Flush(done) => {
                let _caller_gone = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_order_and_dropped_ones_are_counted() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("a.log");
        let sink = LogSink::File(Box::new(LogFile::open(&path).expect("a file")));
        let writer = LineWriter::start(sink).expect("a thread");
        let sender = writer.sender();
        sender.send("one\n".to_owned());
        writer.flush(Duration::from_secs(20));
        sender.dropped.fetch_add(3, Ordering::Relaxed);
        sender.send("two\n".to_owned());
        writer.flush(Duration::from_secs(20));
        let text = std::fs::read_to_string(path).expect("the log");
        let note = "[3 log lines dropped: they came faster than they were written]";
        assert_eq!(text, format!("one\n{note}\ntwo\n"));
    }

    #[test]
    fn a_queue_that_is_never_read_delays_neither_senders_nor_the_end() {
        let (commands, _never_read) = sync_channel(1);
        let sender = LineSender { commands, dropped: Arc::default() };
        for _ in 0..3 {
            sender.send("line\n".to_owned());
        }
        assert_eq!(sender.dropped.load(Ordering::Relaxed), 2);
        LineWriter(sender).flush(Duration::from_millis(20));
    }
}
