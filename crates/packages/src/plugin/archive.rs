//! Unpacks the archive of a plugin: ZIP, or tar with gzip as npm packages are.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;

use crate::bundle::archive::CheckedArchive;
use crate::bundle::entry_name::{EntryKind, SeenNames, check_name};
use crate::bundle::{ArchiveError, UnpackLimits};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const EXECUTABLE: u32 = 0o111;
const BUFFER_SIZE: usize = 64 * 1024;
/// The most bytes of a long name, or of the attributes of an entry.
const MAX_EXTENSION: u64 = 64 * 1024;

/// What becomes of the first folder in the names of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstFolder {
    /// It stays.
    Stays,
    /// It is left out, as in the packages of npm.
    LeftOut,
}

/// Unpacks an archive into an empty folder.
pub(super) fn unpack(
    file: &Path,
    to: &Path,
    first: FirstFolder,
    limits: UnpackLimits,
) -> Result<(), ArchiveError> {
    let mut opened = File::open(file).map_err(ArchiveError::Io)?;
    let size = opened.metadata().map_err(ArchiveError::Io)?.len();
    let mut magic = [0; 2];
    let read = opened.read(&mut magic).map_err(ArchiveError::Io)?;
    opened.seek(SeekFrom::Start(0)).map_err(ArchiveError::Io)?;
    match read == magic.len() && magic == GZIP_MAGIC {
        true => unpack_tar(&opened, size, to, first, limits),
        false => CheckedArchive::open(&opened, size, limits)?.unpack(to),
    }
}

fn unpack_tar(
    file: &File,
    archive_size: u64,
    to: &Path,
    first: FirstFolder,
    limits: UnpackLimits,
) -> Result<(), ArchiveError> {
    let budget = TarBudget { limits, archive_size, read: Cell::new(0) };
    let decoder = MultiGzDecoder::new(BufReader::new(file));
    let mut archive = tar::Archive::new(BudgetedReader { inner: decoder, budget: &budget });
    let unpacked = unpack_entries(&mut archive, to, first, &budget);
    // An archive that reads too much is refused for that, wherever it was noticed.
    budget.check()?;
    unpacked
}

fn unpack_entries(
    archive: &mut tar::Archive<impl Read>,
    to: &Path,
    first: FirstFolder,
    budget: &TarBudget,
) -> Result<(), ArchiveError> {
    let mut unpacking = TarUnpacker {
        to,
        budget,
        entries: 0,
        seen: SeenNames::default(),
        next: NextEntry::default(),
    };
    // The library would read names and attributes of any size into memory.
    for entry in archive.entries().map_err(|error| invalid(&error))?.raw(true) {
        let mut entry = entry.map_err(|error| invalid(&error))?;
        unpacking.entry(&mut entry, first)?;
    }
    Ok(())
}

fn invalid(error: &io::Error) -> ArchiveError {
    ArchiveError::InvalidTar { detail: error.to_string() }
}

fn malformed(detail: &str) -> ArchiveError {
    ArchiveError::InvalidTar { detail: detail.to_owned() }
}

/// How much of a decompressed archive may be read: headers, padding and what is skipped count as well.
struct TarBudget {
    limits: UnpackLimits,
    archive_size: u64,
    read: Cell<u64>,
}

impl TarBudget {
    fn check(&self) -> Result<(), ArchiveError> {
        let UnpackLimits { size, ratio, small, entries, .. } = self.limits;
        let read = self.read.get();
        // Each entry has a header and padding.
        if read > size.saturating_add(1024 * entries as u64) {
            return Err(ArchiveError::TooLarge { limit: size });
        }
        if read > small && read / ratio > self.archive_size {
            return Err(ArchiveError::CompressionBomb { limit: ratio });
        }
        Ok(())
    }
}

/// A decompressed archive that fails as soon as too much of it was read.
struct BudgetedReader<'a, R> {
    inner: R,
    budget: &'a TarBudget,
}

impl<R: Read> Read for BudgetedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.read.set(self.budget.read.get() + count as u64);
        match self.budget.check() {
            Ok(()) => Ok(count),
            Err(refusal) => Err(io::Error::other(refusal)),
        }
    }
}

/// What the headers before an entry say about it.
#[derive(Debug, Default)]
struct NextEntry {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

struct TarUnpacker<'a> {
    to: &'a Path,
    budget: &'a TarBudget,
    entries: usize,
    seen: SeenNames,
    next: NextEntry,
}

