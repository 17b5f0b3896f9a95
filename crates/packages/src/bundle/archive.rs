//! Reads and unpacks the ZIP archive of a bundle. Everything that one program could read otherwise than another is
//! refused, as is everything that could write outside the folder or fill the disk.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use switchboard_config::bundle::{MANIFEST_FILE, MAX_MANIFEST_SIZE};
use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::entry_name::{EntryKind, SeenNames, check_name};
use super::error::ArchiveError;

/// The end record of a ZIP archive without a comment.
const END_RECORD_SIZE: u64 = 22;
const END_MAGIC: &[u8] = b"PK\x05\x06";
/// The maximum length of the archive's comment.
const MAX_COMMENT_SIZE: u64 = 0xffff;
/// Marks a number that is in the 64-bit records.
const IN_ZIP64: u16 = 0xffff;
/// The bits of a Unix mode that hold the type of a file.
const TYPE_BITS: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const EXECUTABLE: u32 = 0o111;
const BUFFER_SIZE: usize = 64 * 1024;

/// How much an archive may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// The size of the archive's file in bytes.
    pub file_size: u64,
    /// The number of entries, and of the files and folders that they make.
    pub entries: usize,
    /// The size of all files together in bytes.
    pub size: u64,
    /// How many times larger than the archive the files may be, as soon as they are larger than [`Self::small`].
    pub ratio: u64,
    /// The size in bytes below which the ratio does not count.
    pub small: u64,
}

impl Default for UnpackLimits {
    fn default() -> UnpackLimits {
        UnpackLimits {
            file_size: crate::download::MAX_DOWNLOAD_SIZE,
            entries: 50_000,
            size: 2 * 1024 * 1024 * 1024,
            ratio: 100,
            small: 16 * 1024 * 1024,
        }
    }
}

/// The first bytes of a file as a file of their own.
#[derive(Debug)]
pub(crate) struct Front<'f> {
    file: &'f File,
    length: u64,
    position: u64,
}

impl<'f> Front<'f> {
    pub(crate) fn new(file: &'f File, length: u64) -> Front<'f> {
        Front { file, length, position: 0 }
    }
}

impl Read for Front<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(self.position))?;
        let left = self.length.saturating_sub(self.position);
        let count = self.file.take(left).read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Front<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.length.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// An archive whose entries are all safe to unpack.
pub(crate) struct CheckedArchive<'f> {
    zip: ZipArchive<BufReader<Front<'f>>>,
    entries: Vec<CheckedEntry>,
    size: u64,
    limits: UnpackLimits,
}

/// An entry to unpack.
struct CheckedEntry {
    index: usize,
    name: String,
    kind: EntryKind,
    is_executable: bool,
}

