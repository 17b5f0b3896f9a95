//! Archives that try to write outside their folder, to fill the disk, or to be read otherwise by another program. Each is
//! refused, and nothing of it stays.

use std::fs;
use std::io::{Cursor, Write};

use switchboard_packages::bundle::{
    ArchiveError, BundleError, BundleStore, SignatureTrust, UnpackLimits,
};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const MANIFEST: &str = r#"{"manifest_version": "0.3", "name": "b", "version": "1", "description": "d",
    "author": {"name": "A"}, "server": {"type": "binary", "entry_point": "run", "mcp_config": {"command": "${__dirname}/run"}}}"#;

/// An entry, written byte by byte, because no library writes these.
#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    content: Vec<u8>,
    mode: u32,
    method: u16,
    flags: u16,
    /// The name in the header before the content, if another.
    local_name: Option<Vec<u8>>,
    /// The checksum, if a wrong one.
    checksum: Option<u32>,
    /// The sizes in the list, if wrong ones.
    sizes: Option<(u32, u32)>,
}

fn entry(name: &str, content: &str) -> Entry {
    Entry {
        name: name.as_bytes().to_vec(),
        content: content.as_bytes().to_vec(),
        mode: if name.ends_with('/') { 0o040_755 } else { 0o100_644 },
        method: 0,
        flags: 0,
        local_name: None,
        checksum: None,
        sizes: None,
    }
}

fn manifest() -> Entry {
    entry("manifest.json", MANIFEST)
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn numbers(into: &mut Vec<u8>, halves: &[u16], words: &[u32]) {
    halves.iter().for_each(|it| into.extend_from_slice(&it.to_le_bytes()));
    words.iter().for_each(|it| into.extend_from_slice(&it.to_le_bytes()));
}

fn length16(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).expect("names are short")
}

fn length32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("contents are short")
}

/// An archive with these entries.
fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut list = Vec::new();
    for entry in entries {
        let offset = length32(&bytes);
        let checksum = entry.checksum.unwrap_or_else(|| crc32(&entry.content));
        let size = length32(&entry.content);
        let (packed, unpacked) = entry.sizes.unwrap_or((size, size));
        let local = entry.local_name.as_ref().unwrap_or(&entry.name);
        bytes.extend_from_slice(b"PK\x03\x04");
        numbers(
            &mut bytes,
            &[20, entry.flags, entry.method, 0, 0x21],
            &[checksum, packed, unpacked],
        );
        numbers(&mut bytes, &[length16(local), 0], &[]);
        bytes.extend_from_slice(local);
        bytes.extend_from_slice(&entry.content);
        list.extend_from_slice(b"PK\x01\x02");
        // Made on Unix, so that the mode counts.
        numbers(
            &mut list,
            &[0x0314, 20, entry.flags, entry.method, 0, 0x21],
            &[checksum, packed, unpacked],
        );
        numbers(&mut list, &[length16(&entry.name), 0, 0, 0, 0], &[entry.mode << 16, offset]);
        list.extend_from_slice(&entry.name);
    }
    let start = length32(&bytes);
    let count = u16::try_from(entries.len()).expect("few entries");
    bytes.extend_from_slice(&list);
    bytes.extend_from_slice(b"PK\x05\x06");
    numbers(&mut bytes, &[0, 0, count, count], &[length32(&list), start]);
    numbers(&mut bytes, &[0], &[]);
    bytes
}

/// The store of a test, in a folder of its own.
struct Outcome {
    folder: TempDir,
    result: Result<(), BundleError>,
}

fn install_with(bytes: &[u8], limits: UnpackLimits) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.mcpb");
    fs::write(&path, bytes).expect("a file");
    let store = BundleStore::new(&folder.path().join("store"), SignatureTrust::default());
    let result = store.with_limits(limits).install(&path).map(drop);
    Outcome { folder, result }
}

/// The reason why an archive is refused. Nothing of it may stay.
#[track_caller]
fn refusal_with(bytes: &[u8], limits: UnpackLimits) -> String {
    let Outcome { folder, result } = install_with(bytes, limits);
    let stored = fs::read_dir(folder.path().join("store")).expect("the store").count();
    assert_eq!(stored, 0, "nothing stays");
    let beside = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(beside, 2, "nothing was written beside the store");
    match result.expect_err("it is refused") {
        BundleError::Archive { source, .. } => source.to_string(),
        other @ (BundleError::Read { .. }
        | BundleError::TooLarge { .. }
        | BundleError::Write { .. }
        | BundleError::Manifest { .. }
        | BundleError::BrokenSignature { .. }
        | BundleError::NotInstalled { .. }) => other.to_string(),
    }
}

#[track_caller]
fn check(entries: &[Entry], expected: &str) {
    assert_eq!(refusal_with(&archive(entries), UnpackLimits::default()), expected);
}

