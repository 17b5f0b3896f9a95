//! The output of a command in a file, up to a limit. Output beyond is counted and dropped, so that the disk
//! does not fill and the command never blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum size of the file, in bytes.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// The output of a command.
#[derive(Debug)]
pub(crate) struct OutputLog {
    path: PathBuf,
    file: File,
    kept_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    /// How many bytes of the output are missing in the text.
    pub(crate) omitted_bytes: u64,
}

impl OutputLog {
    pub(crate) fn new(path: PathBuf) -> io::Result<OutputLog> {
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(OutputLog { path, file, kept_bytes: AtomicU64::new(0), total_bytes: AtomicU64::new(0) })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the output so far, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Appends output. The write goes to the page cache and does not wait for the disk.
    pub(crate) fn append(&self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        let room = usize::try_from(MAX_KEPT_BYTES.saturating_sub(kept_bytes)).unwrap_or(usize::MAX);
        let stored = &bytes[..bytes.len().min(room)];
        if !stored.is_empty() && self.file.write_all_at(stored, kept_bytes).is_ok() {
            self.kept_bytes.fetch_add(u64::try_from(stored.len()).unwrap_or(0), Ordering::Relaxed);
        }
        self.total_bytes.fetch_add(length, Ordering::Relaxed);
    }

    /// The beginning and the end, together at most this many bytes.
    pub(crate) fn head_and_tail(&self, max_bytes: u64) -> Excerpt {
        let (kept_bytes, total) = (self.kept_bytes.load(Ordering::Relaxed), self.total_bytes());
        if kept_bytes <= max_bytes {
            return Excerpt {
                text: lossy(&self.bytes(0, kept_bytes)),
                omitted_bytes: total - kept_bytes,
            };
        }
        let head = max_bytes / 4;
        let tail = max_bytes - head;
        let omitted_bytes = total - head - tail;
        let mut text = lossy(&self.bytes(0, head));
        text.push_str(&format!("\n… {omitted_bytes} bytes are left out here …\n"));
        text.push_str(&lossy(&self.bytes(kept_bytes - tail, tail)));
        Excerpt { text, omitted_bytes }
    }

    /// The output from `start`, at most this many bytes, and where the next part starts. Does not split a
    /// character, unless there is nothing else.
    pub(crate) fn read_from(&self, start: u64, max_bytes: u64) -> (Excerpt, u64) {
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        let mut bytes = self.bytes(start, max_bytes.min(kept_bytes.saturating_sub(start)));
        let whole = complete_utf8_prefix(&bytes);
        if whole > 0 {
            bytes.truncate(whole);
        }
        let next = start + u64::try_from(bytes.len()).unwrap_or(0);
        (Excerpt { text: lossy(&bytes), omitted_bytes: kept_bytes.saturating_sub(next) }, next)
    }

    fn bytes(&self, start: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = start + u64::try_from(filled).unwrap_or(0);
            match self.file.read_at(&mut bytes[filled..], at) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        bytes.truncate(filled);
        bytes
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The length without a character that is cut off at the end.
fn complete_utf8_prefix(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rposition(|byte| byte & 0xc0 != 0x80);
    let Some(at) = lead else { return bytes.len() };
    let length = match bytes[at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if at + length > bytes.len() { at } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_log(parts: &[&[u8]]) -> (tempfile::TempDir, OutputLog) {
        let folder = tempfile::tempdir().unwrap();
        let log = OutputLog::new(folder.path().join("it")).unwrap();
        parts.iter().for_each(|part| log.append(part));
        (folder, log)
    }

    #[test]
    fn head_and_tail_are_shown_and_the_rest_is_on_disk() {
        let text = format!("begin{}end", "x".repeat(1000));
        let (_folder, log) = output_log(&[text.as_bytes()]);
        let excerpt = log.head_and_tail(100);
        assert!(excerpt.text.starts_with("begin") && excerpt.text.ends_with("end"));
        assert_eq!(excerpt.omitted_bytes, 908);
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), text);
        assert_eq!(log.head_and_tail(5000), Excerpt { text, omitted_bytes: 0 });
    }

    #[test]
    fn output_beyond_the_limit_is_counted_and_dropped() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let (_folder, log) = output_log(&[megabyte.as_slice(); 70]);
        assert_eq!(log.total_bytes(), 70 * 1024 * 1024);
        assert_eq!(std::fs::metadata(log.path()).unwrap().len(), MAX_KEPT_BYTES);
    }

    #[test]
    fn parts_are_contiguous_and_split_no_character() {
        let text = "añb€c😀d".repeat(3);
        let (_folder, log) = output_log(&[text.as_bytes()]);
        let (mut seen, mut at) = (String::new(), 0);
        loop {
            let (part, next) = log.read_from(at, 5);
            if next == at {
                break;
            }
            seen.push_str(&part.text);
            at = next;
        }
        assert_eq!(seen, text);
    }
}
