//! A workspace for tests. Every result is validated against its tool's output schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Value as Json, json};
use switchboard_builtin::workspace::{self, AddedRoots, ClientRoots, WorkspaceSettings};
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::in_memory;

use crate::test_client::TestClient;

pub struct WorkspaceFixture {
    home: Arc<tempfile::TempDir>,
    pub test_client: TestClient,
    /// The tools as listed.
    pub tools: Vec<Json>,
    schemas: BTreeMap<String, Validator>,
}

impl WorkspaceFixture {
    pub async fn new(era: Era) -> WorkspaceFixture {
        let home = tempfile::tempdir().expect("a temp folder");
        fs::create_dir(home.path().join("root")).expect("a folder");
        WorkspaceFixture::start(Arc::new(home), era, ClientRoots::Ignored).await
    }

    /// A fixture whose client has a root `theirs`.
    pub async fn with_roots(era: Era) -> WorkspaceFixture {
        let home = tempfile::tempdir().expect("a temp folder");
        fs::create_dir(home.path().join("root")).expect("a folder");
        fs::create_dir(home.path().join("theirs")).expect("a folder");
        WorkspaceFixture::start(Arc::new(home), era, ClientRoots::Used).await
    }

    /// Another client in the same folder.
    pub async fn second_client(&self, era: Era) -> WorkspaceFixture {
        WorkspaceFixture::start(self.home.clone(), era, ClientRoots::Ignored).await
    }

    async fn start(
        home: Arc<tempfile::TempDir>,
        era: Era,
        client_roots: ClientRoots,
    ) -> WorkspaceFixture {
        let path = std::env::var("PATH").expect("a path");
        let settings = WorkspaceSettings {
            roots: vec![home.path().join("root")],
            added_roots: AddedRoots::default(),
            client_roots,
            environment: vec![("PATH".to_owned(), path)],
            output_dir: home.path().join("kept"),
            guard: None,
            pdf_reader: None,
        };
        let (ours, theirs) = in_memory::pair();
        let server_task = tokio::spawn(workspace::serve(settings, theirs));
        let abilities = match client_roots {
            ClientRoots::Used => vec![ClientCapability::Elicitation, ClientCapability::Roots],
            ClientRoots::Ignored => vec![ClientCapability::Elicitation],
        };
        let uri = format!("file://{}", home.path().join("theirs").display());
        let answer = json!({"roots": [{"uri": uri}]});
        let test_client = TestClient::connect(ours, server_task, era, abilities, answer).await;
        let listed = test_client.request_json("tools/list", json!({})).await.expect("a list");
        let tools = listed["tools"].as_array().expect("tools").clone();
        let schema = |tool: &Json| {
            let validator = jsonschema::validator_for(&tool["outputSchema"]).expect("a schema");
            (tool["name"].as_str().expect("a name").to_owned(), validator)
        };
        let schemas = tools.iter().map(schema).collect();
        WorkspaceFixture { home, test_client, tools, schemas }
    }

    pub fn home(&self) -> PathBuf {
        self.home.path().canonicalize().expect("it is there")
    }

    pub fn root(&self) -> PathBuf {
        self.home().join("root")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        fs::write(path, text).expect("it is written");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it is there")
    }

    /// A whole result. Its structured content matches the schema, or the call failed.
    pub async fn result(&self, tool: &str, arguments: Json) -> Json {
        let result = self.test_client.call(tool, arguments).await;
        match result.get("structuredContent") {
            Some(structured) => {
                let schema = self.schemas.get(tool).expect("a schema");
                let fits = schema.validate(structured);
                assert!(fits.is_ok(), "{tool}: {:?}\n{structured}", fits.err());
            }
            None => assert_eq!(result["isError"], true, "{tool}: {result}"),
        }
        result
    }

    /// The structured content of a result.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Json) -> impl Future<Output = Json> {
        let result = self.result(tool, arguments);
        async move {
            let result = result.await;
            assert_ne!(result["isError"], true, "{result}");
            result["structuredContent"].clone()
        }
    }

    /// The text of a result.
    pub async fn text(&self, tool: &str, arguments: Json) -> String {
        let result = self.result(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The message of a failed call.
    pub async fn tool_error(&self, tool: &str, arguments: Json) -> String {
        let result = self.result(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The error of a refused request.
    pub async fn request_error(&self, tool: &str, arguments: Json) -> RpcError {
        let params = json!({"name": tool, "arguments": arguments});
        self.test_client.request_json("tools/call", params).await.expect_err("it is refused")
    }

    /// The text of a prompt.
    pub async fn prompt(&self, name: &str, arguments: Json) -> String {
        let params = json!({"name": name, "arguments": arguments});
        let prompt = self.test_client.request_json("prompts/get", params).await.expect("words");
        prompt["messages"][0]["content"]["text"].as_str().expect("a text").to_owned()
    }

    pub async fn shut_down(self) {
        self.test_client.shut_down().await;
        let outputs = self.home.path().join("kept");
        let left: Vec<_> = fs::read_dir(outputs).expect("a folder").collect();
        assert!(left.is_empty() || Arc::strong_count(&self.home) > 1, "{left:?}");
    }
}

/// A picture of one color.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = image::DynamicImage::new_rgb8(width, height);
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("it can be written");
    bytes.into_inner()
}