impl TarUnpacker<'_> {
    fn entry(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        first: FirstFolder,
    ) -> Result<(), ArchiveError> {
        self.entries += 1;
        self.check_count(self.entries)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader || kind == EntryType::GNULongLink {
            return Ok(());
        }
        if kind == EntryType::GNULongName {
            let mut name = read_extension(entry)?;
            // The name ends with a zero.
            name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
            self.next.name = Some(name);
            return Ok(());
        }
        if kind == EntryType::XHeader {
            let attributes = read_extension(entry)?;
            return self.read_attributes(&attributes);
        }
        let NextEntry { name, size } = std::mem::take(&mut self.next);
        if size.is_some_and(|size| size != entry.size()) {
            return Err(malformed("an entry has two sizes"));
        }
        let raw = match name {
            Some(name) => name,
            None => entry.header().path_bytes().into_owned(),
        };
        let shown = || String::from_utf8_lossy(&raw).into_owned();
        let raw_name = raw.strip_prefix(b"./").unwrap_or(&raw);
        if raw_name.is_empty() || raw_name == b"." {
            return Ok(());
        }
        let (name, named_kind) =
            check_name(raw_name).map_err(|fault| ArchiveError::Name { name: shown(), fault })?;
        let kind = if kind == EntryType::Directory {
            EntryKind::Folder
        } else if kind == EntryType::Regular || kind == EntryType::Continuous {
            named_kind
        } else {
            return Err(ArchiveError::SpecialFile { name: shown() });
        };
        let name = match (first, name.split_once('/')) {
            (FirstFolder::Stays, _) => name,
            (FirstFolder::LeftOut, Some((_, rest))) => rest,
            (FirstFolder::LeftOut, None) => return Ok(()),
        };
        let path = self.to.join(name);
        let fail = |source| ArchiveError::Write { name: name.to_owned(), source };
        match kind {
            // Packers repeat folders.
            EntryKind::Folder => self.seen.add_repeated_folder(name)?,
            EntryKind::File => self.seen.add(name, kind)?,
        }
        // One entry can make dozens of folders.
        self.check_count(self.seen.count())?;
        if kind == EntryKind::Folder {
            return fs::create_dir_all(&path).map_err(fail);
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(fail)?;
        }
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & EXECUTABLE != 0);
        let mut file = File::create_new(&path).map_err(fail)?;
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut left = entry.size();
        loop {
            let damaged = |_| ArchiveError::Damaged { name: name.to_owned() };
            let count = entry.read(&mut buffer).map_err(damaged)?;
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count as u64);
            file.write_all(&buffer[..count]).map_err(fail)?;
        }
        if left > 0 {
            return Err(ArchiveError::Damaged { name: name.to_owned() });
        }
        set_mode(&file, is_executable).map_err(fail)
    }

    /// Reads the attributes of the next entry that matter here.
    fn read_attributes(&mut self, attributes: &[u8]) -> Result<(), ArchiveError> {
        for attribute in tar::PaxExtensions::new(attributes) {
            let attribute = attribute.map_err(|error| invalid(&error))?;
            let value = attribute.value_bytes();
            match attribute.key_bytes() {
                b"path" => self.next.name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                    self.next.size =
                        Some(size.ok_or_else(|| malformed("the size of an entry is no number"))?);
                }
                // Times, owners, comments.
                _ignored => {}
            }
        }
        Ok(())
    }

    fn check_count(&self, count: usize) -> Result<(), ArchiveError> {
        let limit = self.budget.limits.entries;
        if count > limit { Err(ArchiveError::TooManyEntries { limit }) } else { Ok(()) }
    }
}

