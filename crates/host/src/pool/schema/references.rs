//! Inlines local references. Circular references stay, with their definitions; all references stay if the inlined
//! schema would be too large.

use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::{
    MAX_BYTES, MAX_DEPTH, Object, QuarantineReason, SubschemaShape, each_child, subschema_shape,
};

/// Keywords beside a reference that only annotate.
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
/// The keywords that hold definitions.
const DEFINITION_KEYS: [&str; 2] = ["$defs", "definitions"];

/// The maximum length of a chain of references at the root.
const MAX_CHAIN: usize = 16;

/// Inlines the references of a schema.
pub(crate) fn inline_references(root: Object) -> Result<Object, QuarantineReason> {
    let root = Json::Object(resolve_root(root));
    let graph = Graph::of(&root)?;
    if graph.edges.is_empty() {
        return Ok(without_definitions(root));
    }
    let circular = graph.circular();
    let mut inliner = Inliner { root: &root, circular, remaining_bytes: MAX_BYTES };
    let inlined = inliner.schema(&root, 0);
    // If the inlined schema is too large, keep the references: nothing is lost, only harder to read.
    let Some(inlined) = inlined else { return Ok(into_object(root)) };
    let mut remaining = Vec::new();
    // Definitions count only if something outside them refers to them.
    let without_unused = Json::Object(without_definitions(inlined.clone()));
    references(&without_unused, &mut remaining);
    match remaining.is_empty() {
        true => Ok(into_object(without_unused)),
        false => Ok(into_object(inlined)),
    }
}

/// Checks that every reference has a local target.
pub(crate) fn check_targets(root: &Object) -> Result<(), QuarantineReason> {
    Graph::of(&Json::Object(root.clone())).map(drop)
}

/// Replaces a root that is only a reference by its target, which works even for circular references.
fn resolve_root(mut root: Object) -> Object {
    for _ in 0..MAX_CHAIN {
        let root_json = Json::Object(root);
        let reference = root_json.get("$ref").and_then(Json::as_str);
        let resolved = reference.and_then(|it| target(&root_json, it)).cloned();
        root = into_object(root_json);
        let Some(resolved) = resolved else { break };
        root.shift_remove("$ref");
        let definitions_by_key = DEFINITION_KEYS.map(|key| (key, root.shift_remove(key)));
        root = into_object(merge_siblings(resolved, root));
        for (key, definitions) in definitions_by_key {
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

/// Collects the references in a schema and its subschemas.
fn references<'a>(schema: &'a Json, targets: &mut Vec<&'a str>) {
    let Json::Object(schema) = schema else { return };
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        if let Some(Json::String(target)) = schema.get(keyword) {
            targets.push(target);
        }
    }
    each_child(schema, &mut |child| references(child, targets));
}

/// The target of a local reference.
pub(crate) fn target<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
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

/// The address of a schema, which tells it from others as long as it is not moved. A pointer to it can be spelt in many
/// ways, so its text does not.
type Address = usize;

fn address(schema: &Json) -> Address {
    std::ptr::from_ref(schema).addr()
}

/// The targets of the references in each target of a reference.
struct Graph {
    edges: HashMap<Address, HashSet<Address>>,
}

impl Graph {
    /// Follows all references. Fails on remote and dangling ones.
    fn of(root: &Json) -> Result<Graph, QuarantineReason> {
        let mut edges: HashMap<Address, HashSet<Address>> = HashMap::new();
        let mut pending = Graph::targets(root, root)?;
        while let Some(schema) = pending.pop() {
            if edges.contains_key(&address(schema)) {
                continue;
            }
            let targets = Graph::targets(root, schema)?;
            edges.insert(address(schema), targets.iter().map(|it| address(it)).collect());
            pending.extend(targets);
        }
        Ok(Graph { edges })
    }

    /// The targets of the references in a schema, each once.
    fn targets<'a>(root: &'a Json, schema: &'a Json) -> Result<Vec<&'a Json>, QuarantineReason> {
        let mut pointers = Vec::new();
        references(schema, &mut pointers);
        let mut targets = Vec::new();
        let mut known = HashSet::new();
        for pointer in pointers {
            let shortened = || pointer.chars().take(200).collect::<String>();
            if !pointer.starts_with('#') {
                return Err(QuarantineReason::RemoteReference(shortened()));
            }
            let target = target(root, pointer);
            let target = target.ok_or_else(|| QuarantineReason::DanglingReference(shortened()))?;
            if known.insert(address(target)) {
                targets.push(target);
            }
        }
        Ok(targets)
    }

    /// The targets of circular references: those that remain after repeatedly removing targets without references.
    fn circular(&self) -> HashSet<Address> {
        let mut outgoing: HashMap<Address, usize> = HashMap::new();
        let mut incoming: HashMap<Address, Vec<Address>> = HashMap::new();
        for (from, to) in &self.edges {
            outgoing.insert(*from, to.len());
            for target in to {
                incoming.entry(*target).or_default().push(*from);
            }
        }
        let mut leaves: Vec<Address> =
            outgoing.iter().filter(|(_, count)| **count == 0).map(|(target, _)| *target).collect();
        while let Some(leaf) = leaves.pop() {
            outgoing.remove(&leaf);
            for from in incoming.get(&leaf).into_iter().flatten() {
                let Some(count) = outgoing.get_mut(from) else { continue };
                *count -= 1;
                if *count == 0 {
                    leaves.push(*from);
                }
            }
        }
        outgoing.into_keys().collect()
    }
}

/// Copies a schema with references inlined, within a size budget.
struct Inliner<'a> {
    root: &'a Json,
    circular: HashSet<Address>,
    remaining_bytes: usize,
}

