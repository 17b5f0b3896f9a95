//! What is said about an answer. All words here are ours: nothing of the server's is in them.

use std::fmt;

use super::image_fit::ImageRejection;
use super::spill::{ResultId, SpillError};

/// The name of the built-in tool that reads the rest of a result.
pub const READ_RESULT: &str = "ReadMcpResult";

/// Something that was done to an answer, or was odd about it.
#[derive(Debug)]
pub enum Note {
    /// Text was cut.
    Truncated {
        /// How many characters are shown.
        shown: usize,
        /// How many there were.
        of: usize,
        /// What the whole text is kept under; none if it could not be kept.
        id: Option<ResultId>,
    },
    /// Some parts were too many.
    PartsOmitted {
        /// How many.
        parts: usize,
        /// What the whole answer is kept under; none if it could not be kept.
        id: Option<ResultId>,
    },
    /// A picture was made smaller.
    ImageResized {
        /// Its width and height before.
        from: (u32, u32),
        /// Its width and height now.
        to: (u32, u32),
    },
    /// Only the first frame of a moving picture is shown.
    AnimationFlattened,
    /// A picture is something other than the server says.
    MimeMismatch {
        /// What it is.
        actual: &'static str,
    },
    /// A picture is not shown; it lies in a file.
    ImageNotShown(ImageRejection),
    /// Something called itself base64 and is not; it is saved as it came.
    InvalidBase64,
    /// The answer is not shaped as the protocol says; it is passed on as it came.
    UnexpectedShape,
    /// There was no content, so the structured content stands in for it.
    FromStructured,
    /// Something could not be kept.
    SpillFailed(SpillError),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Truncated { shown, of, id } => {
                write!(f, "the text is cut: {shown} of {of} characters are shown; ")?;
                write_rest(f, id.as_ref())
            }
            Note::PartsOmitted { parts, id } => {
                write!(f, "{parts} parts of the answer are left out; ")?;
                write_rest(f, id.as_ref())
            }
            Note::ImageResized { from, to } => {
                let ((w, h), (width, height)) = (from, to);
                write!(f, "a picture of {w}x{h} pixels was made smaller, to {width}x{height}")
            }
            Note::AnimationFlattened => f.write_str("a moving picture is shown by its first frame"),
            Note::MimeMismatch { actual } => {
                write!(f, "a picture is {actual} and not what the server says")
            }
            Note::ImageNotShown(rejection) => {
                write!(f, "a picture was saved and not shown: {rejection}")
            }
            Note::InvalidBase64 => f.write_str("data is not base64 and was saved as it came"),
            Note::UnexpectedShape => f.write_str("the answer is not shaped as the protocol says"),
            Note::FromStructured => {
                f.write_str("the answer has no content; its structured content is shown")
            }
            Note::SpillFailed(kind) => write!(f, "something could not be kept: {kind}"),
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