/// Reads the header of another entry.
fn read_extension(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, ArchiveError> {
    if entry.size() > MAX_EXTENSION {
        return Err(malformed("the name or the attributes of an entry are too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|error| invalid(&error))?;
    Ok(bytes)
}

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

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// An entry of a test archive: its name as the header has it, its kind, its content.
    type TarEntry<'a> = (&'a [u8], EntryType, &'a [u8]);

    fn pack(entries: &[TarEntry<'_>]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut archive = tar::Builder::new(GzEncoder::new(&mut file, Compression::best()));
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o7777);
            // The library refuses some of these names itself.
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            if *kind == EntryType::Symlink {
                header.set_link_name("/etc/passwd").expect("a short name");
            }
            header.set_cksum();
            archive.append(&header, *content).expect("an entry");
        }
        archive.into_inner().expect("it ends").finish().expect("it ends");
        file
    }

    #[track_caller]
    fn check(entries: &[TarEntry<'_>], expected: &str) {
        let file = pack(entries);
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("to");
        fs::create_dir(&to).expect("a folder");
        let limits =
            UnpackLimits { small: 1000, entries: 5, size: 1_000_000, ..UnpackLimits::default() };
        let found = match unpack(file.path(), &to, FirstFolder::LeftOut, limits) {
            Ok(()) => "unpacked".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
        let beside: Vec<_> = folder.path().read_dir().expect("a folder").flatten().collect();
        assert_eq!(beside.len(), 1, "nothing is written beside the folder");
    }

    #[test]
    fn the_first_folder_is_left_out_and_modes_are_restricted() {
        use std::os::unix::fs::PermissionsExt;
        let file = pack(&[
            (b"package/", EntryType::Directory, b""),
            (b"package/bin/run", EntryType::Regular, b"#!"),
        ]);
        let to = tempfile::tempdir().expect("a folder");
        unpack(file.path(), to.path(), FirstFolder::LeftOut, UnpackLimits::default())
            .expect("it is safe");
        let mode = to.path().join("bin/run").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    #[test]
    fn names_links_and_bombs_are_refused() {
        let regular = EntryType::Regular;
        check(&[(b"p/../../x", regular, b"1")], "the name `p/../../x` has a part `.` or `..`");
        check(&[(b"/etc/x", regular, b"1")], "the name `/etc/x` is absolute");
        check(
            &[(b"p/a\\..\\x", regular, b"1")],
            "the name `p/a\\..\\x` has a backslash, a colon or a control character",
        );
        check(&[(b"p/x", EntryType::Symlink, b"")], "`p/x` is a link or a special file");
        check(&[(b"p/x", EntryType::Link, b"")], "`p/x` is a link or a special file");
        check(&[(b"p/x", EntryType::Char, b"")], "`p/x` is a link or a special file");
        check(
            &[(b"p/x", regular, b"1"), (b"q/X", regular, b"2")],
            "the name `X` is there twice, or differs from another only in upper and lower case",
        );
        check(
            &[(b"p/x", regular, &[0; 500_000])],
            "its files are more than 100 times as large as the archive",
        );
        check(
            &[(b"p/x", regular, &[0; 2_000_000])],
            "its files are more than 100 times as large as the archive",
        );
        let many: Vec<TarEntry<'_>> = vec![(b"p/", EntryType::Directory, b""); 9];
        check(&many, "it has more than 5 entries");
        check(&[(b"p/a/b/c/d/e/f/g", EntryType::Directory, b"")], "it has more than 5 entries");
        check(&[(b"p/a/b/c/d/e/f", regular, b"1")], "it has more than 5 entries");
        check(
            &[(b"p/a", regular, b"1"), (b"p/A", EntryType::Directory, b"")],
            "`A` is both a file and a folder",
        );
    }

    #[test]
    fn names_and_attributes_before_an_entry_are_small_and_count() {
        let too_long = "it is not a valid tar archive: \
                        the name or the attributes of an entry are too long";
        let long = vec![b'a'; 70_000];
        for kind in [EntryType::GNULongName, EntryType::XHeader] {
            check(&[(b"././@LongLink", kind, &long)], too_long);
        }
        // Nothing of these is kept, but it has to be read.
        for kind in [EntryType::XGlobalHeader, EntryType::GNULongLink] {
            check(
                &[(b"././@LongLink", kind, &[0; 500_000])],
                "its files are more than 100 times as large as the archive",
            );
        }
        let regular = EntryType::Regular;
        check(
            &[(b"pax", EntryType::XHeader, b"20 path=p/../../out\n"), (b"p/x", regular, b"1")],
            "the name `p/../../out` has a part `.` or `..`",
        );
        check(
            &[(b"L", EntryType::GNULongName, b"/etc/passwd\0"), (b"p/x", regular, b"1")],
            "the name `/etc/passwd` is absolute",
        );
        check(
            &[(b"pax", EntryType::XHeader, b"10 size=9\n"), (b"p/x", regular, b"1")],
            "it is not a valid tar archive: an entry has two sizes",
        );
    }

    #[test]
    fn long_names_are_those_of_the_next_entry_only() {
        let name = format!("package/{}/end", "long".repeat(40));
        let gnu = format!("{name}1\0");
        let pax = format!("{} path={name}2\n", 9 + name.len() + 2);
        let file = pack(&[
            (b"L", EntryType::GNULongName, gnu.as_bytes()),
            (b"package/cut", EntryType::Regular, b"one"),
            (b"pax", EntryType::XHeader, pax.as_bytes()),
            (b"package/cut", EntryType::Regular, b"two"),
            (b"package/short", EntryType::Regular, b"three"),
        ]);
        let to = tempfile::tempdir().expect("a folder");
        unpack(file.path(), to.path(), FirstFolder::LeftOut, UnpackLimits::default())
            .expect("it is safe");
        let folder = to.path().join("long".repeat(40));
        let read = |path: &Path| fs::read_to_string(path).expect("a file");
        assert_eq!(read(&folder.join("end1")), "one");
        assert_eq!(read(&folder.join("end2")), "two");
        assert_eq!(read(&to.path().join("short")), "three");
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for bytes in [&b"\x1f\x8b\x08\x00garbage"[..], b"PK\x03\x04", b"", b"text"] {
            let file = folder.path().join("file");
            fs::write(&file, bytes).expect("a file");
            let to = tempfile::tempdir().expect("a folder");
            let found = unpack(&file, to.path(), FirstFolder::Stays, UnpackLimits::default());
            assert!(found.is_err(), "{bytes:?}");
        }
    }
}
