//! Checks the chain of an audit log: finds records that were changed, removed, added or moved, and the removal of the
//! oldest or newest ones. Reads only.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use switchboard_config::entry::server::sha256;

use crate::audit::chain::{ChainHead, NO_LINE, is_line_signed_by, link_of};
pub use crate::audit::chain::{ChainKey, ChainPublicKey, default_key_path};
use crate::audit::files::all_files;

/// The most problems that are listed.
const MAX_PROBLEMS: usize = 100;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainReport {
    /// How many linked records there are.
    pub records: u64,
    /// How many records were written before the chain began.
    pub unlinked_before: u64,
    /// How many lines are no records: a write failed in the middle.
    pub torn_lines: u64,
    /// The number and the digest of the last record, to compare it with a later log or with another place.
    pub last: Option<(u64, String)>,
    /// What is wrong. Empty if the chain is whole.
    pub problems: Vec<ChainProblem>,
}

/// Something wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainProblem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong.
    pub kind: ChainProblemKind,
}

/// What is wrong with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainProblemKind {
    /// The record before this one is not the one that this one was linked to.
    Changed {
        /// The number of the changed record.
        seq: u64,
    },
    /// Records are missing.
    Missing {
        /// The first number.
        from: u64,
        /// The last number.
        to: u64,
    },
    /// A record is at the wrong place, or twice.
    Moved {
        /// Its number.
        seq: u64,
    },
    /// A record has no link although those before it have one.
    Unlinked,
    /// A signature does not match.
    Signature {
        /// The number of the record.
        seq: u64,
    },
    /// The last record was changed.
    LastChanged,
    /// There are records after the signed end, without a signature.
    UnsignedEnd,
    /// There is no head file.
    NoHead,
    /// The head file cannot be read.
    DamagedHead,
    /// The signature of the head file does not match.
    HeadSignature,
    /// A record that was noted elsewhere is not in the log, or is another one.
    Anchor {
        /// Its number.
        seq: u64,
    },
}

impl ChainProblemKind {
    /// The identifier for programs.
    pub fn id(self) -> &'static str {
        match self {
            ChainProblemKind::Changed { .. } => "changed",
            ChainProblemKind::Missing { .. } => "missing",
            ChainProblemKind::Moved { .. } => "moved",
            ChainProblemKind::Unlinked => "unlinked",
            ChainProblemKind::Signature { .. } => "signature",
            ChainProblemKind::LastChanged => "last-changed",
            ChainProblemKind::UnsignedEnd => "unsigned-end",
            ChainProblemKind::NoHead => "no-head",
            ChainProblemKind::DamagedHead => "damaged-head",
            ChainProblemKind::HeadSignature => "head-signature",
            ChainProblemKind::Anchor { .. } => "anchor",
        }
    }
}

impl fmt::Display for ChainProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainProblemKind::Changed { seq } => write!(f, "record {seq} was changed"),
            ChainProblemKind::Missing { from, to } if from == to => {
                write!(f, "record {from} is missing")
            }
            ChainProblemKind::Missing { from, to } => {
                write!(f, "records {from} to {to} are missing")
            }
            ChainProblemKind::Moved { seq } => {
                write!(f, "record {seq} is at the wrong place, or is there twice")
            }
            ChainProblemKind::Unlinked => {
                f.write_str("a record has no link: it was added, or written with the chain off")
            }
            ChainProblemKind::Signature { seq } => {
                write!(f, "the signature of record {seq} does not match the key")
            }
            ChainProblemKind::LastChanged => f.write_str("the last record was changed"),
            ChainProblemKind::UnsignedEnd => f.write_str(
                "the last records have no signature: they were added, or a write was interrupted",
            ),
            ChainProblemKind::NoHead => {
                f.write_str("the head file is missing, so the end of the log cannot be checked")
            }
            ChainProblemKind::DamagedHead => f.write_str("the head file cannot be read"),
            ChainProblemKind::HeadSignature => {
                f.write_str("the signature of the head file does not match the key")
            }
            ChainProblemKind::Anchor { seq } => {
                write!(f, "record {seq} is not the one with the given digest")
            }
        }
    }
}

