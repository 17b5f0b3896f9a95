//! The files of the audit log: appends to the current one, rotates it by size and by week, and removes old ones to stay
//! below a total size. Never removes a file with a record that is younger than the configured number of days.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_config::entry::server::sha256;

use crate::audit::chain::{self, Chain, ChainHead, ChainKey, ChainPublicKey, Link};
use crate::audit::record::{AuditRecord, STARTED};
use crate::sources::atomic_file;

/// The time after which a file is rotated, whatever its size.
const ROTATION_PERIOD: Duration = Duration::from_secs(7 * 24 * 3600);
/// The number of rotated files beyond which old ones are removed, whatever their size.
const MAX_ROTATED_FILES: usize = 64;

/// The limits of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileLimits {
    /// The size at which the current file is rotated.
    pub(super) file_bytes: u64,
    /// The size of all files together.
    pub(super) total_bytes: u64,
    /// The minimum age of records that may be removed.
    pub(super) keep: Duration,
}

/// The files, and the open one.
#[derive(Debug)]
pub(super) struct AuditFiles {
    path: PathBuf,
    limits: FileLimits,
    current: Option<CurrentFile>,
    /// How lines are linked; `None` if they are not.
    chain: Option<Chain>,
    /// Is the lock held by a caller? Taking it again would wait for ourselves.
    is_locked: bool,
    /// The number of the last linked line that was removed since the head was written.
    removed_through: Option<u64>,
    /// The head as this value has written it last.
    written_head: Option<ChainHead>,
}

#[derive(Debug)]
struct CurrentFile {
    file: File,
    /// The size of all rotated files.
    rotated_bytes: u64,
    /// Whether the last line lacks its end, because a write failed.
    is_torn: bool,
}

/// Why lines were not appended.
#[derive(Debug)]
pub(super) struct AppendError {
    /// How many lines were appended before.
    pub(super) appended: usize,
    pub(super) error: io::Error,
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> AppendError {
        AppendError { appended: 0, error }
    }
}

impl AuditFiles {
    pub(super) fn new(path: &Path, limits: FileLimits, chain: Option<Chain>) -> AuditFiles {
        AuditFiles {
            path: path.to_owned(),
            limits,
            current: None,
            chain,
            is_locked: false,
            removed_through: None,
            written_head: None,
        }
    }

    /// Appends whole lines in one write, so that several processes can share the file, and returns them as they were
    /// written. After an error the file is opened again.
    pub(super) fn append(&mut self, lines: &[u8], now: SystemTime) -> Result<Vec<u8>, AppendError> {
        let Some(chain) = self.chain.take() else {
            return self.append_lines(lines, now).map(|()| lines.to_vec());
        };
        let appended = self.lock().map_err(AppendError::from).and_then(|_lock| {
            self.is_locked = true;
            let appended = self.append_linked(lines, &chain, now);
            self.is_locked = false;
            appended
        });
        self.chain = Some(chain);
        appended
    }

    /// Links lines to those before them, and appends them. The caller holds the lock, so no other process does the same.
    fn append_linked(
        &mut self,
        lines: &[u8],
        chain: &Chain,
        now: SystemTime,
    ) -> Result<Vec<u8>, AppendError> {
        let mut head = self.head(chain)?;
        let before = head.seq;
        let linked = chain::link(lines, &mut head, chain);
        let result = self.append_lines(&linked, now);
        let count = linked.iter().filter(|byte| **byte == b'\n').count();
        let appended = result.as_ref().err().map_or(count, |it| it.appended);
        if appended > 0 {
            if appended < count {
                let last = linked.split(|byte| *byte == b'\n').nth(appended - 1);
                head.seq = before + appended as u64;
                head.hash = sha256(last.unwrap_or_default()).to_string();
            }
            if let Some(removed) = self.removed_through.take() {
                head.start = head.start.max(removed + 1);
            }
            // The lines are there. The next append finds them without the head.
            head.write(&self.path, chain).map_err(|error| AppendError { appended, error })?;
            self.written_head = Some(head);
        }
        result.map(|()| linked)
    }

