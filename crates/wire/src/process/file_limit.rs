//! The limit on open files of this process.

/// Raises the soft limit on open files, because each program needs several.
pub fn raise_file_limit() {
    const MAX_FILES: u64 = 16_384;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let target = limit.maximum.map_or(MAX_FILES, |hard| hard.min(MAX_FILES));
    if limit.current.is_some_and(|current| current < target) {
        let raised = rustix::process::Rlimit { current: Some(target), maximum: limit.maximum };
        let _stays_low = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }
}