/// What a chain is checked against.
#[derive(Debug, Clone, Default)]
pub struct ChainExpectation {
    /// The key of the signatures; without one they are not checked.
    pub key: Option<ChainPublicKey>,
    /// The number and the digest of a record, as noted elsewhere: it must be in the log, unless rotation removed it.
    pub anchor: Option<(u64, String)>,
}

/// Checks the files of a log. Blocks.
pub fn verify(log: &Path, expected: &ChainExpectation) -> io::Result<ChainReport> {
    let mut check =
        Check { report: ChainReport::default(), last: None, signed: 0, anchor_seen: false };
    let head = ChainHead::read(log);
    let start = head.as_ref().ok().and_then(Option::as_ref).map(|it| it.start);
    for file in all_files(log)? {
        let mut lines = BufReader::new(File::open(&file)?);
        let (mut number, mut line) = (0, Vec::new());
        while lines.read_until(b'\n', &mut line)? > 0 {
            number += 1;
            let text = String::from_utf8_lossy(&line);
            check.line((&file, number), text.trim_end_matches('\n'), expected, start);
            line.clear();
        }
    }
    check.end(log, head, expected);
    Ok(check.report)
}

struct Check {
    report: ChainReport,
    /// The number and the digest of the last linked line.
    last: Option<(u64, String)>,
    /// The number of the last line that is signed.
    signed: u64,
    anchor_seen: bool,
}

impl Check {
    fn problem(&mut self, (file, line): (&Path, u64), kind: ChainProblemKind) {
        if self.report.problems.len() < MAX_PROBLEMS {
            self.report.problems.push(ChainProblem { file: file.to_owned(), line, kind });
        }
    }

    fn line(
        &mut self,
        at: (&Path, u64),
        line: &str,
        expected: &ChainExpectation,
        start: Option<u64>,
    ) {
        if line.is_empty() {
            return;
        }
        let Some(link) = link_of(line) else {
            match serde_json::from_str::<serde_json::Value>(line).is_ok_and(|it| it.is_object()) {
                // Part of a line: a write failed in the middle. If a whole record was cut, its number is missing.
                false => self.report.torn_lines += 1,
                true if self.last.is_none() => self.report.unlinked_before += 1,
                true => self.problem(at, ChainProblemKind::Unlinked),
            }
            return;
        };
        let hash = sha256(line.as_bytes()).to_string();
        let (last_seq, last_hash) = match &self.last {
            Some((seq, hash)) => (*seq, Some(hash.clone())),
            // Rotation has removed the records before, and the head says which ones.
            None => {
                let first = start.unwrap_or(1);
                (first.saturating_sub(1), (first == 1).then(|| NO_LINE.to_owned()))
            }
        };
        if link.seq <= last_seq {
            return self.problem(at, ChainProblemKind::Moved { seq: link.seq });
        }
        if link.seq > last_seq + 1 {
            let (from, to) = (last_seq + 1, link.seq - 1);
            self.problem(at, ChainProblemKind::Missing { from, to });
        } else if last_hash.is_some_and(|it| it != link.prev) {
            self.problem(at, ChainProblemKind::Changed { seq: last_seq.max(1) });
        }
        if let Some(key) = &expected.key
            && link.sig.is_some()
        {
            match is_line_signed_by(line, key) {
                true => self.signed = link.seq,
                false => self.problem(at, ChainProblemKind::Signature { seq: link.seq }),
            }
        }
        if let Some((seq, anchor)) = &expected.anchor
            && *seq == link.seq
        {
            self.anchor_seen = true;
            if *anchor != hash {
                self.problem(at, ChainProblemKind::Anchor { seq: *seq });
            }
        }
        self.report.records += 1;
        self.last = Some((link.seq, hash));
    }

