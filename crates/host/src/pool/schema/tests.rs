//! What becomes of schemas.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn of(schema: &Json) -> Result<Json, QuarantineReason> {
    let all = Payload::encode(schema).expect("JSON");
    let raw: &RawValue = serde_json::from_slice(all.as_bytes()).expect("JSON");
    normalise(Some(raw), &all).map(|it| it.shown.decode().expect("JSON"))
}

#[track_caller]
fn check(schema: &Json, expected: &Json) {
    let found = of(schema).expect("it can be shown");
    assert_eq!(found, *expected);
    // Once is enough.
    assert_eq!(of(&found).as_ref(), Ok(expected));
}

#[track_caller]
fn refuse(schema: &Json, expected: &str) {
    assert_eq!(of(schema).expect_err("it cannot be shown").to_string(), expected);
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
fn a_schema_that_is_not_there_takes_nothing() {
    let nothing = json!({"type": "object", "properties": {}});
    let none = normalise(None, &Payload::from_json("{}".into())).expect("it can be shown").shown;
    assert_eq!(none.decode::<Json>().expect("JSON"), nothing);
    check(&json!({}), &nothing);
    check(&json!(true), &nothing);
    check(&json!(null), &nothing);
    check(&json!({"type": "object"}), &nothing);
}

#[test]
fn the_root_becomes_an_object_where_it_may_be_one() {
    let properties = json!({"a": {"type": "string"}});
    let expected = json!({"type": "object", "properties": properties});
    check(&json!({"properties": properties}), &expected);
    check(&json!({"type": ["object", "null"], "properties": properties}), &expected);
    refuse(
        &json!({"type": "string"}),
        "its input schema wants string, where arguments are always an object",
    );
    refuse(&json!([]), "its input schema is not an object");
    refuse(&json!("object"), "its input schema is not an object");
}

#[test]
fn local_references_are_put_in_place() {
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
fn circles_keep_their_references_and_definitions() {
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
    // A root that is only a reference is what it refers to.
    check(
        &json!({"$ref": "#/$defs/Node", "$defs": {"Node": node}}),
        &json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}),
    );
    refuse(
        &json!({"$ref": "#"}),
        "its input schema has `$ref` at the root, which model APIs refuse",
    );
}

#[test]
fn nothing_is_fetched_and_nothing_is_made_up() {
    let with =
        |reference: &str| json!({"type": "object", "properties": {"a": {"$ref": reference}}});
    for away in ["https://example.com/s.json", "file:///etc/passwd", "other.json#/a", "//host/x"] {
        refuse(
            &with(away),
            &format!("its input schema refers to `{away}`, and nothing is fetched"),
        );
    }
    refuse(&with("#/$defs/A"), "its input schema refers to `#/$defs/A`, which is not there");
    refuse(&with("#/type"), "its input schema refers to `#/type`, which is not there");
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
    let refused =
        |keyword| format!("its input schema has `{keyword}` at the root, which model APIs refuse");
    refuse(&json!({"anyOf": [a, b]}), &refused("anyOf"));
    refuse(&json!({"oneOf": [a, b]}), &refused("oneOf"));
    refuse(&json!({"allOf": [closed, b]}), &refused("allOf"));
    refuse(&json!({"allOf": [b, closed]}), &refused("allOf"));
    refuse(&json!({"not": {"required": ["a"]}}), &refused("not"));
}

#[test]
fn a_choice_of_what_has_to_be_there_is_not_shown_and_still_checked() {
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
        refuse(&schema, "its input schema has `anyOf` at the root, which model APIs refuse");
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
fn malformed_schemas_are_refused_with_the_place() {
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
        refuse(&with_c(property), &at(place));
    }
    refuse(&with(json!({})), "its argument `a/b` has a name that model APIs refuse");
    refuse(
        &json!({"type": "object", "properties": {"": {}}}),
        "its argument `` has a name that model APIs refuse",
    );
}

#[test]
fn size_and_depth_have_limits() {
    let large = json!({"type": "object", "properties": {}, "description": "x".repeat(MAX_BYTES)});
    assert!(matches!(of(&large), Err(QuarantineReason::TooLarge(_))));
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_DEPTH {
        deep = json!({"type": "array", "items": deep});
    }
    assert_eq!(
        of(&json!({"type": "object", "properties": {"a": deep}})),
        Err(QuarantineReason::TooDeep)
    );
    let text = format!("{}{}", r#"{"items":"#.repeat(500), "}".repeat(500));
    let all = Payload::from_json(text.clone().into());
    let raw = RawValue::from_string("{}".to_owned()).expect("JSON");
    assert!(normalise(Some(&raw), &all).is_ok());
    assert!(!plain_check::is_plain(&text));
}

/// Keywords and values in any combination, many of them nonsense.
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
    fn whatever_comes_is_shown_as_an_object_or_refused(schema in any_schema()) {
        if let Ok(shown) = of(&schema) {
            prop_assert_eq!(&shown["type"], &json!("object"));
            prop_assert!(shown["properties"].is_object());
            for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
                prop_assert!(shown.get(keyword).is_none(), "{}", keyword);
            }
            prop_assert_eq!(of(&shown), Ok(shown.clone()));
        }
    }

    #[test]
    fn what_the_short_way_lets_through_the_long_way_leaves_alone(schema in any_schema()) {
        let text = schema.to_string();
        if plain_check::is_plain(&text) {
            let mut expected = schema.clone();
            expected.as_object_mut().expect("it is an object").shift_remove("$schema");
            prop_assert_eq!(normalise_json(schema, &mut Vec::new()), Ok(expected));
        }
    }
}
