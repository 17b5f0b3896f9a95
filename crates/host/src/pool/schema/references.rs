//! Puts what local references point to in their place. What goes round in a circle keeps its reference and the
//! definitions; so does all of it where putting things in place would make the schema too large.

use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::{
    MAX_BYTES, MAX_DEPTH, Object, QuarantineReason, SubschemaShape, each_child, subschema_shape,
};

/// Keywords beside a reference that only describe.
const ANNOTATION_KEYWORDS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];
/// Where definitions are kept.
const DEFINITION_KEYS: [&str; 2] = ["$defs", "definitions"];

/// How often the root may refer to something that refers to something.
const MAX_CHAIN: usize = 16;

/// The schema with its references in place.
pub(crate) fn inline_references(root: Object) -> Result<Object, QuarantineReason> {
    let root = Json::Object(resolve_root(root));
    let graph = Graph::of(&root)?;
    if graph.edges.is_empty() {
        return Ok(without_definitions(root));
    }
    let circular = graph.circular();
    let mut inliner = Inliner { root: &root, circular, left: MAX_BYTES };
    let inlined = inliner.schema(&root, 0);
    // What does not fit in place stays where it was: nothing is lost, it is only harder to read.
    let Some(inlined) = inlined else { return Ok(into_object(root)) };
    let mut remaining = Vec::new();
    // Definitions only count where something else refers to them.
    let used = Json::Object(without_definitions(inlined.clone()));
    references(&used, &mut remaining);
    match remaining.is_empty() {
        true => Ok(into_object(used)),
        false => Ok(into_object(inlined)),
    }
}

/// Does every reference lead somewhere here?
pub(crate) fn check_targets(root: &Object) -> Result<(), QuarantineReason> {
    Graph::of(&Json::Object(root.clone())).map(drop)
}

/// A root that is only a reference, as what it refers to. That is possible even where it goes round in a circle.
fn resolve_root(mut root: Object) -> Object {
    for _ in 0..MAX_CHAIN {
        let whole = Json::Object(root);
        let reference = whole.get("$ref").and_then(Json::as_str);
        let found = reference.and_then(|it| target(&whole, it)).cloned();
        root = into_object(whole);
        let Some(found) = found else { break };
        root.shift_remove("$ref");
        let definitions_kept = DEFINITION_KEYS.map(|key| (key, root.shift_remove(key)));
        root = into_object(merge_siblings(found, root));
        for (key, definitions) in definitions_kept {
            if let Some(definitions) = definitions {
                root.insert(key.to_owned(), definitions);
            }
        }
    }
    root
}

fn into_object(value: Json) -> Object {
    match value {
        Json::Object(object) => object,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Object::new()
        }
    }
}

fn without_definitions(value: Json) -> Object {
    let mut object = into_object(value);
    DEFINITION_KEYS.iter().for_each(|key| drop(object.shift_remove(*key)));
    object
}

/// The references in a schema, those below included.
fn references<'a>(schema: &'a Json, found: &mut Vec<&'a str>) {
    let Json::Object(schema) = schema else { return };
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        if let Some(Json::String(target)) = schema.get(keyword) {
            found.push(target);
        }
    }
    each_child(schema, &mut |child| references(child, found));
}

/// What a local reference points to.
fn target<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    let pointer = reference.strip_prefix('#')?;
    let decoded = percent_decoded(pointer)?;
    root.pointer(&decoded).filter(|it| it.is_object() || it.is_boolean())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Which reference leads to which others.
