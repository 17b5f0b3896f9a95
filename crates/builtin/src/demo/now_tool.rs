//! The tool `now`: the current time in a time zone.

use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

const DAY: i64 = 24 * 3600;
const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

#[derive(Deserialize, JsonSchema)]
struct NowArguments {
    /// The time zone, as its distance from UTC: +02:00
    #[schemars(regex(pattern = "^[+-][0-9]{2}:[0-9]{2}$"))]
    offset: Option<String>,
}

pub(crate) fn now_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"time": {"type": "string"}, "weekday": {"type": "string"}},
        "required": ["time", "weekday"],
    });
    Tool::typed("now", "Tells the time, in UTC or at a distance from it.", current_time)
        .output_schema(schema)
        .read_only()
}

async fn current_time(
    _: HandlerContext,
    arguments: NowArguments,
) -> Result<ToolOutput, HandlerError> {
    let offset = match &arguments.offset {
        None => 0,
        Some(text) => parse_offset(text).ok_or_else(|| {
            HandlerError::failed("`offset` has to look like +02:00, up to 18 hours")
        })?,
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (time, weekday) =
        format_rfc3339(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), offset);
    Ok(ToolOutput::structured(
        json!({"time": time, "weekday": weekday}),
        format!("{weekday}, {time}"),
    ))
}

/// The offset from UTC in seconds.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |it: &str| {
        (it.len() == 2 && it.bytes().all(|byte| byte.is_ascii_digit())).then(|| it.parse().ok())?
    };
    let (hours, minutes): (i64, i64) = (number(hours)?, number(minutes)?);
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A time in RFC 3339, and its weekday.
fn format_rfc3339(utc: i64, offset: i64) -> (String, &'static str) {
    let local = utc.saturating_add(offset);
    let (days, seconds) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, day) = civil_date(days);
    let weekday = usize::try_from(days.rem_euclid(7)).map_or("", |it| WEEKDAYS[it]);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let zone = match offset {
        0 => "Z".to_owned(),
        _ => {
            let sign = if offset < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60)
        }
    };
    let time = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}");
    (time, weekday)
}

/// The date of a day counted from 1970-01-01. Years start in March, so that the leap day is last; an era is 400
/// years.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_with_date_and_weekday() {
        let check = |utc, offset, time: &str, weekday| {
            assert_eq!(format_rfc3339(utc, offset), (time.to_owned(), weekday));
        };
        check(0, 0, "1970-01-01T00:00:00Z", "Thursday");
        check(951_782_400, 0, "2000-02-29T00:00:00Z", "Tuesday");
        check(1_785_196_799, 7200, "2026-07-28T01:59:59+02:00", "Tuesday");
        check(-1, -5400, "1969-12-31T22:29:59-01:30", "Wednesday");
    }

    #[test]
    fn an_offset_has_one_format() {
        assert_eq!(parse_offset("+02:00"), Some(7200));
        assert_eq!(parse_offset("-01:30"), Some(-5400));
        for text in ["", "02:00", "+2:00", "+02:60", "+19:00", "+0x:00", "é02:00", "+02:00 "] {
            assert_eq!(parse_offset(text), None, "{text}");
        }
    }
}
