//! Numbers from environment variables.

use std::time::Duration;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// A variable that holds a whole number above zero.
pub fn positive_number(
    invocation: &Invocation,
    name: &str,
    default: usize,
) -> Result<usize, Failure> {
    match invocation.env.variables.get(name).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("{name} must be a whole number above zero"))
        }),
    }
}

/// A variable that holds milliseconds.
pub fn duration_variable(
    invocation: &Invocation,
    name: &str,
    default: Duration,
) -> Result<Duration, Failure> {
    let default = usize::try_from(default.as_millis()).unwrap_or(usize::MAX);
    let number = positive_number(invocation, name, default)?;
    Ok(Duration::from_millis(u64::try_from(number).unwrap_or(u64::MAX)))
}

/// `MAX_MCP_OUTPUT_TOKENS`, if it is set.
pub fn max_output_tokens(invocation: &Invocation) -> Result<Option<usize>, Failure> {
    const NAME: &str = "MAX_MCP_OUTPUT_TOKENS";
    match invocation.env.variables.get(NAME).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(_) => positive_number(invocation, NAME, 0).map(Some),
    }
}
