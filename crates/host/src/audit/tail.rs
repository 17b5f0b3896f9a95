//! Reads the newest records of the audit log, and later those that were added, also by other processes.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::audit::files::{rotated_files, rotated_path};
use crate::audit::record::AuditRecord;

/// A reader of the end of the log.
#[derive(Debug)]
pub struct AuditTail {
    path: PathBuf,
    /// How much of the log the first read covers, in bytes.
    max_bytes: u64,
    position: Option<Position>,
    /// Whether records before the first read were left out.
    is_partial: bool,
}

/// The end of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    file: FileId,
    offset: u64,
}

/// Identifies a file across renames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt;
        FileId(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> FileId {
        let created = metadata.created().ok();
        let since = created.and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
        FileId(0, since.map_or(0, |it| it.as_nanos() as u64))
    }
}

impl AuditTail {
    /// A reader whose first read covers the newest `max_bytes` of the log.
    pub fn new(path: &Path, max_bytes: u64) -> AuditTail {
        AuditTail { path: path.to_owned(), max_bytes, position: None, is_partial: false }
    }

    /// Whether the log has older records than the first read covered.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The records since the last read, oldest first. A call whose start is recorded apart has two. Skips invalid lines
    /// and leaves an incomplete last line for the next read. Blocks.
    pub fn read_new(&mut self) -> io::Result<Vec<AuditRecord>> {
        let mut records = Vec::new();
        match self.position {
            None => self.read_first(&mut records)?,
            Some(position) => self.read_further(position, &mut records)?,
        }
        Ok(records)
    }

    /// Reads the newest files, as far as they fit.
    fn read_first(&mut self, records: &mut Vec<AuditRecord>) -> io::Result<()> {
        let mut files: Vec<PathBuf> =
            rotated_files(&self.path)?.into_iter().map(|(_, path)| path).collect();
        files.push(self.path.clone());
        let mut room = self.max_bytes;
        let mut chosen = Vec::new();
        for file in files.into_iter().rev() {
            let Some((opened, metadata)) = open(&file)? else { continue };
            if room == 0 {
                self.is_partial = true;
                break;
            }
            let skipped = metadata.len().saturating_sub(room);
            self.is_partial = skipped > 0;
            room = room.saturating_sub(metadata.len());
            chosen.push((opened, metadata, skipped));
            if skipped > 0 {
                break;
            }
        }
        for (file, metadata, skipped) in chosen.into_iter().rev() {
            // The first line is torn unless the file is read from its start.
            let start = if skipped > 0 { FirstLine::Torn } else { FirstLine::Whole };
            let end = read_from(file, skipped, start, records)?;
            self.position = Some(Position { file: FileId::of(&metadata), offset: end });
        }
        Ok(())
    }

    fn read_further(
        &mut self,
        position: Position,
        records: &mut Vec<AuditRecord>,
    ) -> io::Result<()> {
        let Some((file, metadata)) = open(&self.path)? else { return Ok(()) };
        if FileId::of(&metadata) == position.file && metadata.len() >= position.offset {
            let end = read_from(file, position.offset, FirstLine::Whole, records)?;
            self.position = Some(Position { offset: end, ..position });
            return Ok(());
        }
        // The file was rotated: its rest comes first.
        if let Some((rotated, old)) = open(&rotated_path(&self.path, 1))?
            && FileId::of(&old) == position.file
        {
            read_from(rotated, position.offset, FirstLine::Whole, records)?;
        }
        let end = read_from(file, 0, FirstLine::Whole, records)?;
        self.position = Some(Position { file: FileId::of(&metadata), offset: end });
        Ok(())
    }
}

/// Whether a read starts at the start of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstLine {
    Whole,
    Torn,
}

fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    match File::open(path) {
        Ok(file) => {
            let metadata = file.metadata()?;
            Ok(Some((file, metadata)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads complete lines from an offset on, and returns the offset after the last one.
fn read_from(
    mut file: File,
    offset: u64,
    first_line: FirstLine,
    records: &mut Vec<AuditRecord>,
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(offset) };
    let lines = bytes[..end].split(|byte| *byte == b'\n');
    let skipped = usize::from(first_line == FirstLine::Torn);
    records.extend(lines.skip(skipped).filter_map(|line| serde_json::from_slice(line).ok()));
    Ok(offset + end as u64 + 1)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::audit::record::to_json_line;

    fn append(path: &Path, tools: std::ops::Range<u32>) {
        let mut file = File::options().create(true).append(true).open(path).expect("it opens");
        for tool in tools {
            let record =
                AuditRecord { tool: tool.to_string(), ..AuditRecord::begin("cli", "mcp__s__t") };
            file.write_all(&to_json_line(&record)).expect("it is written");
        }
    }

    #[track_caller]
    fn check(tail: &mut AuditTail, expected: std::ops::Range<u32>) {
        let records = tail.read_new().expect("it can be read");
        let tools: Vec<u32> = records.iter().map(|it| it.tool.parse().expect("a number")).collect();
        assert_eq!(tools, expected.collect::<Vec<_>>());
    }

    #[test]
    fn records_are_read_once_and_those_of_a_rotated_file_are_not_lost() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        let mut tail = AuditTail::new(&path, 1 << 20);
        check(&mut tail, 0..0);
        append(&path, 0..3);
        check(&mut tail, 0..3);
        check(&mut tail, 3..3);
        append(&path, 3..5);
        fs::rename(&path, rotated_path(&path, 1)).expect("it is rotated");
        append(&path, 5..6);
        check(&mut tail, 3..6);
        append(&path, 6..7);
        check(&mut tail, 6..7);
        assert!(!tail.is_partial());
    }

    #[test]
    fn the_first_read_covers_the_newest_bytes_of_all_files_and_a_torn_line_is_skipped() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        append(&path, 0..100);
        let size = path.metadata().expect("a file").len();
        fs::rename(&path, rotated_path(&path, 1)).expect("it is rotated");
        append(&path, 100..110);
        let newest = path.metadata().expect("a file").len();
        let mut whole = AuditTail::new(&path, size + newest);
        check(&mut whole, 0..110);
        assert!(!whole.is_partial());
        let mut tail = AuditTail::new(&path, newest + size / 100 * 5);
        let first = tail.read_new().expect("it can be read");
        assert!((13..=15).contains(&first.len()), "{}", first.len());
        assert_eq!(first.last().map(|it| it.tool.as_str()), Some("109"));
        assert!(tail.is_partial());
    }

    #[test]
    fn an_incomplete_line_is_read_when_it_is_complete() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("audit.jsonl");
        append(&path, 0..2);
        let text = fs::read_to_string(&path).expect("text");
        let (start, end) = text.split_at(text.len() - 10);
        fs::write(&path, start).expect("it is cut");
        let mut tail = AuditTail::new(&path, 1 << 20);
        check(&mut tail, 0..1);
        fs::write(&path, format!("{start}{end}")).expect("it is complete");
        check(&mut tail, 1..2);
    }
}
