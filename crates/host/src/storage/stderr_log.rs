//! Stores the servers' stderr output on disk: a log of bounded size per server, written by one thread. Servers never
//! wait for the disk; output that comes faster than it can be written is dropped and counted in the log.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::sources::atomic_file;

/// The maximum size of a server's log, split over two rotating files.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// How many chunks of one server may wait.
const QUEUE_CAPACITY: usize = 256;
/// How many chunks of all servers may wait for the disk.
const DISK_QUEUE_CAPACITY: usize = 1024;

/// A handle to the stderr logs. Clones share the writer thread.
#[derive(Debug, Clone)]
pub struct StderrLog {
    folder: PathBuf,
    to_disk: blocking::SyncSender<StderrLogCommand>,
}

#[derive(Debug)]
enum StderrLogCommand {
    Append {
        server: String,
        bytes: Bytes,
    },
    /// Answered when everything before it is on disk.
    Flush(tokio::sync::oneshot::Sender<()>),
}

impl StderrLog {
    /// Stores logs in a folder, which is created with the first write.
    pub fn open(folder: &Path) -> io::Result<StderrLog> {
        let (to_disk, commands) = blocking::sync_channel(DISK_QUEUE_CAPACITY);
        let writer = Writer { folder: folder.to_owned(), max_bytes: MAX_LOG_BYTES, open: None };
        // The thread ends when the last handle is dropped; `flush` waits for pending writes.
        thread::Builder::new().name("stderr-log".to_owned()).spawn(move || writer.run(commands))?;
        Ok(StderrLog { folder: folder.to_owned(), to_disk })
    }

    /// A channel for a server's output, and the task that forwards it to the writer. The task ends when the last
    /// sender is dropped.
    pub fn sender(&self, server: &str) -> (mpsc::Sender<Bytes>, tokio::task::JoinHandle<()>) {
        let (sender, mut output) = mpsc::channel::<Bytes>(QUEUE_CAPACITY);
        let (to_disk, server) = (self.to_disk.clone(), server.to_owned());
        let forwarder = tokio::spawn(async move {
            let mut dropped_bytes = 0;
            while let Some(bytes) = output.recv().await {
                if dropped_bytes > 0 {
                    let note = format!(
                        "\n[{dropped_bytes} bytes dropped: they came faster than the disk could write]\n"
                    );
                    let command = StderrLogCommand::Append {
                        server: server.clone(),
                        bytes: Bytes::from(note),
                    };
                    if to_disk.try_send(command).is_err() {
                        dropped_bytes += bytes.len();
                        continue;
                    }
                    dropped_bytes = 0;
                }
                let size = bytes.len();
                if to_disk
                    .try_send(StderrLogCommand::Append { server: server.clone(), bytes })
                    .is_err()
                {
                    dropped_bytes += size;
                }
            }
        });
        (sender, forwarder)
    }

    /// Writes a line of the host itself to a server's log.
    pub fn note(&self, server: &str, text: &str) {
        let line = Bytes::from(format!("[{}] {text}\n", utc_timestamp(SystemTime::now())));
        let _disk_is_slow = self
            .to_disk
            .try_send(StderrLogCommand::Append { server: server.to_owned(), bytes: line });
    }

    /// Waits until all output so far is on disk.
    pub async fn flush(&self) {
        let (done, flushed) = tokio::sync::oneshot::channel();
        let to_disk = self.to_disk.clone();
        let sent = tokio::task::spawn_blocking(move || {
            to_disk.send(StderrLogCommand::Flush(done)).is_ok()
        });
        if sent.await.unwrap_or(false) {
            let _writer_gone = flushed.await;
        }
    }

    /// The files of a server's log, older first. They may not exist.
    pub fn files(&self, server: &str) -> [PathBuf; 2] {
        files(&self.folder, server)
    }

    /// The files of a server's log in a folder of logs, older first. They may not exist.
    pub fn files_in(folder: &Path, server: &str) -> [PathBuf; 2] {
        files(folder, server)
    }
}

/// The files of a server's log in a folder, older first. They may not exist.
fn files(folder: &Path, server: &str) -> [PathBuf; 2] {
    // Plugin server names contain colons. Replacing special characters also keeps the path inside the folder.
    let sanitize =
        |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '+' };
    let name: String = server.chars().map(sanitize).collect();
    [folder.join(format!("{name}.older.log")), folder.join(format!("{name}.log"))]
}

