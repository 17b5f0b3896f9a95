//! Tests of the pool as a whole.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;

use super::diff::diff;
use super::hidden_text::HiddenText;
use super::tool::{Annotations, DEFERRAL_THRESHOLD};
use super::*;

/// A server with tools.
#[derive(Debug, Clone)]
struct Server {
    name: String,
    origin: NameOrigin,
    tools: Vec<ListItem>,
    filter: ToolFilter,
}

fn item(definition: &Json) -> ListItem {
    let name = definition["name"].as_str().expect("a name").to_owned();
    ListItem { name, raw: Payload::encode(definition).expect("JSON") }
}

fn server(name: &str, tools: &[&str]) -> Server {
    let tools = tools.iter().map(|tool| item(&json!({"name": tool}))).collect();
    let origin = if name.contains(' ') { NameOrigin::Connector } else { NameOrigin::Configured };
    Server { name: name.to_owned(), origin, tools, filter: ToolFilter::default() }
}

fn server_with(definition: &Json) -> Server {
    Server { tools: vec![item(definition)], ..server("s", &[]) }
}

fn source(server: &Server) -> ServerTools<'_> {
    let Server { name, origin, tools, filter } = server;
    ServerTools { server: name, origin: *origin, tools, kind: ToolKind::Server, filter }
}

fn next(pool: &Pool, servers: &[Server]) -> Pool {
    pool.next_revision(
        servers.iter().map(source),
        &PoolRules { hidden: &|_, _| false, built_in: &[] },
    )
}

fn pool(servers: &[Server]) -> Pool {
    next(&Pool::default(), servers)
}

fn names(pool: &Pool) -> Vec<&str> {
    pool.tools().iter().map(|tool| tool.exposed_name.as_str()).collect()
}

fn only(pool: &Pool) -> &Tool {
    assert_eq!(pool.tools().len(), 1);
    &pool.tools()[0]
}

fn tool(definition: &Json) -> Arc<Tool> {
    pool(&[server_with(definition)]).tools()[0].clone()
}

