//! Why a bundle is refused.

use std::io;
use std::path::PathBuf;

use switchboard_config::bundle::{BundleHash, ManifestError};
use thiserror::Error;

/// A bundle could not be read or installed. Nothing was changed.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The file could not be read.
    #[error("could not read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The files could not be written.
    #[error("could not write below {}", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The archive is damaged or not safe to unpack.
    #[error("{} is not a bundle that can be unpacked safely", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: ArchiveError,
    },
    /// The manifest is not valid.
    #[error("the manifest of {} is not valid", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: ManifestError,
    },
    /// The bundle has a signature that does not verify.
    #[error("the signature of {} is broken", .path.display())]
    BrokenSignature {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: SignatureFault,
    },
    /// The bundle is not installed.
    #[error("no bundle {} is installed", .hash.short())]
    NotInstalled {
        /// Its hash.
        hash: BundleHash,
    },
}

/// Why an archive is refused. Names of entries are untrusted text.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// It is not a ZIP archive, or it is damaged.
    #[error("it is not a valid ZIP archive: {detail}")]
    Invalid {
        /// What is wrong.
        detail: String,
    },
    /// It is not a tar archive, or it is damaged.
    #[error("it is not a valid tar archive: {detail}")]
    InvalidTar {
        /// What is wrong.
        detail: String,
    },
    /// Reading it failed.
    #[error("it could not be read")]
    Io(#[source] io::Error),
    /// There is data that belongs to no entry, before or behind the archive.
    #[error("there is data around the archive that belongs to no file")]
    StrayData,
    /// It has two ends, so that programs could disagree about what is in it.
    #[error("it has more than one end record")]
    TwoEnds,
    /// It has no manifest in its root.
    #[error("it has no file `manifest.json` in its root")]
    NoManifest,
    /// The manifest is too large or not UTF-8.
    #[error("its manifest is too large, or not UTF-8 text")]
    UnreadableManifest,
    /// There are too many entries.
    #[error("it has more than {limit} entries")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// The files are too large together.
    #[error("its files have more than {limit} bytes together")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The files are suspiciously well compressed.
    #[error("its files are more than {limit} times as large as the archive")]
    CompressionBomb {
        /// The limit.
        limit: u64,
    },
    /// The name of an entry is not safe.
    #[error("the name `{name}` {fault}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// Two entries have the same name.
    #[error("two of its entries have the same name")]
    DuplicateEntries,
    /// The names of two entries differ only in upper and lower case, or a folder is there twice.
    #[error(
        "the name `{name}` is there twice, or differs from another only in upper and lower case"
    )]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A file has the name of a folder.
    #[error("`{name}` is both a file and a folder")]
    FileAndFolder {
        /// The name.
        name: String,
    },
    /// The entry is a link or another special file.
    #[error("`{name}` is a link or a special file")]
    SpecialFile {
        /// The name.
        name: String,
    },
    /// The entry is encrypted.
    #[error("`{name}` is encrypted")]
    Encrypted {
        /// The name.
        name: String,
    },
    /// The entry has a compression that bundles do not use.
    #[error("`{name}` has a compression other than deflate")]
    Compression {
        /// The name.
        name: String,
    },
    /// The content of the entry is damaged.
    #[error("`{name}` is damaged")]
    Damaged {
        /// The name.
        name: String,
    },
    /// A file could not be written.
    #[error("`{name}` could not be written")]
    Write {
        /// The name.
        name: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

/// What is wrong with the name of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameFault {
    /// It is empty.
    #[error("has an empty part")]
    Empty,
    /// It is absolute.
    #[error("is absolute")]
    Absolute,
    /// It leads out of the folder.
    #[error("has a part `.` or `..`")]
    Dots,
    /// It has a backslash, a colon or a control character.
    #[error("has a backslash, a colon or a control character")]
    Character,
    /// It is too long, or has too many parts.
    #[error("is too long")]
    TooLong,
    /// It is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
}

/// Why a signature does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SignatureFault {
    /// The block behind the archive has no valid form.
    #[error("the signature block is damaged")]
    Block,
    /// The content of the block is not a detached CMS signature.
    #[error("it is not a detached CMS signature")]
    Structure,
    /// There is not exactly one signature.
    #[error("there is not exactly one signature")]
    SignerCount,
    /// A certificate cannot be read, or the signer's is missing.
    #[error("the certificate of the signer is missing or damaged")]
    Certificate,
    /// A required attribute is missing or there twice.
    #[error("the signed attributes are not complete")]
    Attributes,
    /// The algorithm is not supported.
    #[error("the algorithm is not RSA or ECDSA with SHA-256")]
    Algorithm,
    /// The archive is not the one that was signed.
    #[error("the archive was changed after it was signed")]
    Digest,
    /// The signature is not by the key of the certificate.
    #[error("the signature does not match the certificate")]
    Mismatch,
}
