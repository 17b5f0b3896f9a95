//! State that survives a run: caches with a time to live, and the servers' stderr logs. Files are written by
//! background threads, so callers never wait for the disk.

pub(crate) mod private_file;
pub(crate) mod stderr_log;
pub(crate) mod ttl_cache;
