//! Tests of the argument check: the same verdict as another implementation, and bounded work for hostile schemas.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn compile(schema: &Json) -> CompiledSchema {
    CompiledSchema::compile(schema).expect("a schema")
}

/// The faults, and the most steps that one of the two passes may take to find them.
#[track_caller]
fn check_within(steps: u64, schema: &Json, arguments: &Json, expected: &[&str]) {
    let schema = compile(schema);
    let new = |scope| Evaluation::new(&schema, scope, Work::limited_to(steps));
    let instance = Instance::Value(arguments);
    let is_valid = new(CacheScope::SharedNodes).is_valid(CompiledSchema::ROOT, instance);
    assert_eq!(is_valid, Ok(expected.is_empty()));
    let faults = explain(new(CacheScope::AllNodes), instance).expect("few steps");
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(told, expected);
}

/// Definitions of which each uses the next one twice, and the last one is a text.
fn doubling(depth: usize, twice: impl Fn(Json) -> Json) -> Json {
    let name = |level: usize| format!("d{level}");
    let mut definitions = Map::new();
    for level in 0..depth {
        let next = json!({"$ref": format!("#/$defs/{}", name(level + 1))});
        definitions.insert(name(level), twice(next));
    }
    definitions.insert(name(depth), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

#[test]
fn a_schema_that_doubles_at_each_level_takes_few_steps() {
    const DEPTH: usize = 40;
    type Doubler = fn(Json) -> Json;
    let twice: [(&str, Doubler); 9] = [
        ("anyOf", |next| json!({"anyOf": [next, next]})),
        ("allOf", |next| json!({"allOf": [next, next]})),
        ("$dynamicRef", |next| json!({"anyOf": [{"$dynamicRef": next["$ref"]}, next]})),
        ("not", |next| json!({"not": {"not": next}, "allOf": [next]})),
        ("if", |next| json!({"if": next, "then": next, "else": next})),
        ("contains", |next| json!({"anyOf": [next, {"contains": next, "type": "array"}, next]})),
        (
            "unevaluatedProperties",
            |next| json!({"anyOf": [next, next], "unevaluatedProperties": false}),
        ),
        ("unevaluatedItems", |next| json!({"allOf": [next, next], "unevaluatedItems": false})),
        ("properties", |next| json!({"anyOf": [next, next], "properties": {"x": next}})),
    ];
    for (keyword, twice) in twice {
        let schema = doubling(DEPTH, twice);
        check_within(10_000, &schema, &json!({"a": "text"}), &[]);
        let schema = compile(&schema);
        let work = Work::limited_to(10_000);
        let arguments = json!({"a": 1});
        let faults = explain(
            Evaluation::new(&schema, CacheScope::AllNodes, work),
            Instance::Value(&arguments),
        );
        let faults = faults.unwrap_or_else(|_| panic!("{keyword} takes many steps"));
        assert!(!faults.is_empty(), "{keyword}");
    }
    let schema = doubling(DEPTH, |next| json!({"anyOf": [next, next]}));
    check_within(10_000, &schema, &json!({"a": 1}), &["`a` should be string, not number"]);
    // Two equal alternatives are never exactly one, down to the text.
    let schema = doubling(DEPTH, |next| json!({"oneOf": [next, {"allOf": [next, false]}]}));
    check_within(10_000, &schema, &json!({"a": "text"}), &[]);
}

#[test]
fn a_recursive_schema_takes_steps_in_proportion_to_the_arguments() {
    let tree = json!({"type": "object", "properties": {
        "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"$ref": "#/$defs/tree"}]},
        "right": {"oneOf": [{"$ref": "#/$defs/tree"}, {"type": "string"}]},
    }, "required": ["v"]});
    let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": tree}});
    let mut arguments = json!({});
    for _ in 0..60 {
        arguments = json!({"v": 1, "left": arguments, "right": "leaf"});
    }
    let path = vec!["left"; 60].join(".");
    check_within(10_000, &schema, &arguments, &[&format!("`{path}.v` is missing")]);
}

#[test]
fn the_number_of_items_counts_once_for_an_enum_and_for_unique_items() {
    let values: Vec<String> = (0..5_000).map(|it| format!("v{it}")).collect();
    let schema = json!({"properties": {"a": {"items": {"enum": values}, "uniqueItems": true}}});
    check_within(100_000, &schema, &json!({"a": values}), &[]);
    let twice = [values.clone(), values].concat();
    let expected = ["`a` should have no duplicate items"];
    check_within(200_000, &schema, &json!({"a": twice}), &expected);
}

#[test]
fn a_check_that_takes_too_many_steps_is_refused() {
    let properties: Map<String, Json> =
        (0..2_000).map(|it| (format!("p{it}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {"a": {"items": {
        "properties": properties, "additionalProperties": false,
    }}}});
    let checker = ArgumentChecker { schema: Some(compile(&schema)) };
    let many = json!({"a": vec![json!({}); 10_000]});
    let told: Vec<String> = checker.faults(&many).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the arguments take more than 4000000 steps to check against the schema of the tool; make them smaller or \
             less nested"
        ]
    );
    assert_eq!(checker.faults(&json!({"a": vec![json!({}); 1_000]})), []);
}

