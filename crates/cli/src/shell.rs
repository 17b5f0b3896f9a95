//! Shell completion: the scripts, and the candidates for the word at the cursor.

pub mod candidates;
pub mod completion;
pub mod scripts;
