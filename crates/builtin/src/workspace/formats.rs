//! File formats that `Read` shows in a special way: pictures, notebooks, PDFs.

mod decode_budget;
pub(crate) mod image;
pub(crate) mod notebook;
pub mod pdf_text;
