//! State that survives a run: caches with a time to live, and the servers' stderr logs. Files are written by
//! background threads, so callers never wait for the disk.

pub mod stderr_log;
pub mod ttl_cache;