#[test]
fn a_long_chain_of_references_does_not_overflow_the_stack() {
    let schema = doubling(3_000, |next| json!({"allOf": [next]}));
    let checker = ArgumentChecker { schema: Some(compile(&schema)) };
    let kind = ArgumentFaultKind::TooMuchWork { max_steps: MAX_STEPS };
    for arguments in [json!({"a": 1}), json!({"a": "text"})] {
        let fault = ArgumentFault { at: String::new(), kind: kind.clone() };
        assert_eq!(checker.faults(&arguments), [fault]);
    }
    // As deep as JSON text may be.
    let list = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
    let checker = ArgumentChecker { schema: Some(compile(&list)) };
    let mut arguments = json!(null);
    for _ in 0..120 {
        arguments = json!({"next": arguments});
    }
    assert_eq!(checker.faults(&arguments), []);
}

#[test]
fn patterns_that_may_be_slow_are_ignored_for_long_texts() {
    let slow = json!({"properties": {"a": {"pattern": "(a*b*a*){2000}c"}}});
    check_within(1_000, &slow, &json!({"a": "a".repeat(1_000_000)}), &[]);
    check_within(1_000, &slow, &json!({"a": "x"}), &["`a` should match `(a*b*a*){2000}c`"]);
    let fast = json!({"properties": {"a": {"pattern": "^[A-Za-z0-9+/]*={0,2}$"}}});
    let text = format!("{}!", "A".repeat(1_000_000));
    check_within(1_000, &fast, &json!({"a": text}), &["`a` should match `^[A-Za-z0-9+/]*={0,2}$`"]);
    // Many patterns for many names.
    let patterns: Map<String, Json> =
        (0..100).map(|it| (format!("(a*b*a*){{20}}c{it}"), json!(false))).collect();
    let names: Map<String, Json> = (0..100).map(|it| ("a".repeat(100 + it), json!(1))).collect();
    let schema = json!({"patternProperties": patterns});
    let checker = ArgumentChecker { schema: Some(compile(&schema)) };
    assert!(checker.faults(&Json::Object(names)).len() <= 20);
}

#[test]
fn at_most_twenty_faults_are_told() {
    let schema =
        json!({"additionalProperties": {"type": "string"}, "propertyNames": {"maxLength": 9}});
    let arguments: Map<String, Json> = (0..1_000).map(|it| (format!("n{it}"), json!(1))).collect();
    let checker = ArgumentChecker { schema: Some(compile(&schema)) };
    assert_eq!(checker.faults(&Json::Object(arguments)).len(), 20);
}

/// Values that are likely to be equal to each other, or nearly.
fn any_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-3_i64..4).prop_map(Json::from),
        prop_oneof![Just(0.5), Just(1.0), Just(-0.0), Just(2.5)].prop_map(Json::from),
        "[ab]{0,3}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[ab]{1,2}", inner, 0..4)
                .prop_map(|it| Json::Object(it.into_iter().collect())),
        ]
    })
}