    /// The head of the chain, with the lines that a process has appended before it ended without moving the head. With a
    /// key, only up to the last line that is signed with it: what is after that was added by others, or is what is left of
    /// an interrupted write. The chain does not go on from there, so that `verify` finds it.
    fn head(&self, chain: &Chain) -> io::Result<ChainHead> {
        let stored = ChainHead::read(&self.path)?;
        let key = chain.key.as_ref().map(ChainKey::public);
        let mut head = match &key {
            None => stored.unwrap_or_default(),
            Some(key) => self.trusted_head(stored, key)?,
        };
        let newest = rotated_files(&self.path)?.pop().map(|it| it.1);
        let files: Vec<PathBuf> = newest.into_iter().chain([self.path.clone()]).collect();
        let last = match last_link(&self.path)? {
            Some(link) => Some(link),
            None if files.len() > 1 => last_link(&files[0])?,
            None => None,
        };
        if last.is_none_or(|it| it.seq <= head.seq) {
            return Ok(head);
        }
        let mut end = (head.seq, head.hash.clone());
        for path in files.iter().filter(|it| it.exists()) {
            for line in BufReader::new(File::open(path)?).split(b'\n') {
                let line = line?;
                let text = String::from_utf8_lossy(&line);
                let Some(link) = chain::link_of(&text) else { continue };
                if link.seq != end.0 + 1 || link.prev != end.1 {
                    continue;
                }
                end = (link.seq, sha256(&line).to_string());
                if key.as_ref().is_none_or(|it| chain::is_line_signed_by(&text, it)) {
                    (head.seq, head.hash) = end.clone();
                }
            }
        }
        Ok(head)
    }

    /// The head from which a signed chain goes on. A head that is not signed with the key, or older than the one that this
    /// value has written, was put there by others.
    fn trusted_head(
        &self,
        stored: Option<ChainHead>,
        key: &ChainPublicKey,
    ) -> io::Result<ChainHead> {
        let written = self.written_head.as_ref();
        if let Some(written) = written
            && stored.as_ref().is_none_or(|it| it.seq < written.seq || !it.is_signed_by(key))
        {
            return Ok(written.clone());
        }
        let Some(mut head) = stored else { return Ok(ChainHead::default()) };
        if written == Some(&head) || head.is_signed_by(key) {
            return Ok(head);
        }
        let signed = last_signed_line(&self.path, key)?;
        match (signed.last, signed.has_other_signatures || head.sig.is_some()) {
            (Some(last), _) => (head.seq, head.hash) = last,
            // Signed with another key, or by others: a number is left out, so that the place is found.
            (None, true) => head.seq += 1,
            // The chain was not signed until now.
            (None, false) => {}
        }
        Ok(head)
    }

    fn append_lines(&mut self, lines: &[u8], now: SystemTime) -> Result<(), AppendError> {
        let more = lines.len() as u64;
        let mut current = self.open(more, now)?;
        let total = current.rotated_bytes + current.file.metadata()?.len() + more;
        if total > self.limits.total_bytes {
            current.rotated_bytes = self.remove_old_files(more, now)?;
            let total = current.rotated_bytes + current.file.metadata()?.len() + more;
            if total > self.limits.total_bytes {
                return Err(self.limit_reached().into());
            }
        }
        if current.is_torn {
            current.file.write_all(b"\n")?;
            current.is_torn = false;
        }
        write_lines(&mut current.file, lines)?;
        self.current = Some(current);
        Ok(())
    }

    /// The open file with room for more bytes, rotated where that is due.
    fn open(&mut self, more: u64, now: SystemTime) -> io::Result<CurrentFile> {
        let current = match self.current.take() {
            Some(current) if is_at(&self.path, &current.file.metadata()?) => current,
            Some(_) | None => self.reopen()?,
        };
        let metadata = current.file.metadata()?;
        let is_old = metadata.modified().is_ok_and(|modified| period(modified) != period(now));
        let is_due = metadata.len() > 0
            && (metadata.len().saturating_add(more) > self.limits.file_bytes || is_old);
        if !is_due {
            return Ok(current);
        }
        drop(current);
        // A file that cannot be rotated is appended to, as far as the total size allows.
        let _not_rotated = self.rotate(&metadata);
        let _not_removed = self.remove_old_files(more, now);
        self.reopen()
    }

    fn reopen(&self) -> io::Result<CurrentFile> {
        let file = atomic_file::open_append(&self.path)?;
        let is_torn = !ends_with_newline(&self.path)?;
        Ok(CurrentFile { file, rotated_bytes: rotated_bytes(&self.path)?, is_torn })
    }