    fn end(
        &mut self,
        log: &Path,
        head: io::Result<Option<ChainHead>>,
        expected: &ChainExpectation,
    ) {
        let at = (log, 0);
        let start = head.as_ref().ok().and_then(Option::as_ref).map_or(1, |it| it.start);
        match head {
            Err(_) => self.problem(at, ChainProblemKind::DamagedHead),
            Ok(None) if self.last.is_some() => self.problem(at, ChainProblemKind::NoHead),
            Ok(None) => {}
            Ok(Some(head)) => {
                if expected.key.as_ref().is_some_and(|key| !head.is_signed_by(key)) {
                    self.problem(at, ChainProblemKind::HeadSignature);
                }
                let (seq, hash) = self.last.clone().unwrap_or((head.start - 1, String::new()));
                if head.seq > seq {
                    let (from, to) = (seq + 1, head.seq);
                    self.problem(at, ChainProblemKind::Missing { from, to });
                } else if head.seq == seq && head.seq > 0 && !hash.is_empty() && head.hash != hash {
                    self.problem(at, ChainProblemKind::LastChanged);
                } else if head.seq < seq && expected.key.is_some() && self.signed < seq {
                    self.problem(at, ChainProblemKind::UnsignedEnd);
                }
            }
        }
        if let Some((seq, _)) = &expected.anchor
            && !self.anchor_seen
            && *seq >= start
        {
            self.problem(at, ChainProblemKind::Anchor { seq: *seq });
        }
        self.report.last.clone_from(&self.last);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::audit::chain::Chain;
    use crate::audit::files::{AuditFiles, FileLimits};
    use crate::audit::record::{AuditRecord, to_json_line};

    const LIMITS: FileLimits = FileLimits {
        file_bytes: 1 << 20,
        total_bytes: 1 << 30,
        keep: Duration::from_secs(30 * 86_400),
    };

    /// A signed log of ten records, in three writes.
    struct Fixture {
        folder: tempfile::TempDir,
        expected: ChainExpectation,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().expect("a temp folder");
            let key = ChainKey::open_or_create(&folder.path().join("key")).expect("a key");
            let expected = ChainExpectation { key: Some(key.public()), anchor: None };
            let fixture = Fixture { folder, expected };
            for tools in [0..3, 3..6, 6..10] {
                fixture.append(LIMITS, tools, SystemTime::now());
            }
            fixture
        }

        fn log(&self) -> PathBuf {
            self.folder.path().join("audit.jsonl")
        }

        fn append(&self, limits: FileLimits, tools: std::ops::Range<u32>, now: SystemTime) {
            let key = ChainKey::open(&self.folder.path().join("key")).expect("a key");
            let mut files = AuditFiles::new(&self.log(), limits, Some(Chain { key: Some(key) }));
            let line = |tool: u32| {
                let tool = tool.to_string();
                to_json_line(&AuditRecord { tool, ..AuditRecord::begin("cli", "t") })
            };
            let lines: Vec<u8> = tools.flat_map(line).collect();
            files.append(&lines, now).expect("it is written");
        }

        fn lines(&self) -> Vec<String> {
            let text = fs::read_to_string(self.log()).expect("the log");
            text.lines().map(str::to_owned).collect()
        }

        fn write(&self, lines: &[String]) {
            let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
            fs::write(self.log(), text).expect("it is written");
        }

        fn report(&self) -> ChainReport {
            verify(&self.log(), &self.expected).expect("it can be read")
        }

        /// The problems after these changes of the lines.
        fn after(change: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
            let fixture = Fixture::new();
            let mut lines = fixture.lines();
            change(&mut lines);
            fixture.write(&lines);
            fixture.problems()
        }

        fn problems(&self) -> Vec<String> {
            let problems = self.report().problems;
            problems.iter().map(|it| format!("{}: {}", it.line, it.kind)).collect()
        }
    }

    #[test]
    fn a_log_that_was_not_changed_is_whole() {
        let fixture = Fixture::new();
        let report = fixture.report();
        assert_eq!((report.records, report.problems.len()), (10, 0), "{:?}", report.problems);
        assert_eq!(report.last.map(|it| it.0), Some(10));
    }

    #[test]
    fn changes_deletions_moves_and_a_shorter_log_are_found() {
        let edited = Fixture::after(|lines| lines[4] = lines[4].replace("\"4\"", "\"x\""));
        assert_eq!(edited, ["6: record 5 was changed"]);
        let signed = Fixture::after(|lines| lines[5] = lines[5].replace("\"5\"", "\"x\""));
        assert_eq!(
            signed,
            ["6: the signature of record 6 does not match the key", "7: record 6 was changed"]
        );
        assert_eq!(Fixture::after(|lines| drop(lines.remove(4))), ["5: record 5 is missing"]);
        assert_eq!(
            Fixture::after(|lines| drop(lines.drain(..2))),
            ["1: records 1 to 2 are missing"]
        );
        assert_eq!(
            Fixture::after(|lines| lines.swap(3, 4)),
            ["4: record 4 is missing", "5: record 4 is at the wrong place, or is there twice"]
        );
        assert_eq!(Fixture::after(|lines| lines.truncate(6)), ["0: records 7 to 10 are missing"]);
        assert_eq!(Fixture::after(Vec::clear), ["0: records 1 to 10 are missing"]);
        let last = Fixture::after(|lines| lines[9] = lines[9].replace("\"9\"", "\"x\""));
        assert_eq!(
            last,
            [
                "10: the signature of record 10 does not match the key",
                "0: the last record was changed"
            ]
        );
        let added = |lines: &mut Vec<String>| lines.insert(2, "{\"tool\":\"added\"}".to_owned());
        assert_eq!(
            Fixture::after(added),
            ["3: a record has no link: it was added, or written with the chain off"]
        );
    }

