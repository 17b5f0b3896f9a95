//! Tests of the normalisation of schemas.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn normalised(schema: &Json) -> Result<Json, QuarantineReason> {
    let all = Payload::encode(schema).expect("JSON");
    let raw: &RawValue = serde_json::from_slice(all.as_bytes()).expect("JSON");
    normalise(Some(raw), &all).map(|it| it.shown.decode().expect("JSON"))
}

#[track_caller]
fn check(schema: &Json, expected: &Json) {
    let found = normalised(schema).expect("it can be shown");
    assert_eq!(found, *expected);
    // Normalisation is idempotent.
    assert_eq!(normalised(&found).as_ref(), Ok(expected));
}

#[track_caller]
fn check_rejected(schema: &Json, expected: &str) {
    assert_eq!(normalised(schema).expect_err("it cannot be shown").to_string(), expected);
}

#[test]
fn a_plain_schema_stays_byte_for_byte() {
    let text = r#"{ "type":"object" , "properties":{"a":{"type":["string","null"],"x-mcp-header":"A"},
        "b":{"type":"array","items":{"anyOf":[{"type":"integer","minimum":1},{"enum":["x"]}]}}},
        "required":["a"], "additionalProperties":false, "$schema":"http://json-schema.org/draft-07/schema#"}"#;
    let all = Payload::from_json(text.into());
    let raw: &RawValue = serde_json::from_slice(all.as_bytes()).expect("JSON");
    let shown = normalise(Some(raw), &all).expect("it can be shown").shown;
    assert_eq!(shown.as_bytes().as_ptr(), all.as_bytes().as_ptr());
    assert_eq!(shown, all);
}

#[test]
fn a_missing_schema_takes_no_arguments() {
    let empty = json!({"type": "object", "properties": {}});
    let none = normalise(None, &Payload::from_json("{}".into())).expect("it can be shown").shown;
    assert_eq!(none.decode::<Json>().expect("JSON"), empty);
    check(&json!({}), &empty);
    check(&json!(true), &empty);
    check(&json!(null), &empty);
    check(&json!({"type": "object"}), &empty);
}

#[test]
fn the_root_becomes_an_object_if_it_allows_one() {
    let properties = json!({"a": {"type": "string"}});
    let expected = json!({"type": "object", "properties": properties});
    check(&json!({"properties": properties}), &expected);
    check(&json!({"type": ["object", "null"], "properties": properties}), &expected);
    check_rejected(
        &json!({"type": "string"}),
        "its input schema requires string, but arguments are always an object",
    );
    check_rejected(&json!([]), "its input schema is not an object");
    check_rejected(&json!("object"), "its input schema is not an object");
}

#[test]
fn local_references_are_inlined() {
    check(
        &json!({
            "type": "object",
            "properties": {
                "from": {"$ref": "#/$defs/Place", "description": "where from"},
                "to": {"type": "array", "items": {"$ref": "#/definitions/a~1b%20c"}},
                "strict": {"$ref": "#/$defs/Name", "minLength": 2},
                "deep": {"properties": {"$ref": {"type": "string", "default": {"$ref": "#/nowhere"}}}},
            },
            "$defs": {
                "Place": {"type": "object", "description": "a place", "properties": {"name": {"$ref": "#/$defs/Name"}}},
                "Name": {"type": "string"},
            },
            "definitions": {"a/b c": {"type": "integer"}},
        }),
        &json!({
            "type": "object",
            "properties": {
                "from": {"type": "object", "description": "where from", "properties": {"name": {"type": "string"}}},
                "to": {"type": "array", "items": {"type": "integer"}},
                "strict": {"minLength": 2, "allOf": [{"type": "string"}]},
                "deep": {"properties": {"$ref": {"type": "string", "default": {"$ref": "#/nowhere"}}}},
            },
        }),
    );
}

#[test]
fn circular_references_keep_their_definitions() {
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}});
    let schema = json!({
        "type": "object",
        "properties": {"list": {"$ref": "#/$defs/Node"}, "n": {"$ref": "#/$defs/Count"}},
        "$defs": {"Node": node, "Count": {"type": "integer"}},
    });
    let expected = json!({
        "type": "object",
        "properties": {"list": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}},
        "$defs": {"Node": node, "Count": {"type": "integer"}},
    });
    check(&schema, &expected);
    // A root that is only a reference becomes its target.
    check(
        &json!({"$ref": "#/$defs/Node", "$defs": {"Node": node}}),
        &json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}),
    );
    check_rejected(
        &json!({"$ref": "#"}),
        "its input schema has `$ref` at the root, which model APIs reject",
    );
}