#[test]
fn the_archives_of_these_tests_are_valid_without_their_trick() {
    let bytes = archive(&[manifest(), entry("a/", ""), entry("a/b", "x")]);
    let outcome = install_with(&bytes, UnpackLimits::default());
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (name, fault) in [
        ("/etc/passwd", "is absolute"),
        ("../x", "has a part `.` or `..`"),
        ("a/../../x", "has a part `.` or `..`"),
        ("a/./x", "has a part `.` or `..`"),
        ("..\\x", "has a backslash, a colon or a control character"),
        ("a\\b", "has a backslash, a colon or a control character"),
        ("C:/x", "has a backslash, a colon or a control character"),
        ("file:stream", "has a backslash, a colon or a control character"),
        ("a\nb", "has a backslash, a colon or a control character"),
        ("a\0b", "has a backslash, a colon or a control character"),
        ("\u{1b}[2Jx", "has a backslash, a colon or a control character"),
        ("a//b", "has an empty part"),
        ("", "has an empty part"),
        ("//", "is absolute"),
        ("../", "has a part `.` or `..`"),
    ] {
        check(&[manifest(), entry(name, "x")], &format!("the name `{name}` {fault}"));
    }
    let mut latin = entry("x", "x");
    latin.name = vec![0xff, 0xfe];
    check(&[manifest(), latin], "the name `\u{fffd}\u{fffd}` is not UTF-8");
    for name in ["a/".repeat(64) + "b", "x".repeat(256), "aa/".repeat(400)] {
        check(&[manifest(), entry(&name, "")], &format!("the name `{name}` is too long"));
    }
}

#[test]
fn links_and_special_files_are_refused() {
    for (kind, mode) in [
        ("link", 0o120_777),
        ("pipe", 0o010_644),
        ("device", 0o060_644),
        ("socket", 0o140_644),
        ("folder", 0o040_755),
    ] {
        let special = Entry { mode, ..entry(kind, "/etc/passwd") };
        check(&[manifest(), special], &format!("`{kind}` is a link or a special file"));
    }
    let folder = Entry { mode: 0o120_777, ..entry("a/", "") };
    check(&[manifest(), folder], "`a` is a link or a special file");
}

#[test]
fn names_that_are_there_twice_are_refused_whatever_their_case() {
    check(&[manifest(), manifest()], "two of its entries have the same name");
    let lower = "is there twice, or differs from another only in upper and lower case";
    check(
        &[manifest(), entry("Manifest.JSON", "{}")],
        &format!("the name `Manifest.JSON` {lower}"),
    );
    check(&[manifest(), entry("A/x", ""), entry("a/X", "")], &format!("the name `a/X` {lower}"));
    check(&[manifest(), entry("É", ""), entry("é", "")], &format!("the name `é` {lower}"));
    check(&[manifest(), entry("a/", ""), entry("A/", "")], &format!("the name `A` {lower}"));
    check(&[manifest(), entry("a", ""), entry("a/b", "")], "`a/b` is both a file and a folder");
    check(&[manifest(), entry("a/b", ""), entry("A", "")], "`A` is both a file and a folder");
    check(&[manifest(), entry("a", ""), entry("a/", "")], "`a` is both a file and a folder");
}

#[test]
fn entries_that_programs_read_differently_are_refused() {
    let other = Entry { local_name: Some(b"b".to_vec()), ..entry("a", "x") };
    assert!(refusal(&[manifest(), other]).contains("not a valid ZIP archive"));
    let damaged = Entry { checksum: Some(1), ..entry("a", "x") };
    check(&[manifest(), damaged], "`a` is damaged");
    let encrypted = Entry { flags: 1, ..entry("a", "x") };
    check(&[manifest(), encrypted], "`a` is encrypted");
    let exotic = Entry { method: 12, ..entry("a", "x") };
    check(&[manifest(), exotic], "`a` has a compression other than deflate");
    let garbage = Entry { method: 8, ..entry("a", "no deflate stream") };
    check(&[manifest(), garbage], "`a` is damaged");
    let overlapping = Entry { sizes: Some((200, 200)), ..entry("a", "x") };
    assert!(refusal(&[manifest(), overlapping, entry("b", "y")]).contains("valid ZIP archive"));
}

#[track_caller]
fn refusal(entries: &[Entry]) -> String {
    refusal_with(&archive(entries), UnpackLimits::default())
}

#[test]
fn data_around_the_archive_and_a_second_end_are_refused() {
    let good = archive(&[manifest()]);
    let limits = UnpackLimits::default();
    let stray = "there is data around the archive that belongs to no file";
    assert_eq!(refusal_with(&[&good[..], b"tail"].concat(), limits), stray);
    assert!(refusal_with(&[b"#!/bin/sh\n", &good[..]].concat(), limits).contains("ZIP archive"));
    let end = &good[good.len() - 22..];
    let two = "it has more than one end record";
    // One end record in the comment of the other.
    let mut hidden = [&good[..], end].concat();
    let comment = hidden.len() - 22 - 2;
    hidden[comment] = 22;
    assert_eq!(refusal_with(&hidden, limits), two);
    let mut short = [&good[..], &end[..10]].concat();
    let comment = short.len() - 10 - 2;
    short[comment] = 10;
    assert_eq!(refusal_with(&short, limits), two);
    assert!(refusal_with(b"", limits).contains("it has no end record"));
    assert!(refusal_with(&good[..good.len() - 1], limits).contains("data around"));
    let mut missing = good.clone();
    let count = missing.len() - 22 + 8;
    missing[count..count + 4].copy_from_slice(&[9, 0, 9, 0]);
    assert!(refusal_with(&missing, limits).contains("not a valid ZIP archive"));
}

