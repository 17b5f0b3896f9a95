//! The limit on open files of this process.

/// Lets this process hold as many programs as it may: each takes a handful of open files.
pub fn raise_file_limit() {
    const WANTED_FILES: u64 = 16_384;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED_FILES, |most| most.min(WANTED_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = rustix::process::Rlimit { current: Some(wanted), maximum: limit.maximum };
        let _stays_low = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }
}