/// Schemas with every keyword. References to some definitions may be anywhere; references to `a` and to the root are only
/// where they are for a part of the value, because references in a circle have no meaning otherwise.
fn any_schema(definitions: &'static [&'static str]) -> impl Strategy<Value = Json> {
    let types = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let small = || (0_u64..4).prop_map(Json::from);
    let number =
        || prop_oneof![(-2_i64..3).prop_map(Json::from), Just(json!(0.5)), Just(json!(1.0))];
    let names = || prop::collection::btree_set("[ab]{1,2}", 0..3).prop_map(|it| json!(it));
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        prop::sample::select(definitions).prop_map(|it| json!({"$ref": it})),
        Just(json!({"additionalProperties": {"$ref": "#/$defs/a"}})),
        Just(json!({"items": {"$ref": "#"}})),
        prop::sample::select(types.to_vec()).prop_map(|it| json!({"type": it})),
        any_value().prop_map(|it| json!({"const": it})),
        prop::collection::vec(any_value(), 1..3).prop_map(|it| json!({"enum": it})),
        (
            prop::sample::select(vec![
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum"
            ]),
            number()
        )
            .prop_map(|(name, it)| json!({name: it})),
        prop_oneof![Just(json!(2)), Just(json!(0.5)), Just(json!(1.5))]
            .prop_map(|it| json!({"multipleOf": it})),
        (
            prop::sample::select(vec![
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties"
            ]),
            small()
        )
            .prop_map(|(name, it)| json!({name: it})),
        prop::sample::select(vec!["^a", "b$", "^(?!b)", "ab|bb"])
            .prop_map(|it| json!({"pattern": it})),
        Just(json!({"uniqueItems": true})),
        names().prop_map(|it| json!({"required": it})),
        ("[ab]{1,2}", names()).prop_map(|(name, it)| json!({"dependentRequired": {name: it}})),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let single = prop::sample::select(vec![
            "not",
            "items",
            "additionalProperties",
            "propertyNames",
            "contains",
            "unevaluatedItems",
            "unevaluatedProperties",
        ]);
        let list = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let keyword = prop_oneof![
            (single, inner.clone()).prop_map(|(name, it)| json!({name: it})),
            (list, prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(name, it)| json!({name: it})),
            (
                prop::sample::select(vec!["properties", "dependentSchemas"]),
                "[ab]{1,2}",
                inner.clone()
            )
                .prop_map(|(keyword, name, it)| json!({keyword: {name: it}})),
            (prop::sample::select(vec!["^a", "b", "^(?=a)"]), inner.clone())
                .prop_map(|(pattern, it)| json!({"patternProperties": {pattern: it}})),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (inner.clone(), 0_u64..3, 0_u64..3).prop_map(|(it, least, most)| {
                json!({"contains": it, "minContains": least, "maxContains": most})
            }),
            inner,
        ];
        prop::collection::vec(keyword, 1..4).prop_map(|parts| {
            let mut merged = Map::new();
            for part in parts {
                let Json::Object(members) = part else { return part };
                merged.extend(members);
            }
            Json::Object(merged)
        })
    })
}

proptest! {
    #[test]
    fn the_verdict_is_the_same_as_another_implementation_gives(
        root in any_schema(&["#/$defs/a", "#/$defs/b"]),
        a in any_schema(&["#/$defs/b", "#/$defs/c"]),
        b in any_schema(&["#/$defs/c"]),
        value in any_value(),
    ) {
        let mut root = if root.is_object() { root } else { json!({"allOf": [root]}) };
        root["$defs"] = json!({"a": a, "b": b, "c": {"type": ["string", "array"]}});
        let schema = compile(&root);
        let other = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .build(&root)
            .expect("a schema");
        let work = Work::limited_to(MAX_STEPS);
        let ours = Evaluation::new(&schema, CacheScope::SharedNodes, work)
            .is_valid(CompiledSchema::ROOT, Instance::Value(&value));
        let theirs = other.is_valid(&value);
        prop_assert_eq!(ours, Ok(theirs), "{} {}", root, value);
        let faults = ArgumentChecker { schema: Some(schema) }.faults(&value);
        prop_assert_eq!(faults.is_empty(), theirs, "{} {} {:?}", root, value, faults);
    }
}