struct Graph<'a> {
    edges: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Graph<'a> {
    /// Follows every reference. The error is one that leads nowhere, or away.
    fn of(root: &'a Json) -> Result<Graph<'a>, QuarantineReason> {
        let mut waiting = Vec::new();
        references(root, &mut waiting);
        let mut edges: HashMap<&str, Vec<&str>> = HashMap::new();
        while let Some(reference) = waiting.pop() {
            if edges.contains_key(reference) {
                continue;
            }
            let shortened = || reference.chars().take(200).collect::<String>();
            if !reference.starts_with('#') {
                return Err(QuarantineReason::RemoteReference(shortened()));
            }
            let Some(target) = target(root, reference) else {
                return Err(QuarantineReason::DanglingReference(shortened()));
            };
            let mut found = Vec::new();
            references(target, &mut found);
            waiting.extend(&found);
            edges.insert(reference, found);
        }
        Ok(Graph { edges })
    }

    /// Those that lead into a circle: what is left when all that lead only to ends are taken away.
    fn circular(&self) -> HashSet<String> {
        let mut outgoing: HashMap<&str, usize> = HashMap::new();
        let mut incoming: HashMap<&str, Vec<&str>> = HashMap::new();
        for (from, to) in &self.edges {
            outgoing.insert(from, to.len());
            for target in to {
                incoming.entry(target).or_default().push(from);
            }
        }
        let mut ends: Vec<&str> =
            outgoing.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
        while let Some(end) = ends.pop() {
            outgoing.remove(end);
            for from in incoming.get(end).into_iter().flatten() {
                let Some(count) = outgoing.get_mut(from) else { continue };
                *count -= 1;
                if *count == 0 {
                    ends.push(from);
                }
            }
        }
        outgoing.into_keys().map(str::to_owned).collect()
    }
}

/// Copies a schema with references in place, as long as there is room.
struct Inliner<'a> {
    root: &'a Json,
    circular: HashSet<String>,
    left: usize,
}

impl Inliner<'_> {
    /// Absent where there is no room.
    fn schema(&mut self, schema: &Json, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        let Json::Object(object) = schema else { return self.copy(schema) };
        let reference = object.get("$ref").and_then(Json::as_str);
        let reference = reference.filter(|it| !self.circular.contains(*it));
        let Some(reference) = reference else { return self.members(object, depth) };
        let target = self.schema(target(self.root, reference)?, depth + 1)?;
        let mut beside = object.clone();
        beside.shift_remove("$ref");
        let beside = self.members(&beside, depth)?;
        Some(merge_siblings(target, into_object(beside)))
    }

    fn members(&mut self, object: &Object, depth: usize) -> Option<Json> {
        let mut made = Object::new();
        for (keyword, value) in object {
            self.spend(keyword.len() + 4)?;
            let value = match (subschema_shape(keyword), value) {
                (SubschemaShape::Single, value) => self.schema(value, depth + 1)?,
                (SubschemaShape::Map, Json::Object(named)) => {
                    let mut each = Object::new();
                    for (name, child) in named {
                        self.spend(name.len() + 4)?;
                        each.insert(name.clone(), self.schema(child, depth + 2)?);
                    }
                    Json::Object(each)
                }
                (SubschemaShape::List, Json::Array(listed)) => {
                    let each = listed.iter().map(|child| self.schema(child, depth + 2));
                    Json::Array(each.collect::<Option<_>>()?)
                }
                (
                    SubschemaShape::Map | SubschemaShape::List | SubschemaShape::NotASchema,
                    value,
                ) => self.copy(value)?,
            };
            made.insert(keyword.clone(), value);
        }
        Some(Json::Object(made))
    }

    fn copy(&mut self, value: &Json) -> Option<Json> {
        self.spend(size(value))?;
        Some(value.clone())
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }
}

/// About how long it is when it is written.
fn size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Number(_) => 8,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|it| size(it) + 1).sum::<usize>(),
        Json::Object(map) => 2 + map.iter().map(|it| it.0.len() + 4 + size(it.1)).sum::<usize>(),
    }
}

/// What was referred to, together with what stood beside the reference.
fn merge_siblings(target: Json, beside: Object) -> Json {
    if beside.is_empty() {
        return target;
    }
    let only_describes =
        beside.keys().all(|keyword| ANNOTATION_KEYWORDS.contains(&keyword.as_str()));
    if only_describes && target.is_object() {
        let mut target = into_object(target);
        target.extend(beside);
        return Json::Object(target);
    }
    let mut whole = beside;
    match whole.get_mut("allOf") {
        Some(Json::Array(all)) => all.push(target),
        Some(_) | None => drop(whole.insert("allOf".to_owned(), json!([target]))),
    }
    Json::Object(whole)
}