#[test]
fn remote_and_dangling_references_are_rejected() {
    let with =
        |reference: &str| json!({"type": "object", "properties": {"a": {"$ref": reference}}});
    for remote in ["https://example.com/s.json", "file:///etc/passwd", "other.json#/a", "//host/x"]
    {
        check_rejected(
            &with(remote),
            &format!(
                "its input schema refers to `{remote}`, and remote references are not fetched"
            ),
        );
    }
    check_rejected(
        &with("#/$defs/A"),
        "its input schema refers to `#/$defs/A`, which does not exist",
    );
    check_rejected(&with("#/type"), "its input schema refers to `#/type`, which does not exist");
}

#[test]
fn references_that_would_make_it_too_large_stay() {
    let mut definitions = json!({"d0": {"type": "string"}});
    for level in 1..30 {
        let below = format!("#/$defs/d{}", level - 1);
        definitions[format!("d{level}")] = json!({
            "type": "object", "properties": {"a": {"$ref": below}, "b": {"$ref": below}},
        });
    }
    let schema = json!({
        "type": "object", "properties": {"top": {"$ref": "#/$defs/d29"}}, "$defs": definitions,
    });
    check(&schema, &schema);
}

#[test]
fn combinations_at_the_root_are_merged_where_nothing_is_lost() {
    let a = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let b = json!({"properties": {"b": {"type": "integer"}, "a": {"minLength": 1}}, "required": ["a", "b"]});
    let only_a = a.clone();
    check(&json!({"anyOf": [a, {"type": "null"}]}), &only_a);
    check(&json!({"oneOf": [a]}), &only_a);
    check(&json!({"allOf": [{"anyOf": [a]}]}), &only_a);
    check(
        &json!({"title": "T", "allOf": [a, b]}),
        &json!({
            "type": "object", "title": "T",
            "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }),
    );
    let closed = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    check(&json!({"allOf": [closed]}), &closed);
    let rejection =
        |keyword| format!("its input schema has `{keyword}` at the root, which model APIs reject");
    check_rejected(&json!({"anyOf": [a, b]}), &rejection("anyOf"));
    check_rejected(&json!({"oneOf": [a, b]}), &rejection("oneOf"));
    check_rejected(&json!({"allOf": [closed, b]}), &rejection("allOf"));
    check_rejected(&json!({"allOf": [b, closed]}), &rejection("allOf"));
    check_rejected(&json!({"not": {"required": ["a"]}}), &rejection("not"));
}

#[test]
fn alternatives_of_required_arguments_are_hidden_and_still_checked() {
    let shown = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
    });
    let choice = json!([{"required": ["id"]}, {"type": "object", "required": ["name"]}]);
    for keyword in ["anyOf", "oneOf"] {
        let mut schema = shown.clone();
        schema[keyword] = choice.clone();
        check(&schema, &shown);
        let all = Payload::encode(&schema).expect("JSON");
        let raw: &RawValue = serde_json::from_slice(all.as_bytes()).expect("JSON");
        let checked = normalise(Some(raw), &all).expect("it can be shown").validated;
        let mut expected = shown.clone();
        expected["allOf"] = json!([{keyword: choice}]);
        assert_eq!(checked.map(|it| it.decode::<Json>().expect("JSON")), Some(expected));
    }
    let mut inside = shown.clone();
    inside["allOf"] = json!([{"anyOf": choice}]);
    check(&inside, &shown);
    for more in [json!({"required": ["id"], "properties": {}}), json!({"required": [7]}), json!({})]
    {
        let mut schema = shown.clone();
        schema["anyOf"] = json!([{"required": ["name"]}, more]);
        check_rejected(
            &schema,
            "its input schema has `anyOf` at the root, which model APIs reject",
        );
    }
}

#[test]
fn combinations_below_the_root_stay() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "b": {"not": {"type": "null"}}},
    });
    check(&schema, &schema);
}

#[test]
fn older_drafts_are_translated() {
    check(
        &json!({
            "$schema": "http://json-schema.org/draft-04/schema#", "$id": "http://example.com/x",
            "type": "object",
            "properties": {
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false},
                "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
            },
            "dependencies": {"n": ["pair"], "pair": {"required": ["n"]}},
        }),
        &json!({
            "type": "object",
            "properties": {
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
                "n": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
            },
            "dependentRequired": {"n": ["pair"]},
            "dependentSchemas": {"pair": {"required": ["n"]}},
        }),
    );
}