    /// Renames every file to the next number, unless another process has just done so.
    fn rotate(&self, seen: &Metadata) -> io::Result<()> {
        let _lock = self.lock()?;
        if !is_at(&self.path, seen) {
            return Ok(());
        }
        for (number, path) in rotated_files(&self.path)? {
            fs::rename(path, rotated_path(&self.path, number + 1))?;
        }
        fs::rename(&self.path, rotated_path(&self.path, 1))
    }

    /// Removes the oldest files while there are too many or they are too large, as long as all of their records are
    /// old enough. Returns the size of the files that remain.
    fn remove_old_files(&mut self, more: u64, now: SystemTime) -> io::Result<u64> {
        let _lock = self.lock()?;
        let mut files = Vec::new();
        for (_, path) in rotated_files(&self.path)? {
            files.push((path.metadata()?, path));
        }
        let current = self.path.metadata().map_or(0, |it| it.len());
        let mut rotated: u64 = files.iter().map(|(metadata, _)| metadata.len()).sum();
        let mut count = files.len();
        for (metadata, path) in files {
            let is_over = rotated + current + more > self.limits.total_bytes;
            let age = now.duration_since(metadata.modified()?).unwrap_or_default();
            if !(is_over || count > MAX_ROTATED_FILES) || age < self.limits.keep {
                break;
            }
            let last = last_link(&path)?.map(|it| it.seq);
            fs::remove_file(path)?;
            self.removed_through = self.removed_through.max(last);
            rotated -= metadata.len();
            count -= 1;
        }
        Ok(rotated)
    }

    /// The lock of the log, unless this value holds it already.
    fn lock(&self) -> io::Result<Option<File>> {
        if self.is_locked {
            return Ok(None);
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        atomic_file::make_private_folder(folder)?;
        atomic_file::lock(folder).map(Some).map_err(io::Error::other)
    }

    fn limit_reached(&self) -> io::Error {
        let megabytes = self.limits.total_bytes.div_ceil(1024 * 1024);
        let days = self.limits.keep.as_secs() / (24 * 3600);
        io::Error::new(
            io::ErrorKind::QuotaExceeded,
            format!(
                "the log has reached {megabytes} MB and holds only records of the last {days} days, which are kept \
                 (settings `audit.maxMegabytes` and `audit.keepDays`)"
            ),
        )
    }
}

/// The signatures in the files of a log.
#[derive(Debug, Default)]
struct SignedLines {
    /// The number and the digest of the last line that is signed with the key.
    last: Option<(u64, String)>,
    /// Are there signatures that are not of the key?
    has_other_signatures: bool,
}

/// Looks for the last line that is signed with a key.
fn last_signed_line(log: &Path, key: &ChainPublicKey) -> io::Result<SignedLines> {
    let mut signed = SignedLines::default();
    for path in all_files(log)? {
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            let line = line?;
            let text = String::from_utf8_lossy(&line);
            let Some(link) = chain::link_of(&text).filter(|it| it.sig.is_some()) else { continue };
            match chain::is_line_signed_by(&text, key) {
                true => signed.last = Some((link.seq, sha256(&line).to_string())),
                false => signed.has_other_signatures = true,
            }
        }
    }
    Ok(signed)
}

/// The link of the last line of a file that has one; `None` if its last line has none.
fn last_link(path: &Path) -> io::Result<Option<Link>> {
    const STEP: u64 = 16 * 1024;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let size = file.metadata()?.len();
    let mut start = size.saturating_sub(STEP);
    loop {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(size - start).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\n');
        match text.rsplit_once('\n') {
            Some((_, line)) => return Ok(chain::link_of(line)),
            None if start == 0 => return Ok(chain::link_of(text)),
            None => start = start.saturating_sub(STEP * 8),
        }
    }
}

fn write_lines(file: &mut File, lines: &[u8]) -> Result<(), AppendError> {
    let mut written = 0;
    while written < lines.len() {
        let error = match file.write(&lines[written..]) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                written += count;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        let appended = lines[..written].iter().filter(|byte| **byte == b'\n').count();
        return Err(AppendError { appended, error });
    }
    Ok(())
}

/// The period that a time is in.
fn period(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / ROTATION_PERIOD.as_secs()
}