fn built_in(name: &str) -> Tool {
    let schema = Payload::from_json(r#"{"type":"object","properties":{}}"#.into());
    Tool::built_in(name, "", (schema.clone(), schema))
}

#[test]
fn names_join_server_and_tool_in_the_alphabet_of_model_apis() {
    let servers = [
        server("git-hub", &["create.issue", "läuft"]),
        server("plugin:p:s", &["x"]),
        server("claude.ai  Google Drive ", &["a__b"]),
    ];
    assert_eq!(
        names(&pool(&servers)),
        [
            "mcp__claude_ai_Google_Drive__a__b",
            "mcp__git-hub__create_issue",
            "mcp__git-hub__l_uft",
            "mcp__plugin_p_s__x"
        ]
    );
}

#[test]
fn colliding_tools_both_get_a_suffix() {
    let servers = [server("s", &["a.b", "a_b", "c"])];
    let pool = pool(&servers);
    assert_eq!(names(&pool), ["mcp__s__a_b_6b79d51f", "mcp__s__a_b_c499d3c1", "mcp__s__c"]);
    assert!(pool.find("mcp__s__a_b").is_none());
    let near: Vec<&str> =
        pool.nearest("mcp__s__a_b", 5).iter().map(|it| it.exposed_name.as_str()).collect();
    assert_eq!(near, ["mcp__s__a_b_6b79d51f", "mcp__s__a_b_c499d3c1"]);
}

#[test]
fn long_names_are_truncated_and_suffixed() {
    let long = "x".repeat(80);
    let pool = pool(&[server("s", &[&long, &format!("{long}y")])]);
    for tool in pool.tools() {
        assert_eq!(tool.exposed_name.len(), 64);
        assert!(tool.exposed_name.starts_with(&format!("mcp__s__{}_", "x".repeat(47))));
    }
    assert_ne!(pool.tools()[0].exposed_name, pool.tools()[1].exposed_name);
}

#[test]
fn a_built_in_name_is_never_shadowed() {
    let servers = [server("builtin", &["read", "write"])];
    let mut built_in_tool = built_in("read");
    built_in_tool.exposed_name = "mcp__builtin__read".to_owned();
    let rules = PoolRules { hidden: &|_, _| false, built_in: &[Arc::new(built_in_tool)] };
    let pool = Pool::default().next_revision(servers.iter().map(source), &rules);
    assert!(pool.find("mcp__builtin__read").is_some_and(|it| it.is_built_in()));
    assert_eq!(pool.find_by_server("builtin", "read").expect("it is there").exposed_name.len(), 27);
    assert!(pool.find("mcp__builtin__write").is_some());
}

#[test]
fn built_in_tools_are_in_every_pool_and_found_by_search() {
    let rules = PoolRules { hidden: &|_, _| true, built_in: crate::builtin_tools::definitions() };
    let pool = Pool::default().next_revision([source(&server("s", &["x"]))], &rules);
    assert_eq!(names(&pool), ["ListMcpResources", "ReadMcpResource", "ReadMcpResult"]);
    for tool in pool.tools() {
        let expected = Annotations {
            read_only: true,
            destructive: false,
            open_world: false,
            idempotent: true,
        };
        assert_eq!(tool.annotations, expected);
        assert!(pool.is_deferred(tool));
        let listed = item(&tool.raw.decode().expect("JSON"));
        let owner = ToolOwner { server: "s", prefix: "s", kind: ToolKind::Server };
        let read = tool::parse(owner, &tool.name, "x", &listed.raw).expect("it can be read");
        let ParsedTool::Usable(read) = read else { panic!("a model API takes it") };
        assert_eq!(read.input_schema, tool.input_schema);
    }
    assert_eq!(pool.search("list resources", 1)[0].tool.exposed_name, "ListMcpResources");
}

#[test]
fn tools_of_servers_are_sent_at_once_until_there_are_many() {
    let names: Vec<String> = (0..=DEFERRAL_THRESHOLD).map(|it| format!("t{it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let few = pool(&[server("s", &names[..DEFERRAL_THRESHOLD])]);
    let many = pool(&[server("s", &names)]);
    assert!(few.tools().iter().all(|it| !few.is_deferred(it)));
    assert!(many.tools().iter().all(|it| many.is_deferred(it)));
}

#[test]
fn servers_with_one_prefix_keep_their_names_while_one_is_disconnected() {
    let (first, second) = (server("a_b", &["x"]), server("a b", &["x", "y"]));
    let absent = Server { tools: Vec::new(), ..second.clone() };
    let alone = pool(&[first.clone(), absent]);
    let both = pool(&[first, second]);
    let name =
        |pool: &Pool| pool.find_by_server("a_b", "x").expect("it is there").exposed_name.clone();
    assert_eq!(name(&alone), name(&both));
    assert_eq!(diff(&alone, &both).added.len(), 2);
}

#[test]
fn a_contested_name_stays_unused_when_one_server_goes() {
    let (first, second) = (server("a", &["_x"]), server("a_", &["x"]));
    let both = pool(&[first.clone(), second.clone()]);
    let one = next(&both, std::slice::from_ref(&second));
    assert!(one.find("mcp__a___x").is_none());
    assert_eq!(
        one.find_by_server("a_", "x").map(|it| &it.exposed_name),
        both.find_by_server("a_", "x").map(|it| &it.exposed_name)
    );
    let again = next(&one, &[second, first]);
    assert_eq!(names(&again), names(&both));
}

#[test]
fn a_tool_named_like_a_suffixed_name_displaces_no_other() {
    let first = pool(&[server("s", &["a.b", "a_b"])]);
    let second = pool(&[server("s", &["a.b", "a_b", "a_b_6b79d51f", "a_b_6b79d51f_c499d3c1"])]);
    assert_eq!(second.tools().len(), 4);
    for tool in first.tools() {
        let same = second.find(&tool.exposed_name).expect("it keeps its name");
        assert_eq!(same.name, tool.name);
    }
}

#[test]
fn filters_and_rules_take_tools_out_without_renaming_others() {
    let mut one = server("s", &["a", "b", "c.d", "c_d"]);
    one.filter = ToolFilter {
        allow: Some(vec!["a".to_owned(), "b".to_owned(), "c.d".to_owned()]),
        deny: vec!["b".to_owned()],
    };
    let rules = PoolRules { hidden: &|server, tool| (server, tool) == ("s", "a"), built_in: &[] };
    let pool = Pool::default().next_revision([source(&one)], &rules);
    assert_eq!(names(&pool), ["mcp__s__c_d_cf91103c"]);
}

#[test]
fn an_invalid_tool_is_quarantined_and_its_server_stays() {
    let mut one = server("s", &["good"]);
    one.tools.push(item(&json!({"name": "bad", "inputSchema": {"type": "string"}})));
    one.tools.push(ListItem { name: "worse".to_owned(), raw: Payload::from_json("{".into()) });
    let pool = pool(&[one]);
    assert_eq!(names(&pool), ["mcp__s__good"]);
    let reasons: Vec<String> = pool
        .quarantined()
        .iter()
        .map(|it| format!("{}/{}: {}", it.server, it.tool, it.reason))
        .collect();
    assert_eq!(
        reasons,
        [
            "s/bad: its input schema requires string, but arguments are always an object",
            "s/worse: its definition is not valid JSON",
        ]
    );
}

#[test]
fn missing_hints_get_cautious_defaults() {
    let cautious =
        Annotations { read_only: false, destructive: true, open_world: true, idempotent: false };
    for invalid in
        [json!(null), json!({}), json!(7), json!({"readOnlyHint": "true", "openWorldHint": null})]
    {
        assert_eq!(tool(&json!({"name": "t", "annotations": invalid})).annotations, cautious);
    }
    let hints = json!({
        "title": "T", "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false, "idempotentHint": true
    });
    let tool = tool(&json!({"name": "t", "annotations": hints}));
    assert_eq!(tool.display_name(), "T");
    assert_eq!(
        tool.annotations,
        Annotations { read_only: true, destructive: false, open_world: false, idempotent: true }
    );
}

#[test]
fn a_long_description_is_truncated_between_characters() {
    let description_of =
        |text: &str| tool(&json!({"name": "t", "description": text})).description.clone();
    let fits = "é".repeat(2048);
    assert_eq!(description_of(&fits), fits);
    let cut = description_of(&format!("{fits}é"));
    assert_eq!(cut.chars().count(), 2048);
    assert_eq!(cut, format!("{}… [truncated]", "é".repeat(2035)));
}

#[test]
fn hidden_characters_are_flagged_in_all_texts_for_the_model() {
    let flags = |definition: Json| tool(&definition).flags().to_vec();
    assert_eq!(flags(json!({"name": "t", "description": "a\u{200b}b"})), [HiddenText::ZeroWidth]);
    let schema = json!({"type": "object", "properties": {"a": {"description": "x\u{e0041}"}}});
    assert_eq!(flags(json!({"name": "t", "inputSchema": schema})), [HiddenText::Tags]);
    let escaped = r#"{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"title": "\u202e"}}}}"#;
    let raw = Payload::from_json(escaped.into());
    let one = Server { tools: vec![ListItem { name: "t".to_owned(), raw }], ..server("s", &[]) };
    assert_eq!(only(&pool(&[one])).flags(), [HiddenText::Bidirectional]);
    assert_eq!(flags(json!({"name": "t", "description": "plain"})), []);
}

#[track_caller]
fn check_arguments(schema: &Json, arguments: &Json, expected: &[&str]) {
    let tool = tool(&json!({"name": "t", "inputSchema": schema}));
    let faults = tool.check_arguments(arguments).err().unwrap_or_default();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(told, expected);
}

#[test]
fn invalid_arguments_are_reported_with_path_and_expectation() {
    let schema = json!({
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": 9},
            "order": {"enum": ["up", "down"]},
            "filters": {"type": "array", "items": {
                "type": "object", "properties": {"field": {"type": "string"}}, "required": ["field"],
            }},
            "id": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer"}]},
        },
        "required": ["limit"],
        "additionalProperties": false,
    });
    check_arguments(&schema, &json!({"limit": 5, "order": "up", "id": 7}), &[]);
    check_arguments(&schema, &json!({}), &["`limit` is missing"]);
    check_arguments(&schema, &json!({"limit": "5"}), &["`limit` should be integer, not string"]);
    check_arguments(&schema, &json!({"limit": 50}), &["`limit` should be at most 9"]);
    check_arguments(
        &schema,
        &json!({"limit": 5, "ordr": "up", "zzzzz": 1}), // misspelt on purpose
        &["`ordr` is unknown, did you mean `order`?", "`zzzzz` is unknown"], // misspelt on purpose
    );
    check_arguments(
        &schema,
        &json!({"limit": 5, "order": "secret"}),
        &[r#"`order` should be one of "up", "down""#],
    );
    check_arguments(
        &schema,
        &json!({"limit": 5, "filters": [{"field": "a"}, {}]}),
        &["`filters[1].field` is missing"],
    );
    check_arguments(
        &schema,
        &json!({"limit": 5, "id": "x"}),
        &["`id` should have at least 2 characters"],
    );
    check_arguments(
        &schema,
        &json!({"limit": 5, "id": true}),
        &["`id` should be string or integer, not boolean"],
    );
    check_arguments(&schema, &json!([]), &["the arguments should be object, not array"]);
}

#[test]
fn schemas_that_cannot_be_compiled_check_nothing() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(["}}});
    check_arguments(&schema, &json!({"a": 7}), &[]);
}

#[test]
fn circular_references_are_checked() {
    let node = json!({
        "type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["v"],
    });
    let schema = json!({"type": "object", "properties": {"list": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}});
    let arguments = json!({"list": {"v": 1, "next": {"v": 2, "next": {}}}});
    check_arguments(&schema, &arguments, &["`list.next.next.v` is missing"]);
    // References that form a cycle without a value.
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"allOf": [{"$ref": "#/$defs/A"}]}},
    });
    check_arguments(&schema, &json!({"a": 1}), &[]);
}