    #[test]
    fn links_that_were_computed_again_lack_the_signatures() {
        let fixture = Fixture::new();
        let forged: Vec<u8> = fixture
            .lines()
            .iter()
            .take(5)
            .flat_map(|line| {
                let record: AuditRecord = serde_json::from_str(line).expect("a record");
                to_json_line(&AuditRecord { because: "forged".to_owned(), ..record })
            })
            .collect();
        let mut head = ChainHead::default();
        let unsigned = Chain { key: None };
        fs::write(fixture.log(), crate::audit::chain::link(&forged, &mut head, &unsigned))
            .expect("written");
        head.write(&fixture.log(), &unsigned).expect("written");
        assert_eq!(
            fixture.problems(),
            ["0: the signature of the head file does not match the key"]
        );
        let other = ChainKey::open_or_create(&fixture.folder.path().join("other")).expect("a key");
        let by_other = Chain { key: Some(other) };
        head.write(&fixture.log(), &by_other).expect("written");
        assert_eq!(
            fixture.problems(),
            ["0: the signature of the head file does not match the key"]
        );
    }

    #[test]
    fn a_record_that_was_noted_elsewhere_must_be_in_the_log() {
        let mut fixture = Fixture::new();
        let noted = sha256(fixture.lines()[3].as_bytes()).to_string();
        fixture.expected.anchor = Some((4, noted.clone()));
        assert_eq!(fixture.problems(), [""; 0]);
        fixture.expected.anchor = Some((5, noted.clone()));
        assert_eq!(fixture.problems(), ["5: record 5 is not the one with the given digest"]);
        // An older log with its older head file is whole in itself.
        fixture.expected.anchor = Some((11, noted));
        assert_eq!(fixture.problems(), ["0: record 11 is not the one with the given digest"]);
    }

    #[test]
    fn rotation_keeps_the_chain_whole_and_the_head_knows_what_it_removed() {
        let fixture = Fixture::new();
        let small = FileLimits { file_bytes: 3000, total_bytes: 12_000, keep: Duration::ZERO };
        for tool in 10..60 {
            fixture.append(small, tool..tool + 1, SystemTime::now());
        }
        let report = fixture.report();
        assert_eq!(report.problems, []);
        assert!(report.records < 60, "old records were removed");
        let oldest = all_files(&fixture.log()).expect("files").remove(0);
        fs::remove_file(oldest).expect("it is there");
        assert!(fixture.problems()[0].contains("are missing"), "{:?}", fixture.problems());
    }

    #[test]
    fn lines_that_were_written_without_the_head_are_continued() {
        let fixture = Fixture::new();
        let head = fs::read(crate::audit::chain::head_path(&fixture.log())).expect("the head");
        fixture.append(LIMITS, 10..12, SystemTime::now());
        // The process ended between the two writes.
        fs::write(crate::audit::chain::head_path(&fixture.log()), head).expect("written");
        assert_eq!(fixture.problems(), [""; 0], "the lines are signed");
        fixture.append(LIMITS, 12..13, SystemTime::now());
        let report = fixture.report();
        assert_eq!((report.records, report.problems.as_slice()), (13, &[][..]));
    }

    /// A line that continues the chain of a log, as it can be made without the key.
    fn forged_line(fixture: &Fixture) -> String {
        let mut head = ChainHead::read(&fixture.log()).expect("readable").expect("a head");
        let record = AuditRecord { because: "forged".to_owned(), ..AuditRecord::begin("cli", "t") };
        let unsigned = Chain { key: None };
        let line = crate::audit::chain::link(&to_json_line(&record), &mut head, &unsigned);
        String::from_utf8(line).expect("text").trim().to_owned()
    }