/// Whether a file is still the one at a path, and was not rotated by another process.
#[cfg(unix)]
fn is_at(path: &Path, file: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn is_at(path: &Path, file: &Metadata) -> bool {
    path.metadata().is_ok_and(|it| it.len() >= file.len())
}

/// Whether a file is empty or its last line is complete. Anything but a regular file counts as such.
fn ends_with_newline(path: &Path) -> io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(true);
    }
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

pub(super) fn rotated_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// The rotated files with their numbers, oldest first.
pub(super) fn rotated_files(path: &Path) -> io::Result<Vec<(usize, PathBuf)>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        files.extend(file_number(name, &entry.file_name()).map(|number| (number, entry.path())));
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    Ok(files)
}

/// The number of a rotated file, by its name.
fn file_number(current: &OsStr, rotated: &OsStr) -> Option<usize> {
    let rest = rotated.to_str()?.strip_prefix(current.to_str()?)?.strip_prefix('.')?;
    rest.parse().ok().filter(|number: &usize| number.to_string() == rest)
}

fn rotated_bytes(path: &Path) -> io::Result<u64> {
    let files = rotated_files(path)?;
    Ok(files.iter().filter_map(|(_, path)| path.metadata().ok()).map(|it| it.len()).sum())
}

/// The files of a log, oldest first.
pub(super) fn all_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let rotated = rotated_files(path)?.into_iter().map(|(_, path)| path);
    Ok(rotated.chain([path.to_owned()]).filter(|it| it.exists()).collect())
}