#[test]
fn malformed_schemas_are_rejected_with_the_path() {
    let with = |property: Json| json!({"type": "object", "properties": {"a/b": property, "c": {}}});
    let at = |place: &str| format!("its input schema is malformed at `/properties/c{place}`");
    let with_c = |property: Json| json!({"type": "object", "properties": {"c": property}});
    for (property, place) in [
        (json!({"type": "any"}), "/type"),
        (json!({"type": ["string", "string"]}), "/type"),
        (json!({"required": true}), "/required"),
        (json!({"properties": []}), "/properties"),
        (json!({"items": {"enum": "x"}}), "/items/enum"),
        (json!({"anyOf": []}), "/anyOf"),
        (json!({"anyOf": [{}, 7]}), "/anyOf/1"),
        (json!({"minLength": -1}), "/minLength"),
        (json!({"description": 7}), "/description"),
        (json!("string"), ""),
    ] {
        check_rejected(&with_c(property), &at(place));
    }
    check_rejected(&with(json!({})), "its argument `a/b` has a name that model APIs reject");
    check_rejected(
        &json!({"type": "object", "properties": {"": {}}}),
        "its argument `` has a name that model APIs reject",
    );
}

#[test]
fn size_and_depth_have_limits() {
    let large = json!({"type": "object", "properties": {}, "description": "x".repeat(MAX_BYTES)});
    assert!(matches!(normalised(&large), Err(QuarantineReason::TooLarge(_))));
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_DEPTH {
        deep = json!({"type": "array", "items": deep});
    }
    assert_eq!(
        normalised(&json!({"type": "object", "properties": {"a": deep}})),
        Err(QuarantineReason::TooDeep)
    );
    let text = format!("{}{}", r#"{"items":"#.repeat(500), "}".repeat(500));
    let all = Payload::from_json(text.clone().into());
    let raw = RawValue::from_string("{}".to_owned()).expect("JSON");
    assert!(normalise(Some(&raw), &all).is_ok());
    assert!(!plain_check::is_plain(&text));
}

/// Keywords and values in any combination, most of them invalid.
fn any_schema() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(1)),
        Just(json!("object")),
        Just(json!("string")),
        Just(json!("#/$defs/a")),
        Just(json!("#")),
        Just(json!(["a"])),
        Just(json!({"type": "object"})),
    ];
    let keyword = proptest::sample::select(vec![
        "type",
        "properties",
        "items",
        "required",
        "$ref",
        "$defs",
        "anyOf",
        "oneOf",
        "allOf",
        "a",
        "additionalProperties",
        "enum",
        "minimum",
        "exclusiveMinimum",
        "not",
        "dependencies",
        "prefixItems",
    ]);
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            proptest::collection::vec((keyword.clone(), inner), 0..5).prop_map(|members| {
                Json::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_becomes_an_object_or_is_rejected(schema in any_schema()) {
        if let Ok(shown) = normalised(&schema) {
            prop_assert_eq!(&shown["type"], &json!("object"));
            prop_assert!(shown["properties"].is_object());
            for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
                prop_assert!(shown.get(keyword).is_none(), "{}", keyword);
            }
            prop_assert_eq!(normalised(&shown), Ok(shown.clone()));
        }
    }

    #[test]
    fn plain_schemas_are_unchanged_by_normalisation(schema in any_schema()) {
        let text = schema.to_string();
        if plain_check::is_plain(&text) {
            let mut expected = schema.clone();
            expected.as_object_mut().expect("it is an object").shift_remove("$schema");
            prop_assert_eq!(normalise_json(schema, &mut Vec::new()), Ok(expected));
        }
    }
}

#[test]
fn references_that_are_spelt_in_many_ways_are_followed_once() {
    // Each refers to the root, and so each target contains all of them.
    let references: Vec<Json> = (0..2_000)
        .map(|it| {
            let bits = (0..11).map(|bit| if it >> bit & 1 == 1 { "a" } else { "%61" });
            json!({"$ref": format!("#/$defs/{}", bits.collect::<String>())})
        })
        .collect();
    let name = "a".repeat(11);
    let schema = json!({
        "type": "object",
        "properties": {"x": {"$ref": format!("#/$defs/{name}")}},
        "$defs": {name: {"anyOf": references}},
    });
    let root = schema.as_object().expect("an object").clone();
    // Circular, so they stay as they are.
    assert_eq!(super::references::inline_references(root.clone()), Ok(root));
}