#[test]
fn two_equal_alternatives_at_each_level_are_checked_at_once() {
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert("d40".to_owned(), json!({"type": "string"}));
    let schema = json!({
        "type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions,
    });
    check_arguments(&schema, &json!({"a": 1}), &["`a` should be string, not number"]);
    check_arguments(&schema, &json!({"a": "text"}), &[]);
}

#[test]
fn a_pattern_that_backtracks_too_much_is_ignored() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": r"^((a|aa)+)+\2b$"}}});
    check_arguments(&schema, &json!({"a": "a".repeat(60)}), &[]);
}

fn search_pool() -> Pool {
    let tool_item = |name: &str, description: &str, arguments: &[&str]| {
        let properties: serde_json::Map<String, Json> =
            arguments.iter().map(|it| ((*it).to_owned(), json!({}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        item(&json!({"name": name, "description": description, "inputSchema": schema}))
    };
    let files = vec![
        tool_item("read_file", "Reads a file from the disk", &["path"]),
        tool_item("writeFile", "Writes a file to the disk", &["path", "content"]),
        tool_item("list", "Lists what a folder holds, each file with its size", &["folder"]),
    ];
    let hub = vec![
        tool_item("create_issue", "Opens a new issue", &["title", "body"]),
        tool_item("search", "Searches code, issues and files", &["query"]),
    ];
    pool(&[
        Server { tools: files, ..server("files", &[]) },
        Server { tools: hub, ..server("hub", &[]) },
    ])
}

fn found(query: &str) -> Vec<String> {
    search_pool().search(query, 3).into_iter().map(|it| it.tool.name.clone()).collect()
}

#[test]
fn search_finds_by_name_description_server_and_argument() {
    assert_eq!(found("read file"), ["read_file", "writeFile", "list"]);
    assert_eq!(found("write")[0], "writeFile");
    assert_eq!(found("readfile"), ["read_file"]);
    assert_eq!(found("issues"), ["create_issue", "search"]);
    assert_eq!(found("creat")[0], "create_issue");
    assert_eq!(found("body"), ["create_issue"]);
    assert_eq!(found("hub").len(), 2);
    assert_eq!(found("mcp__files__list")[0], "list");
    assert_eq!(found("LIST")[0], "list");
    assert!(found("zebra").is_empty());
    assert!(found("").is_empty());
}

#[test]
fn a_misspelt_name_finds_its_tool() {
    let search_pool = search_pool();
    let near = |name: &str| search_pool.nearest(name, 1).first().map(|it| it.name.clone());
    assert_eq!(near("mcp__files__reed_file").as_deref(), Some("read_file"));
    assert_eq!(near("writefile").as_deref(), Some("writeFile"));
    assert_eq!(near("entirely different"), None);
}

#[test]
fn differences_are_reported_by_name() {
    let before = pool(&[server("a", &["x", "y"]), server("b", &["z"])]);
    let mut changed = server("a", &["y", "new"]);
    changed.tools.push(item(&json!({"name": "x", "description": "now with words"})));
    let after = next(&before, &[changed]);
    let changes = diff(&before, &after);
    let names =
        |tools: &[Arc<Tool>]| tools.iter().map(|it| it.exposed_name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&changes.added), ["mcp__a__new"]);
    assert_eq!(names(&changes.removed), ["mcp__b__z"]);
    assert_eq!(changes.changed.len(), 1);
    assert_eq!(changes.changed[0].after.description, "now with words");
    assert_eq!(after.revision(), 2);
}

#[test]
fn unchanged_tools_are_reused() {
    let servers = [server("a", &["x", "y"])];
    let before = pool(&servers);
    let after = next(&before, &servers);
    assert!(Arc::ptr_eq(&before.tools()[0], &after.tools()[0]));
    assert!(diff(&before, &after).is_empty());
    // Definitions with another key order are equal.
    let pool_of = |text: &'static str| {
        let raw = Payload::from_json(text.into());
        pool(&[Server { tools: vec![ListItem { name: "t".to_owned(), raw }], ..server("s", &[]) }])
    };
    let (one, other) = (
        pool_of(r#"{"name": "t", "description": "d"}"#),
        pool_of(r#"{"description": "d", "name": "t"}"#),
    );
    assert!(diff(&one, &other).is_empty());
}

fn any_servers() -> impl Strategy<Value = Vec<Server>> {
    let name = prop_oneof!["[ab_.]{1,4}", "claude.ai [A-C _]{1,6}", "[a-z]{40}"];
    let tool = prop_oneof!["[ab_.]{1,4}", "x{50,90}", "[a-zä日]{1,5}"];
    let tools = proptest::collection::btree_set(tool, 0..8);
    proptest::collection::btree_map(name, tools, 0..8).prop_map(|servers| {
        let one = |(name, tools): (String, BTreeSet<String>)| {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            server(&name, &tools)
        };
        servers.into_iter().map(one).collect()
    })
}

proptest! {
    #[test]
    fn every_tool_has_one_valid_name_in_any_order(
        servers in any_servers(),
        seed in any::<proptest::sample::Index>(),
    ) {
        let first = pool(&servers);
        let tool_count: usize = servers.iter().map(|it| it.tools.len()).sum();
        prop_assert_eq!(first.tools().len(), tool_count);
        let unique: BTreeSet<&str> = names(&first).into_iter().collect();
        prop_assert_eq!(unique.len(), tool_count);
        for name in unique {
            prop_assert!(name.len() <= 64 && name.starts_with("mcp__"), "{}", name);
            prop_assert!(name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it)));
        }
        let mut rotated = servers.clone();
        if !rotated.is_empty() {
            let by = seed.index(rotated.len());
            rotated.rotate_left(by);
            rotated.iter_mut().for_each(|it| it.tools.reverse());
        }
        let second = pool(&rotated);
        for server in &servers {
            for item in &server.tools {
                let tool = first.find_by_server(&server.name, &item.name).expect("every tool is there");
                let found = second.find(&tool.exposed_name).expect("the name is the same");
                prop_assert_eq!((&found.server, &found.name), (&server.name, &item.name));
            }
        }
    }

    #[test]
    fn a_returning_server_has_its_old_names_and_no_other_takes_them(
        servers in any_servers(),
        absent in any::<proptest::sample::Index>(),
    ) {
        prop_assume!(!servers.is_empty());
        let before = pool(&servers);
        let mut fewer = servers.clone();
        fewer.remove(absent.index(servers.len()));
        let between = next(&before, &fewer);
        for tool in between.tools() {
            if let Some(owner) = before.find(&tool.exposed_name) {
                prop_assert_eq!((&owner.server, &owner.name), (&tool.server, &tool.name));
            }
        }
        let after = next(&between, &servers);
        prop_assert_eq!(names(&before), names(&after));
    }
}

#[test]
fn arguments_are_checked_by_conditions_hidden_from_the_model() {
    let tool = tool(&json!({"name": "t", "inputSchema": {
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    }}));
    assert!(tool.input_schema.decode::<Json>().expect("JSON").get("anyOf").is_none());
    assert_eq!(tool.check_arguments(&json!({"name": "x"})), Ok(()));
    let faults = tool.check_arguments(&json!({})).expect_err("one of the two has to be there");
    assert_eq!(faults[0].to_string(), "`id` is missing");
}
