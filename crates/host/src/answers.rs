//! What servers are told when they ask and nobody else is there to answer.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use serde_json::{Value as Json, json};
use switchboard_wire::client::Respond;
use switchboard_wire::message::{Payload, RemoteError};
use url::Url;

/// Knows the folders that somebody works in, and declines what only a person could answer.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    roots: Json,
}

impl Answers {
    pub(crate) fn new(folders: &[PathBuf]) -> Answers {
        let root = |folder: &PathBuf| {
            let uri = Url::from_directory_path(folder).ok()?;
            let uri = uri.as_str().trim_end_matches('/').to_owned();
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(json!({"uri": uri, "name": name.unwrap_or_default()}))
        };
        Answers { roots: json!({"roots": folders.iter().filter_map(root).collect::<Vec<_>>()}) }
    }

    fn answer(&self, method: &str) -> Result<Json, RemoteError> {
        match method {
            "roots/list" => Ok(self.roots.clone()),
            "elicitation/create" => Ok(json!({"action": "decline"})),
            "ping" => Ok(json!({})),
            _ => Err(RemoteError {
                code: -32601,
                message: format!("this client does not answer `{method}`"),
                data: None,
            }),
        }
    }
}

impl Respond for Answers {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        _params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>> {
        let answer = self.answer(method);
        Box::pin(async move { answer.map(|json| Payload::from_json(json.to_string().into())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_the_folders_and_people_are_not_made_up() {
        let answers = Answers::new(&[PathBuf::from("/srv/a b")]);
        assert_eq!(
            answers.answer("roots/list"),
            Ok(json!({"roots": [{"uri": "file:///srv/a%20b", "name": "a b"}]}))
        );
        assert_eq!(answers.answer("elicitation/create"), Ok(json!({"action": "decline"})));
        assert_eq!(answers.answer("sampling/createMessage").map_err(|it| it.code), Err(-32601));
    }
}
