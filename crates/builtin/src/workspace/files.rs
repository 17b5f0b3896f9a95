//! TODO facade

pub(crate) mod allowed_roots;
pub(crate) mod contents;
pub(crate) mod file_error;
pub(crate) mod read_files;
pub(crate) mod replace;
pub(crate) mod text_encoding;
pub(crate) mod walk;
