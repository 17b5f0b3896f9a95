//! The audit log of the program as it is written: how long it is, and what time it says it is.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

use crate::failure::Failure;

/// So much of the end is read. A record is shorter.
const TAIL_BYTES: u64 = 4096;

/// Where it is below the disk that state is on.
const AUDIT_LOG_PATH: &str = "state/switchboard/audit.jsonl";

/// The file.
#[derive(Debug)]
pub struct AuditLog(PathBuf);

impl AuditLog {
    /// On a disk, where the program has written it by now.
    pub fn find(disk: &Path) -> Result<AuditLog, Failure> {
        let path = disk.join(AUDIT_LOG_PATH);
        match path.is_file() {
            true => Ok(AuditLog(path)),
            false => Err(Failure::new(format!("there is no audit log at {}", path.display()))),
        }
    }

    /// What tells one state of it from another: it grows, and is put aside when it is large.
    pub fn fingerprint(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&self.0).ok().map(|it| (it.ino(), it.len()))
    }

    /// How far the last record's time is from ours, in seconds.
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
    // Years begin in March, so that the day that is not always there is the last one.
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
