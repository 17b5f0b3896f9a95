//! Statistics of this process from `/proc`. On systems other than Linux all values are missing.

use std::fs;

/// The statistics of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProcessStats {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) threads: Option<u64>,
}

impl ProcessStats {
    /// Reads the current values.
    pub(crate) fn current() -> ProcessStats {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").ok();
        ProcessStats {
            // One of them is the open directory itself.
            open_files: files.map(|it| (it.count() as u64).saturating_sub(1)),
            ..ProcessStats::parse_stat(&stat, rustix::param::clock_ticks_per_second(), page_size())
        }
    }

    /// Parses `/proc/self/stat`. Its second field is a name in parentheses, which may contain any character.
    fn parse_stat(stat: &str, ticks: u64, page: u64) -> ProcessStats {
        let after_name = stat.rsplit_once(')').map(|it| it.1).unwrap_or_default();
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|it| it.parse::<u64>().ok());
        let cpu_ticks = number(11).zip(number(12)).map(|(user, system)| user + system);
        ProcessStats {
            cpu_seconds: cpu_ticks.map(|it| it as f64 / ticks.max(1) as f64),
            resident_bytes: number(21).map(|it| it * page),
            virtual_bytes: number(20),
            threads: number(17),
            open_files: None,
        }
    }
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_fields() {
        let stat = "12 (a) b) S 1 12 12 0 -1 0 10 0 0 0 150 50 0 0 20 0 7 0 99 4096 3 18446744073709551615";
        let stats = ProcessStats::parse_stat(stat, 100, 4096);
        let expected = ProcessStats {
            cpu_seconds: Some(2.0),
            resident_bytes: Some(12_288),
            virtual_bytes: Some(4096),
            threads: Some(7),
            open_files: None,
        };
        assert_eq!(stats, expected);
        assert_eq!(ProcessStats::parse_stat("", 100, 4096), ProcessStats::default());
    }
}
