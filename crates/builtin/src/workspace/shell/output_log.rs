//! All that a command says, in a file, up to a limit. What is said beyond is counted and thrown away, so that nobody's
//! disk is filled and no command waits for a reader.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most that is kept of one command's output, in bytes.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// A command's output.
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
    /// How many bytes of the output are not in it.
    pub(crate) omitted_bytes: u64,
}

impl OutputLog {
    pub(crate) fn new(path: PathBuf) -> io::Result<OutputLog> {
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(OutputLog { path, file, kept_bytes: AtomicU64::new(0), total_bytes: AtomicU64::new(0) })
    }

    /// The file that it is kept in.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How much was said so far, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Adds what was said. A few pages into the system's cache: nobody waits for a disk here.
    pub(crate) fn append(&self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        let room = usize::try_from(MAX_KEPT_BYTES.saturating_sub(kept_bytes)).unwrap_or(usize::MAX);
        let taken = &bytes[..bytes.len().min(room)];
        if !taken.is_empty() && self.file.write_all_at(taken, kept_bytes).is_ok() {
            self.kept_bytes.fetch_add(u64::try_from(taken.len()).unwrap_or(0), Ordering::Relaxed);
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

    /// What comes after so many bytes, at most so much, and where the next part begins. Never half a character,
    /// unless that is all there is.
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

/// How many bytes there are up to a character that is cut off at the end.
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
        let transcript = OutputLog::new(folder.path().join("it")).unwrap();
        parts.iter().for_each(|part| transcript.append(part));
        (folder, transcript)
    }

    #[test]
    fn beginning_and_end_are_shown_and_the_rest_is_on_disk() {
        let text = format!("begin{}end", "x".repeat(1000));
        let (_folder, transcript) = output_log(&[text.as_bytes()]);
        let excerpt = transcript.head_and_tail(100);
        assert!(excerpt.text.starts_with("begin") && excerpt.text.ends_with("end"));
        assert_eq!(excerpt.omitted_bytes, 908);
        assert_eq!(std::fs::read_to_string(transcript.path()).unwrap(), text);
        assert_eq!(transcript.head_and_tail(5000), Excerpt { text, omitted_bytes: 0 });
    }

    #[test]
    fn what_is_too_much_is_counted_and_not_kept() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let (_folder, transcript) = output_log(&[megabyte.as_slice(); 70]);
        assert_eq!(transcript.total_bytes(), 70 * 1024 * 1024);
        assert_eq!(std::fs::metadata(transcript.path()).unwrap().len(), MAX_KEPT_BYTES);
    }

    #[test]
    fn parts_follow_each_other_and_cut_no_character() {
        let text = "añb€c😀d".repeat(3);
        let (_folder, transcript) = output_log(&[text.as_bytes()]);
        let (mut seen, mut at) = (String::new(), 0);
        loop {
            let (part, next) = transcript.read_from(at, 5);
            if next == at {
                break;
            }
            seen.push_str(&part.text);
            at = next;
        }
        assert_eq!(seen, text);
    }
}
