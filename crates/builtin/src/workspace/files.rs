//! File operations inside the allowed folders: resolving paths, reading, replacing, and walking folders.
//! Nothing here knows tools or sessions.

pub(crate) mod allowed_roots;
pub(crate) mod contents;
pub(crate) mod file_error;
pub(crate) mod read_files;
pub(crate) mod replace;
pub(crate) mod resolved_path;
mod similar_places;
pub(crate) mod text_encoding;
pub(crate) mod walk;