    #[test]
    fn a_line_that_was_added_without_the_key_is_never_signed_over() {
        let fixture = Fixture::new();
        let mut lines = fixture.lines();
        lines.push(forged_line(&fixture));
        fixture.write(&lines);
        let added =
            "0: the last records have no signature: they were added, or a write was interrupted";
        assert_eq!(fixture.problems(), [added]);
        fixture.append(LIMITS, 10..12, SystemTime::now());
        let expected =
            ["12: record 11 is at the wrong place, or is there twice", "13: record 11 was changed"];
        assert_eq!(fixture.problems(), expected);
    }

    #[test]
    fn a_head_that_was_put_there_without_the_key_is_never_signed_over() {
        let fixture = Fixture::new();
        let path = crate::audit::chain::head_path(&fixture.log());
        let mut lines = fixture.lines();
        lines.push(forged_line(&fixture));
        fixture.write(&lines);
        let hash = sha256(lines[10].as_bytes()).to_string();
        let forged = ChainHead { start: 1, seq: 11, hash, sig: None };
        fs::write(path, serde_json::to_vec(&forged).expect("JSON")).expect("written");
        fixture.append(LIMITS, 10..12, SystemTime::now());
        let expected =
            ["12: record 11 is at the wrong place, or is there twice", "13: record 11 was changed"];
        assert_eq!(fixture.problems(), expected);
    }

    #[test]
    fn a_log_that_is_cut_while_it_is_written_to_stays_cut() {
        let fixture = Fixture::new();
        let key = || ChainKey::open(&fixture.folder.path().join("key")).expect("a key");
        let mut files = AuditFiles::new(&fixture.log(), LIMITS, Some(Chain { key: Some(key()) }));
        let line = to_json_line(&AuditRecord::begin("cli", "t"));
        let (old_log, old_head) = (fixture.lines(), crate::audit::chain::head_path(&fixture.log()));
        let older = fs::read(&old_head).expect("the head");
        files.append(&line, SystemTime::now()).expect("written");
        // Both as they were before: whole in itself.
        fixture.write(&old_log);
        fs::write(old_head, older).expect("written");
        assert_eq!(fixture.problems(), [""; 0]);
        files.append(&line, SystemTime::now()).expect("written");
        assert_eq!(fixture.problems(), ["11: record 11 is missing"]);
    }

    #[test]
    fn a_chain_may_be_signed_from_some_line_on() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let log = folder.path().join("audit.jsonl");
        let key = ChainKey::open_or_create(&folder.path().join("key")).expect("a key");
        let expected = ChainExpectation { key: Some(key.public()), anchor: None };
        let line = to_json_line(&AuditRecord::begin("cli", "t"));
        for key in [None, Some(key)] {
            let mut files = AuditFiles::new(&log, LIMITS, Some(Chain { key }));
            files.append(&line, SystemTime::now()).expect("written");
        }
        let report = verify(&log, &expected).expect("readable");
        assert_eq!((report.records, report.problems.as_slice()), (2, &[][..]));
    }

    #[test]
    fn a_torn_line_is_counted_and_the_chain_goes_on() {
        let fixture = Fixture::new();
        let mut text = fs::read_to_string(fixture.log()).expect("the log");
        text.push_str("{\"half\": \"");
        fs::write(fixture.log(), text).expect("written");
        fixture.append(LIMITS, 10..11, SystemTime::now());
        let report = fixture.report();
        assert_eq!((report.records, report.torn_lines, report.problems.len()), (11, 1, 0));
    }

    #[test]
    fn a_chain_may_begin_in_a_log_that_has_records() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let log = folder.path().join("audit.jsonl");
        let line = to_json_line(&AuditRecord::begin("cli", "t"));
        AuditFiles::new(&log, LIMITS, None).append(&line, SystemTime::now()).expect("written");
        let chain = Some(Chain { key: None });
        AuditFiles::new(&log, LIMITS, chain).append(&line, SystemTime::now()).expect("written");
        let report = verify(&log, &ChainExpectation::default()).expect("readable");
        assert_eq!((report.records, report.unlinked_before, report.problems.len()), (1, 1, 0));
    }
}
