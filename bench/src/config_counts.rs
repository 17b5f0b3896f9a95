//! Counts of the servers, files and problems in a configuration.

use std::fmt;

/// The size of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigCounts {
    /// Definitions of servers in any state.
    pub servers: usize,
    /// Files that define servers.
    pub files: usize,
    /// Problems in these files.
    pub problems: usize,
}

impl fmt::Display for ConfigCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigCounts { servers, files, problems } = self;
        write!(out, "{servers} servers in {files} files with {problems} problems")
    }
}