/// Reads all stored records, oldest first. Skips invalid lines, and the record of a call's start where its end is
/// recorded too. Blocks.
pub fn read(path: &Path) -> io::Result<Vec<AuditRecord>> {
    let rotated = rotated_files(path)?.into_iter().map(|(_, path)| path);
    let mut records = Vec::new();
    for file in rotated.chain([path.to_owned()]) {
        match File::open(&file) {
            Ok(file) => {
                for line in BufReader::new(file).split(b'\n') {
                    records.extend(serde_json::from_slice::<AuditRecord>(&line?));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let is_start = |record: &AuditRecord| record.outcome == STARTED;
    let ended: HashSet<String> =
        records.iter().filter(|it| !is_start(it)).map(|it| it.id.clone()).collect();
    records.retain(|it| !is_start(it) || !ended.contains(&it.id));
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::record::to_json_line;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const SMALL: FileLimits = FileLimits {
        file_bytes: 1000,
        total_bytes: 10_000,
        keep: Duration::from_secs(30 * 86_400),
    };

    fn record(tool: &str) -> AuditRecord {
        AuditRecord { tool: tool.to_owned(), ..AuditRecord::begin("cli", "mcp__s__t") }
    }

    struct Fixture {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().expect("a temp folder");
            Fixture { path: folder.path().join("audit.jsonl"), _folder: folder }
        }

        /// Appends records until one is refused.
        fn append(&self, limits: FileLimits, tools: std::ops::Range<u32>, now: SystemTime) -> u32 {
            let mut files = AuditFiles::new(&self.path, limits, None);
            for tool in tools.clone() {
                if files.append(&to_json_line(&record(&tool.to_string())), now).is_err() {
                    return tool;
                }
            }
            tools.end
        }

        fn tools(&self) -> Vec<u32> {
            let records = read(&self.path).expect("read");
            records.iter().map(|it| it.tool.parse().expect("a number")).collect()
        }

        fn total_bytes(&self) -> u64 {
            rotated_bytes(&self.path).expect("sizes") + self.path.metadata().expect("a file").len()
        }
    }

    #[test]
    fn records_younger_than_the_floor_are_never_removed_and_the_total_size_is_bounded() {
        let fixture = Fixture::new();
        let refused_at = fixture.append(SMALL, 0..200, SystemTime::now());
        assert!(refused_at < 200, "the limit refuses records");
        assert_eq!(fixture.tools(), (0..refused_at).collect::<Vec<_>>());
        assert!(fixture.total_bytes() <= SMALL.total_bytes, "{}", fixture.total_bytes());
    }

    #[test]
    fn an_error_at_the_limit_names_both_settings() {
        let fixture = Fixture::new();
        let mut files =
            AuditFiles::new(&fixture.path, FileLimits { total_bytes: 10, ..SMALL }, None);
        let refused = files.append(&to_json_line(&record("1")), SystemTime::now());
        let text = refused.expect_err("over the limit").error.to_string();
        assert!(text.contains("audit.maxMegabytes") && text.contains("audit.keepDays"), "{text}");
    }

    #[test]
    fn records_older_than_the_floor_make_room_for_new_ones() {
        let fixture = Fixture::new();
        let refused_at = fixture.append(SMALL, 0..200, SystemTime::now());
        let later = SystemTime::now() + 31 * DAY;
        assert_eq!(fixture.append(SMALL, refused_at..refused_at + 10, later), refused_at + 10);
        let tools = fixture.tools();
        assert!(tools[0] > 0 && tools.is_sorted(), "{tools:?}");
        assert_eq!(tools.last(), Some(&(refused_at + 9)));
        assert!(fixture.total_bytes() <= SMALL.total_bytes, "{}", fixture.total_bytes());
    }

    #[test]
    fn a_file_of_an_earlier_week_is_rotated_whatever_its_size() {
        let fixture = Fixture::new();
        let now = SystemTime::now();
        fixture.append(SMALL, 0..1, now);
        fixture.append(SMALL, 1..2, now);
        assert!(!rotated_path(&fixture.path, 1).exists());
        fixture.append(SMALL, 2..3, now + 7 * DAY);
        assert!(rotated_path(&fixture.path, 1).exists());
        assert_eq!(fixture.tools(), [0, 1, 2]);
    }

    #[test]
    fn a_file_that_another_process_rotated_is_not_rotated_again() {
        let fixture = Fixture::new();
        let now = SystemTime::now();
        let mut one = AuditFiles::new(&fixture.path, SMALL, None);
        let mut other = AuditFiles::new(&fixture.path, SMALL, None);
        let mut lines = (0..).map(|tool: u32| to_json_line(&record(&tool.to_string())));
        one.append(&lines.next().expect("endless"), now).expect("written");
        let rotated = || rotated_files(&fixture.path).expect("files").len();
        while rotated() == 0 {
            other.append(&lines.next().expect("endless"), now).expect("written");
        }
        one.append(&lines.next().expect("endless"), now).expect("written");
        assert_eq!(rotated(), 1);
        assert!(fixture.tools().is_sorted(), "{:?}", fixture.tools());
    }

    #[test]
    fn a_torn_line_costs_only_its_own_record() {
        let fixture = Fixture::new();
        let torn = "{\"half\": \"é".as_bytes();
        fs::write(&fixture.path, &torn[..torn.len() - 1]).expect("written");
        fixture.append(SMALL, 0..2, SystemTime::now());
        assert_eq!(fixture.tools(), [0, 1]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lines_for_a_full_disk_are_refused_with_the_systems_error() {
        let mut full = File::options().write(true).open("/dev/full").expect("a device");
        let refused = write_lines(&mut full, b"a\nb\n").expect_err("it is full");
        assert_eq!((refused.appended, refused.error.kind()), (0, io::ErrorKind::StorageFull));
    }

    #[test]
    fn the_start_of_a_call_is_shown_only_where_its_end_is_not_recorded() {
        let fixture = Fixture::new();
        let mut files = AuditFiles::new(&fixture.path, SMALL, None);
        let (mut ended, mut crashed) = (record("1"), record("2"));
        let starts = [ended.start(), crashed.start()];
        for it in [&starts[0], &starts[1], &ended, &record("3")] {
            files.append(&to_json_line(it), SystemTime::now()).expect("written");
        }
        let outcomes: Vec<_> = read(&fixture.path)
            .expect("read")
            .into_iter()
            .map(|it| (it.tool, it.outcome))
            .collect();
        let expected = [("2", STARTED), ("1", "cancelled"), ("3", "cancelled")];
        assert_eq!(outcomes, expected.map(|(tool, it)| (tool.to_owned(), it.to_owned())));
    }

    #[test]
    fn invalid_lines_and_files_with_other_names_are_skipped() {
        let fixture = Fixture::new();
        let good = serde_json::to_string(&record("1")).expect("JSON");
        fs::write(&fixture.path, format!("nonsense\n{good}\n{{\"half\":")).expect("written");
        for name in ["audit.jsonl.old", "audit.jsonl.01", "audit.jsonl.", "other.1"] {
            fs::write(fixture.path.with_file_name(name), &good).expect("written");
        }
        assert_eq!(fixture.tools(), [1]);
    }
}
