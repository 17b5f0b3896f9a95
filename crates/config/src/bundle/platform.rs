//! The platforms that manifests name.

/// A platform as manifests name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundlePlatform {
    /// macOS.
    Darwin,
    /// Windows.
    Win32,
    /// Linux, and every other Unix.
    Linux,
}

impl BundlePlatform {
    /// The platform that this program is built for.
    pub const CURRENT: BundlePlatform = if cfg!(windows) {
        BundlePlatform::Win32
    } else if cfg!(target_os = "macos") {
        BundlePlatform::Darwin
    } else {
        BundlePlatform::Linux
    };

    /// Its name in manifests.
    pub fn id(self) -> &'static str {
        match self {
            BundlePlatform::Darwin => "darwin",
            BundlePlatform::Win32 => "win32",
            BundlePlatform::Linux => "linux",
        }
    }

    pub(super) fn separator(self) -> &'static str {
        match self {
            BundlePlatform::Darwin | BundlePlatform::Linux => "/",
            BundlePlatform::Win32 => "\\",
        }
    }
}
