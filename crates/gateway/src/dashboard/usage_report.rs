//! What was used in a period: a roll-up of audit records by time, server, tool and principal. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use switchboard::audit::log::{AuditRecord, STARTED};
use switchboard::utc_timestamp;

/// How many rows a table has.
const MAX_ROWS: usize = 20;

/// A period up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Period {
    Day,
    Week,
    Month,
}

impl Period {
    pub(crate) const ALL: [Period; 3] = [Period::Day, Period::Week, Period::Month];

    /// The value in links.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Period::Day => "24h",
            Period::Week => "7d",
            Period::Month => "30d",
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Period::Day => "Last 24 hours",
            Period::Week => "Last 7 days",
            Period::Month => "Last 30 days",
        }
    }

    pub(crate) fn parse(text: &str) -> Period {
        Period::ALL.into_iter().find(|it| it.id() == text).unwrap_or(Period::Day)
    }

    /// The number of bars, and how long each is.
    fn bars(self) -> (usize, Duration) {
        let hours = |count: u64| Duration::from_secs(count * 3600);
        match self {
            Period::Day => (24, hours(1)),
            Period::Week => (28, hours(6)),
            Period::Month => (30, hours(24)),
        }
    }
}

/// The calls of one bar or row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Use {
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) denied: u64,
    total_ms: u64,
    longest_ms: u64,
}

impl Use {
    fn add(&mut self, record: &AuditRecord) {
        self.calls += 1;
        match record.outcome.as_str() {
            "tool-error" | "failed" | "timeout" => self.errors += 1,
            "denied" => self.denied += 1,
            _ => {}
        }
        self.total_ms = self.total_ms.saturating_add(record.duration_ms);
        self.longest_ms = self.longest_ms.max(record.duration_ms);
    }

    /// The mean duration, in milliseconds.
    pub(crate) fn mean_ms(&self) -> u64 {
        self.total_ms.checked_div(self.calls).unwrap_or_default()
    }

    /// The longest duration, in milliseconds.
    pub(crate) fn longest_ms(&self) -> u64 {
        self.longest_ms
    }
}

/// What was used in a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UsageReport {
    pub(crate) total: Use,
    /// By time, oldest first, with the start of each bar as a UTC timestamp.
    pub(crate) bars: Vec<(String, Use)>,
    /// The most used servers, tools (server and tool) and principals.
    pub(crate) servers: Vec<(String, Use)>,
    pub(crate) tools: Vec<((String, String), Use)>,
    pub(crate) principals: Vec<(String, Use)>,
    /// The time of the oldest record, where the log has older ones that were not read.
    pub(crate) covers_since: Option<String>,
    /// Why the log could not be read.
    pub(crate) failure: Option<String>,
}

impl UsageReport {
    /// A report that says why there is none.
    pub(crate) fn failed(why: String) -> UsageReport {
        UsageReport { failure: Some(why), ..UsageReport::default() }
    }

    /// The report of records up to now.
    pub(crate) fn of(records: &[AuditRecord], period: Period, is_partial: bool) -> UsageReport {
        UsageReport::at(records, period, is_partial, SystemTime::now())
    }

    fn at(
        records: &[AuditRecord],
        period: Period,
        is_partial: bool,
        now: SystemTime,
    ) -> UsageReport {
        let (count, length) = period.bars();
        // Bars begin at full hours or days.
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let this_bar = since_epoch - since_epoch % length.as_secs();
        let start = |back: usize| {
            let seconds = this_bar.saturating_sub(length.as_secs().saturating_mul(back as u64));
            utc_timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        let mut bars: Vec<(String, Use)> =
            (0..count).rev().map(|back| (start(back), Use::default())).collect();
        let first = bars.first().map(|it| it.0.clone()).unwrap_or_default();
        let mut report = UsageReport::default();
        let (mut servers, mut tools, mut principals) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        // Timestamps are UTC in one format, so they compare as text.
        for record in records.iter().filter(|it| it.outcome != STARTED && it.time >= first) {
            report.total.add(record);
            let bar = bars.partition_point(|it| it.0 <= record.time).saturating_sub(1);
            bars[bar].1.add(record);
            let count = |table: &mut BTreeMap<String, Use>, name: &str| {
                table.entry(name.to_owned()).or_default().add(record);
            };
            count(&mut servers, &record.server);
            count(&mut principals, &record.caller);
            let tool = (record.server.clone(), record.tool.clone());
            tools.entry(tool).or_insert_with(Use::default).add(record);
        }
        report.bars = bars;
        report.servers = most_used(servers);
        report.tools = most_used(tools);
        report.principals = most_used(principals);
        let oldest = records.first().map(|it| it.time.clone()).filter(|it| *it > first);
        report.covers_since = oldest.filter(|_| is_partial);
        report
    }
}

fn most_used<K: Ord>(table: BTreeMap<K, Use>) -> Vec<(K, Use)> {
    let mut rows: Vec<(K, Use)> = table.into_iter().collect();
    rows.sort_by_key(|it| Reverse(it.1.calls));
    rows.truncate(MAX_ROWS);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half past an hour.
    const NOW: u64 = 1_800_001_800;

    fn record(age: u64, tool: &str, outcome: &str) -> AuditRecord {
        let mut record =
            AuditRecord::begin("ada", "mcp__s__t").with_duration(Duration::from_millis(age));
        record.time = utc_timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - age));
        (record.server, record.tool, record.outcome) =
            ("s".to_owned(), tool.to_owned(), outcome.to_owned());
        record
    }

    #[test]
    fn records_are_counted_by_time_and_by_tool_and_older_ones_are_left_out() {
        let records = [
            record(40 * 24 * 3600, "old", "ok"),
            record(2 * 3600, "b", "failed"),
            record(20, "a", "denied"),
            record(10, "a", "ok"),
            record(5, "a", STARTED),
        ];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let day = UsageReport::at(&records, Period::Day, false, now);
        assert_eq!((day.total.calls, day.total.errors, day.total.denied), (3, 1, 1));
        assert_eq!(day.bars.len(), 24);
        let bars: Vec<u64> = day.bars.iter().rev().take(3).map(|it| it.1.calls).collect();
        assert_eq!(bars, [2, 0, 1]);
        let tools: Vec<_> = day.tools.iter().map(|it| (it.0.1.as_str(), it.1.calls)).collect();
        assert_eq!(tools, [("a", 2), ("b", 1)]);
        assert_eq!((day.tools[0].1.mean_ms(), day.tools[0].1.longest_ms()), (15, 20));
        let month = UsageReport::at(&records, Period::Month, true, now);
        assert_eq!((month.bars.len(), month.total.calls), (30, 3));
        assert_eq!(month.covers_since, None, "an older record was read");
        let partial = UsageReport::at(&records[1..], Period::Month, true, now);
        assert_eq!(partial.covers_since, Some(records[1].time.clone()));
    }
}