impl CheckedArchive<'_> {
    /// Reads the list of entries in the first `size` bytes of a file, and checks every entry.
    pub(crate) fn open(
        file: &File,
        size: u64,
        limits: UnpackLimits,
    ) -> Result<CheckedArchive<'_>, ArchiveError> {
        check_end(&mut Front::new(file, size), size, limits)?;
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let reader = BufReader::new(Front::new(file, size));
        let mut zip = ZipArchive::with_config(config, reader).map_err(zip_error)?;
        if zip.has_duplicate_names() {
            return Err(ArchiveError::DuplicateEntries);
        }
        let mut seen = SeenNames::default();
        let mut entries = Vec::with_capacity(zip.len());
        let mut declared = 0u64;
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(zip_error)?;
            let checked = check_entry(index, &entry)?;
            seen.add(&checked.name, checked.kind)?;
            // One entry can make dozens of folders.
            if seen.count() > limits.entries {
                return Err(ArchiveError::TooManyEntries { limit: limits.entries });
            }
            declared = declared.saturating_add(entry.size());
            entries.push(checked);
        }
        check_total(declared, size, limits)?;
        zip.validate_header_consistency().map_err(zip_error)?;
        Ok(CheckedArchive { zip, entries, size, limits })
    }

    /// The text of the manifest.
    pub(crate) fn manifest(&mut self) -> Result<String, ArchiveError> {
        let found = self.entries.iter().find(|it| it.name == MANIFEST_FILE);
        let Some(CheckedEntry { index, kind: EntryKind::File, .. }) = found else {
            return Err(ArchiveError::NoManifest);
        };
        let mut entry = self.zip.by_index(*index).map_err(zip_error)?;
        let mut text = Vec::new();
        let limit = MAX_MANIFEST_SIZE + 1;
        let read = entry.by_ref().take(limit).read_to_end(&mut text);
        read.map_err(|_| ArchiveError::Damaged { name: MANIFEST_FILE.to_owned() })?;
        if text.len() as u64 == limit {
            return Err(ArchiveError::UnreadableManifest);
        }
        String::from_utf8(text).map_err(|_| ArchiveError::UnreadableManifest)
    }

    /// The names of the files.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|it| it.kind == EntryKind::File).map(|it| it.name.as_str())
    }

    /// Whether a folder has every file of the archive with its content. Files that were added do not matter.
    pub(super) fn is_unpacked_in(&mut self, folder: &Path) -> bool {
        let mut entries = self.entries.iter().filter(|it| it.kind == EntryKind::File);
        entries.all(|entry| {
            let path = folder.join(&entry.name);
            let is_regular = path.symlink_metadata().is_ok_and(|it| it.is_file());
            let unpacked = self.zip.by_index(entry.index);
            is_regular
                && unpacked.is_ok_and(|mut content| {
                    File::open(&path).is_ok_and(|file| has_content(file, &mut content))
                })
        })
    }

    /// Writes every entry below an empty folder.
    pub(crate) fn unpack(&mut self, folder: &Path) -> Result<(), ArchiveError> {
        let mut written = 0u64;
        for entry in &self.entries {
            let path = folder.join(&entry.name);
            let fail = |source| ArchiveError::Write { name: entry.name.clone(), source };
            match entry.kind {
                EntryKind::Folder => fs::create_dir_all(&path).map_err(fail)?,
                EntryKind::File => {
                    if let Some(parent) = path.parent() {
                        fs::create_dir_all(parent).map_err(fail)?;
                    }
                    let mut content = self.zip.by_index(entry.index).map_err(zip_error)?;
                    let mut file = File::create_new(&path).map_err(fail)?;
                    let mut buffer = vec![0; BUFFER_SIZE];
                    loop {
                        let count = content
                            .read(&mut buffer)
                            .map_err(|_| ArchiveError::Damaged { name: entry.name.clone() })?;
                        if count == 0 {
                            break;
                        }
                        written += count as u64;
                        // What the list of entries declares may be a lie.
                        check_total(written, self.size, self.limits)?;
                        file.write_all(&buffer[..count]).map_err(fail)?;
                    }
                    set_mode(&file, entry.is_executable).map_err(fail)?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that the archive ends exactly where its bytes end, and that it says how many entries it has.
fn check_end(reader: &mut Front<'_>, size: u64, limits: UnpackLimits) -> Result<(), ArchiveError> {
    let invalid = |detail: &str| ArchiveError::Invalid { detail: detail.to_owned() };
    let tail_size = size.min(END_RECORD_SIZE + MAX_COMMENT_SIZE);
    let mut tail = Vec::new();
    reader.seek(SeekFrom::Start(size - tail_size)).map_err(ArchiveError::Io)?;
    reader.read_to_end(&mut tail).map_err(ArchiveError::Io)?;
    let starts: Vec<usize> = tail
        .windows(END_MAGIC.len())
        .enumerate()
        .filter(|(_, window)| *window == END_MAGIC)
        .map(|(start, _)| start)
        .collect();
    let number = |at: usize| -> Option<u16> {
        Some(u16::from_le_bytes(tail.get(at..at + 2)?.try_into().ok()?))
    };
    let record_size = usize::try_from(END_RECORD_SIZE).unwrap_or(usize::MAX);
    let ends_here = |start: usize| {
        number(start + 20)
            .is_some_and(|comment| start + record_size + usize::from(comment) == tail.len())
    };
    let ends: Vec<usize> = starts.iter().copied().filter(|start| ends_here(*start)).collect();
    let start = match (ends.as_slice(), starts.last()) {
        (_, None) => return Err(invalid("it has no end record")),
        ([], Some(_)) => return Err(ArchiveError::StrayData),
        // Compressed data may contain the magic by chance, a comment may not.
        ([only], Some(last)) if only == last => *only,
        ([..], Some(_)) => return Err(ArchiveError::TwoEnds),
    };
    match number(start + 10) {
        None | Some(IN_ZIP64) => Err(ArchiveError::TooManyEntries { limit: limits.entries }),
        Some(count) if usize::from(count) > limits.entries => {
            Err(ArchiveError::TooManyEntries { limit: limits.entries })
        }
        Some(_) => Ok(()),
    }
}

fn check_entry(index: usize, entry: &ZipFile<'_, impl Read>) -> Result<CheckedEntry, ArchiveError> {
    let raw = entry.name_raw();
    let shown = || String::from_utf8_lossy(raw).into_owned();
    let (name, kind) =
        check_name(raw).map_err(|fault| ArchiveError::Name { name: shown(), fault })?;
    let name = name.to_owned();
    let file_type = entry.unix_mode().map_or(0, |mode| mode & TYPE_BITS);
    let fits = match kind {
        EntryKind::File => file_type == 0 || file_type == REGULAR_FILE,
        EntryKind::Folder => file_type == 0 || file_type == FOLDER,
    };
    if !fits {
        return Err(ArchiveError::SpecialFile { name });
    }
    if entry.encrypted() {
        return Err(ArchiveError::Encrypted { name });
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        return Err(ArchiveError::Compression { name });
    }
    let is_executable = entry.unix_mode().is_some_and(|mode| mode & EXECUTABLE != 0);
    Ok(CheckedEntry { index, name, kind, is_executable })
}

/// Whether a file has exactly this content.
fn has_content(file: File, content: &mut dyn Read) -> bool {
    let mut file = BufReader::with_capacity(BUFFER_SIZE, file);
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let Ok(count) = content.read(&mut buffer) else { return false };
        if count == 0 {
            return file.read(&mut buffer).is_ok_and(|left| left == 0);
        }
        let mut written = vec![0; count];
        if file.read_exact(&mut written).is_err() || written != buffer[..count] {
            return false;
        }
    }
}

fn check_total(total: u64, archive: u64, limits: UnpackLimits) -> Result<(), ArchiveError> {
    if total > limits.size {
        return Err(ArchiveError::TooLarge { limit: limits.size });
    }
    if total > limits.small && total / limits.ratio > archive {
        return Err(ArchiveError::CompressionBomb { limit: limits.ratio });
    }
    Ok(())
}

fn zip_error(error: ZipError) -> ArchiveError {
    if let ZipError::Io(error) = error {
        return ArchiveError::Io(error);
    }
    ArchiveError::Invalid { detail: error.to_string() }
}

/// Sets the permissions of an unpacked file: never more than these, whatever the archive says.
#[cfg(unix)]
fn set_mode(file: &File, is_executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = if is_executable { 0o755 } else { 0o644 };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: bool) -> io::Result<()> {
    Ok(())
}
