//! Elicitation: requests from servers to the user, forms and URLs, and who answers them: the user, a hook or scripted
//! answers. `connection` receives the requests and sends the results.

pub mod elicitor;
pub mod form;
pub(crate) mod hook;
pub mod scripted_answers;
pub(crate) mod url;
