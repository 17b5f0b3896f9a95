//! What a process that runs holds and has used, as the system says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;

/// The unit of processor time in `/proc`, which has been the same on every Linux for decades.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all threads so far, those that have ended included: the program's and the system's on its behalf.
pub fn cpu_time(process: u32) -> Result<Duration, Failure> {
    let text = read(process, "stat")?;
    let ticks = ticks(&text).ok_or(Failure::InvalidRequest)?;
    Ok(TICK * ticks)
}

/// The thirteenth and fourteenth word after the command's name, which may hold anything but ends with the last bracket.
fn ticks(stat: &str) -> Option<u32> {
    let after = stat.rsplit_once(')')?.1;
    let mut words = after.split_whitespace().skip(11);
    let mut next = || words.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

/// Memory that is in use now, in megabytes.
pub fn resident_megabytes(process: u32) -> Result<f64, Failure> {
    let text = read(process, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kilobytes.ok_or(Failure::InvalidRequest)? * 1024.0 / 1e6)
}

fn read(process: u32, file: &str) -> Result<String, Failure> {
    let path = Path::new("/proc").join(process.to_string()).join(file);
    fs::read_to_string(&path).map_err(|error| Failure::file(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_parsed_after_any_program_name() {
        let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4194560 1 2 3 4 250 30 0 0 20 0 3 0 9";
        assert_eq!(ticks(stat), Some(280));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