struct Writer {
    folder: PathBuf,
    max_bytes: u64,
    /// The server, file and size of the last write: consecutive writes are usually for the same server.
    open: Option<(String, File, u64)>,
}

impl Writer {
    fn run(mut self, commands: blocking::Receiver<StderrLogCommand>) {
        for command in commands {
            match command {
                StderrLogCommand::Append { server, bytes } => {
                    let _disk_is_full = self.write(&server, &bytes);
                }
                StderrLogCommand::Flush(done) => {
                    let _receiver_dropped = done.send(());
                }
            }
        }
    }

    fn write(&mut self, server: &str, bytes: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(name, _, _)| name != server) {
            self.open = Some(self.file(server)?);
        }
        let Some((_, file, size)) = &mut self.open else { return Ok(()) };
        file.write_all(bytes)?;
        *size += bytes.len() as u64;
        if *size >= self.max_bytes / 2 {
            self.open = None;
            let [older, newer] = files(&self.folder, server);
            fs::rename(newer, older)?;
        }
        Ok(())
    }

    fn file(&self, server: &str) -> io::Result<(String, File, u64)> {
        let [_, newer] = files(&self.folder, server);
        let file = atomic_file::open_append(&newer)?;
        let size = file.metadata()?.len();
        Ok((server.to_owned(), file, size))
    }
}

/// A time in UTC, formatted as in RFC 3339.
pub fn utc_timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let (year, month, day) = civil_date(days);
    // Every call is timestamped, and `format!` takes ten times as long.
    let mut text = String::with_capacity(24);
    for (number, min_place, separator) in [
        (year, 1000, '-'),
        (month, 10, '-'),
        (day, 10, 'T'),
        (hour, 10, ':'),
        (minute, 10, ':'),
        (second, 10, 'Z'),
    ] {
        push_digits(&mut text, number, min_place);
        text.push(separator);
    }
    text
}

/// Appends a number, padded with zeros to the digits of `min_place`, a power of ten.
fn push_digits(text: &mut String, number: u64, min_place: u64) {
    let mut place = min_place;
    while number / place >= 10 {
        place *= 10;
    }
    while place > 0 {
        let digit = u8::try_from(number / place % 10).unwrap_or(0);
        text.push(char::from(b'0' + digit));
        place /= 10;
    }
}

/// The date that is `days` after 1970-01-01. Years start in March, so that the leap day is their last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const TO_1970: u64 = 719_468;
    const FOUR_CENTURIES: u64 = 146_097;
    let (era, day) = ((days + TO_1970) / FOUR_CENTURIES, (days + TO_1970) % FOUR_CENTURIES);
    let year = (day - day / 1460 + day / 36_524 - day / (FOUR_CENTURIES - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Any five consecutive months from March on have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_follow_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_794_787_199, "2026-11-15T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn two_files_rotate_within_the_size_limit() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut writer = Writer { folder: folder.path().join("logs"), max_bytes: 1000, open: None };
        for number in 0..500 {
            writer.write("a", format!("line {number}\n").as_bytes()).expect("written");
            writer.write("b:c", b"x\n").expect("written");
        }
        let read = |server| {
            let texts =
                files(&writer.folder, server).map(|it| fs::read_to_string(it).unwrap_or_default());
            texts.concat()
        };
        let logged = read("a");
        assert!((500..=1020).contains(&logged.len()), "{}", logged.len());
        assert!(logged.ends_with("line 499\n"));
        assert!(writer.folder.join("b+c.older.log").exists());
    }

    #[tokio::test]
    async fn output_is_on_disk_after_a_flush() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let log = StderrLog::open(folder.path()).expect("a thread can be started");
        let (sender, forwarder) = log.sender("s");
        sender.send(Bytes::from_static(b"one\n")).await.expect("the forwarder receives");
        drop(sender);
        forwarder.await.expect("it ends");
        log.note("s", "started");
        log.flush().await;
        let [_, newer] = log.files("s");
        let text = fs::read_to_string(newer).expect("it is there");
        assert!(text.starts_with("one\n[2") && text.ends_with("] started\n"), "{text}");
    }
}
