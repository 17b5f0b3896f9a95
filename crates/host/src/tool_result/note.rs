//! Notes about a converted result. Their texts contain nothing from the server.

use std::fmt;

use super::image_fit::ImageRejection;
use super::spill::{ResultId, SpillError};

/// The name of the built-in tool that reads the rest of a result.
pub const READ_RESULT: &str = "ReadMcpResult";

/// A note about a change to a result or something unusual in it.
#[derive(Debug)]
pub enum Note {
    /// Text was truncated.
    Truncated {
        /// The number of characters shown.
        shown: usize,
        /// The total number of characters.
        of: usize,
        /// The id of the saved text; `None` if it could not be saved.
        id: Option<ResultId>,
    },
    /// Blocks beyond the limit were omitted.
    PartsOmitted {
        /// The number of omitted blocks.
        parts: usize,
        /// The id of the saved response; `None` if it could not be saved.
        id: Option<ResultId>,
    },
    /// An image was resized.
    ImageResized {
        /// The width and height before.
        from: (u32, u32),
        /// The width and height now.
        to: (u32, u32),
    },
    /// Only the first frame of an animation is shown.
    AnimationFlattened,
    /// An image does not have the type that the server claims.
    MimeMismatch {
        /// The detected type.
        actual: &'static str,
    },
    /// An image is not shown but saved to a file.
    ImageNotShown(ImageRejection),
    /// Data is not valid base64 and was saved as it came.
    InvalidBase64,
    /// The result does not match the protocol and is passed on as it came.
    UnexpectedShape,
    /// The result has no content, so its structured content is shown.
    FromStructured,
    /// Something could not be saved.
    SpillFailed(SpillError),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Truncated { shown, of, id } => {
                write!(f, "the text is truncated: {shown} of {of} characters are shown; ")?;
                write_rest(f, id.as_ref())
            }
            Note::PartsOmitted { parts, id } => {
                write!(f, "{parts} content blocks are omitted; ")?;
                write_rest(f, id.as_ref())
            }
            Note::ImageResized { from, to } => {
                let ((w, h), (width, height)) = (from, to);
                write!(f, "an image was resized from {w}x{h} to {width}x{height} pixels")
            }
            Note::AnimationFlattened => f.write_str("an animation is shown as its first frame"),
            Note::MimeMismatch { actual } => {
                write!(f, "an image is {actual}, not the type that the server claims")
            }
            Note::ImageNotShown(rejection) => {
                write!(f, "an image was saved and not shown: {rejection}")
            }
            Note::InvalidBase64 => f.write_str("data is not valid base64 and was saved as it came"),
            Note::UnexpectedShape => f.write_str("the result does not match the protocol"),
            Note::FromStructured => {
                f.write_str("the result has no content; its structured content is shown")
            }
            Note::SpillFailed(kind) => write!(f, "something could not be saved: {kind}"),
        }
    }
}

fn write_rest(f: &mut fmt::Formatter<'_>, id: Option<&ResultId>) -> fmt::Result {
    match id {
        Some(id) => write!(
            f,
            "for the rest run `swb result {id} --lines 1-200`, or call the tool `{READ_RESULT}` with that id"
        ),
        None => f.write_str("the rest is lost"),
    }
}
