//! Reads the audit log of `swb` while it is written: its length, and the time of the last record.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

use crate::failure::Failure;

/// How many bytes of the end are read. A record is shorter.
const TAIL_BYTES: u64 = 4096;

/// Its path below the disk for state.
const AUDIT_LOG_PATH: &str = "state/switchboard/audit.jsonl";

/// The audit log file.
#[derive(Debug)]
pub struct AuditLog(PathBuf);

impl AuditLog {
    /// The audit log on a disk; the program must have written it already.
    pub fn find(disk: &Path) -> Result<AuditLog, Failure> {
        let path = disk.join(AUDIT_LOG_PATH);
        match path.is_file() {
            true => Ok(AuditLog(path)),
            false => Err(Failure::new(format!("there is no audit log at {}", path.display()))),
        }
    }

    /// A value that changes with every record: the file grows and is rotated when it is large.
    pub fn fingerprint(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&self.0).ok().map(|it| (it.ino(), it.len()))
    }

    /// The difference between the last record's time and the actual time, in seconds.
    pub fn clock_offset(&self) -> Option<i64> {
        let mut file = File::open(&self.0).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let last = text.trim_end().lines().next_back()?;
        let record: Json = serde_json::from_str(last).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        Some(unix_seconds(record["time"].as_str()?)? - i64::try_from(now).ok()?)
    }
}

/// Seconds since 1970 of a time like `2026-08-01T12:00:00Z`.
fn unix_seconds(time: &str) -> Option<i64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Years start in March, so that the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    const UNTIL_1970: i64 = 719_468;
    Some((((days - UNTIL_1970) * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(unix_seconds("2000-02-29T12:34:56.789Z"), Some(951_827_696));
        assert_eq!(unix_seconds("2026-11-16T13:12:25Z"), Some(1_794_834_745));
        assert_eq!(unix_seconds("soon"), None);
    }
}