#[test]
fn a_signature_cannot_hide_another_archive() {
    // What is behind the signed bytes is never read as an archive.
    let inner = archive(&[manifest(), entry("evil", "x")]);
    let length = u32::try_from(inner.len()).expect("it is short").to_le_bytes();
    let good = archive(&[manifest()]);
    let bytes = [&good[..], b"MCPB_SIG_V1", &length, &inner, b"MCPB_SIG_END"].concat();
    let refused = refusal_with(&bytes, UnpackLimits::default());
    assert!(refused.contains("the signature of"), "{refused}");
    let only = [b"MCPB_SIG_V1", &length[..], &inner, b"MCPB_SIG_END"].concat();
    assert!(refusal_with(&only, UnpackLimits::default()).contains("it has no end record"));
}

/// An archive with one file of zeros, compressed.
fn bomb(size: usize) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    writer.start_file("manifest.json", options).expect("an entry");
    writer.write_all(MANIFEST.as_bytes()).expect("its content");
    writer.start_file("zeros", options).expect("an entry");
    writer.write_all(&vec![0; size]).expect("its content");
    writer.finish().expect("an archive").into_inner()
}

#[test]
fn archives_that_fill_the_disk_are_refused() {
    let small = UnpackLimits { small: 1024, ratio: 10, ..UnpackLimits::default() };
    let ratio = "its files are more than 10 times as large as the archive";
    assert_eq!(refusal_with(&bomb(100_000), small), ratio);
    assert!(install_with(&bomb(100_000), UnpackLimits::default()).result.is_ok());
    assert_eq!(
        refusal_with(&bomb(32 * 1024 * 1024), UnpackLimits::default()),
        "its files are more than 100 times as large as the archive"
    );
    let size = UnpackLimits { size: 1000, ..UnpackLimits::default() };
    assert_eq!(refusal_with(&bomb(1001), size), "its files have more than 1000 bytes together");
    let count = UnpackLimits { entries: 2, ..UnpackLimits::default() };
    let many = archive(&[manifest(), entry("a", ""), entry("b", "")]);
    assert_eq!(refusal_with(&many, count), "it has more than 2 entries");
    let file = UnpackLimits { file_size: 100, ..UnpackLimits::default() };
    assert!(refusal_with(&many, file).contains("is larger than 100 bytes"));
}

#[test]
fn folders_that_are_only_in_paths_count_as_entries() {
    // Few entries and few bytes, but each makes dozens of folders.
    let nested = |number: usize| {
        let folders: String = (0..60).map(|depth| format!("{number}-{depth}/")).collect();
        entry(&format!("{folders}file"), "")
    };
    let entries: Vec<Entry> = std::iter::once(manifest()).chain((0..1000).map(nested)).collect();
    check(&entries, "it has more than 50000 entries");
    let few = UnpackLimits { entries: 4, ..UnpackLimits::default() };
    let deep = archive(&[manifest(), entry("a/b/c/d", "")]);
    assert_eq!(refusal_with(&deep, few), "it has more than 4 entries");
    let shared = archive(&[manifest(), entry("a/b", ""), entry("a/c", "")]);
    assert!(install_with(&shared, few).result.is_ok(), "a folder that is there counts once");
}

#[test]
fn a_list_that_declares_smaller_files_than_there_are_is_refused() {
    let mut bytes = bomb(100_000);
    // The sizes in both headers of the second file; the content stays.
    let places: Vec<usize> = (0..bytes.len() - 4)
        .filter(|at| bytes[*at..].starts_with(&100_000u32.to_le_bytes()))
        .collect();
    assert!(!places.is_empty(), "the size is in the list");
    for place in places {
        bytes[place..place + 4].copy_from_slice(&10u32.to_le_bytes());
    }
    let small = UnpackLimits { small: 1024, ratio: 10, ..UnpackLimits::default() };
    let refused = refusal_with(&bytes, small);
    assert!(refused.contains("damaged") || refused.contains("10 times"), "{refused}");
}

#[test]
fn a_bundle_needs_a_readable_manifest_in_its_root() {
    check(&[entry("a", "x")], "it has no file `manifest.json` in its root");
    check(&[entry("b/manifest.json", MANIFEST)], "it has no file `manifest.json` in its root");
    check(&[entry("manifest.json/", "")], "it has no file `manifest.json` in its root");
    let unreadable = "its manifest is too large, or not UTF-8 text";
    check(&[entry("manifest.json", &" ".repeat(1024 * 1024 + 1))], unreadable);
    let latin = Entry { content: vec![0xff], ..manifest() };
    check(&[latin], unreadable);
    assert!(refusal(&[entry("manifest.json", "{}")]).contains("is not valid"));
    let error = install_with(&archive(&[]), UnpackLimits::default()).result;
    assert!(
        matches!(error, Err(BundleError::Archive { source: ArchiveError::NoManifest, .. })),
        "{error:?}"
    );
}
