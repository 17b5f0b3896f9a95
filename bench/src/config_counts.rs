//! Counts of the servers, files and problems in a configuration.

use std::fmt;

/// How much configuration there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigCounts {
    /// Definitions of servers, whatever became of them.
    pub servers: usize,
    /// Files that hold any.
    pub files: usize,
    /// What is wrong with them.
    pub problems: usize,
}

impl fmt::Display for ConfigCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigCounts { servers, files, problems } = self;
        write!(out, "{servers} servers in {files} files with {problems} problems")
    }
}
