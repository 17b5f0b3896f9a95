//! Unpacks the archive of a plugin: ZIP, or tar with gzip as npm packages are.

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
    // Headers and padding count too, so that an endless stream of them ends.
    let bound = limits.size.saturating_add(1024 * limits.entries as u64);
    let decoder = MultiGzDecoder::new(BufReader::new(file)).take(bound);
    let mut archive = tar::Archive::new(decoder);
    let mut unpacking =
        TarUnpacker { to, limits, archive_size, entries: 0, size: 0, seen: SeenNames::default() };
    let entries = archive.entries().map_err(|error| invalid(&error))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| invalid(&error))?;
        unpacking.entry(&mut entry, first)?;
    }
    Ok(())
}

fn invalid(error: &io::Error) -> ArchiveError {
    ArchiveError::InvalidTar { detail: error.to_string() }
}

struct TarUnpacker<'a> {
    to: &'a Path,
    limits: UnpackLimits,
    archive_size: u64,
    entries: usize,
    size: u64,
    seen: SeenNames,
}

impl TarUnpacker<'_> {
    fn entry(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        first: FirstFolder,
    ) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(ArchiveError::TooManyEntries { limit: self.limits.entries });
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let raw = entry.path_bytes().into_owned();
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
        if kind == EntryKind::Folder {
            // Packers repeat folders.
            return fs::create_dir_all(&path).map_err(fail);
        }
        self.seen.add(name, kind)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(fail)?;
        }
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & EXECUTABLE != 0);
        let mut file = File::create_new(&path).map_err(fail)?;
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            let damaged = |_| ArchiveError::Damaged { name: name.to_owned() };
            let count = entry.read(&mut buffer).map_err(damaged)?;
            if count == 0 {
                break;
            }
            self.size += count as u64;
            self.check_size()?;
            file.write_all(&buffer[..count]).map_err(fail)?;
        }
        set_mode(&file, is_executable).map_err(fail)
    }

    fn check_size(&self) -> Result<(), ArchiveError> {
        let UnpackLimits { size, ratio, small, .. } = self.limits;
        if self.size > size {
            return Err(ArchiveError::TooLarge { limit: size });
        }
        if self.size > small && self.size / ratio > self.archive_size {
            return Err(ArchiveError::CompressionBomb { limit: ratio });
        }
        Ok(())
    }
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