impl Inliner<'_> {
    /// `None` if the budget is exhausted.
    fn schema(&mut self, schema: &Json, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        let Json::Object(object) = schema else { return self.copy(schema) };
        let reference = object.get("$ref").and_then(Json::as_str);
        let target = reference.and_then(|it| target(self.root, it));
        let target = target.filter(|it| !self.circular.contains(&address(it)));
        let Some(target) = target else { return self.members(object, depth) };
        let target = self.schema(target, depth + 1)?;
        let mut siblings = object.clone();
        siblings.shift_remove("$ref");
        let siblings = self.members(&siblings, depth)?;
        Some(merge_siblings(target, into_object(siblings)))
    }

    fn members(&mut self, object: &Object, depth: usize) -> Option<Json> {
        let mut members = Object::new();
        for (keyword, value) in object {
            self.spend(keyword.len() + 4)?;
            let value = match (subschema_shape(keyword), value) {
                (SubschemaShape::Single, value) => self.schema(value, depth + 1)?,
                (SubschemaShape::Map, Json::Object(named)) => {
                    let mut children = Object::new();
                    for (name, child) in named {
                        self.spend(name.len() + 4)?;
                        children.insert(name.clone(), self.schema(child, depth + 2)?);
                    }
                    Json::Object(children)
                }
                (SubschemaShape::List, Json::Array(listed)) => {
                    let children = listed.iter().map(|child| self.schema(child, depth + 2));
                    Json::Array(children.collect::<Option<_>>()?)
                }
                (
                    SubschemaShape::Map | SubschemaShape::List | SubschemaShape::NotASchema,
                    value,
                ) => self.copy(value)?,
            };
            members.insert(keyword.clone(), value);
        }
        Some(Json::Object(members))
    }

    fn copy(&mut self, value: &Json) -> Option<Json> {
        self.spend(size(value))?;
        Some(value.clone())
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.remaining_bytes = self.remaining_bytes.checked_sub(bytes)?;
        Some(())
    }
}

/// The approximate length as JSON text.
fn size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Number(_) => 8,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|it| size(it) + 1).sum::<usize>(),
        Json::Object(map) => 2 + map.iter().map(|it| it.0.len() + 4 + size(it.1)).sum::<usize>(),
    }
}

/// Combines a reference's target with the keywords beside the reference.
fn merge_siblings(target: Json, siblings: Object) -> Json {
    if siblings.is_empty() {
        return target;
    }
    let are_annotations =
        siblings.keys().all(|keyword| ANNOTATION_KEYWORDS.contains(&keyword.as_str()));
    if are_annotations && target.is_object() {
        let mut target = into_object(target);
        target.extend(siblings);
        return Json::Object(target);
    }
    let mut combined = siblings;
    match combined.get_mut("allOf") {
        Some(Json::Array(all)) => all.push(target),
        Some(_) | None => drop(combined.insert("allOf".to_owned(), json!([target]))),
    }
    Json::Object(combined)
}
