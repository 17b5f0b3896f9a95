//! A schema as a graph of nodes that `evaluation` walks: references are resolved and patterns compiled. The schema is
//! normalised, so every reference is a JSON pointer into it.

use std::collections::{HashMap, HashSet};

use serde_json::{Number, Value as Json};

use super::fault::shortened;
use super::instance::{Instance, JsonKind};
use super::pattern::{PatternId, PatternSet};
use super::work::{MAX_STEPS, Work};
use crate::pool::schema::references::target;

/// A compiled schema.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    nodes: Vec<SchemaNode>,
    patterns: PatternSet,
    /// Whether a keyword depends on what other keywords are for. It evaluates these again.
    pub(super) has_unevaluated: bool,
}

/// The place of a node in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(usize);

/// A schema or subschema.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    pub(super) keywords: Vec<Keyword>,
    /// Whether several places lead here, so that it may be evaluated several times for one value.
    pub(super) is_shared: bool,
}

/// A keyword with its value.
#[derive(Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Type(Vec<JsonKind>),
    /// `enum` and `const`: the canonical texts, and the values as they are shown.
    Values {
        canonical: HashSet<String>,
        shown: String,
    },
    Range {
        range: RangeKind,
        limit: Number,
    },
    MultipleOf(Number),
    Count {
        count: CountKind,
        limit: Number,
    },
    Pattern(PatternId),
    UniqueItems,
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, NodeId)>),
    Properties(Vec<(String, NodeId)>),
    PatternProperties(Vec<(PatternId, NodeId)>),
    AdditionalProperties {
        node: NodeId,
        siblings: SiblingProperties,
    },
    PropertyNames(NodeId),
    PrefixItems(Vec<NodeId>),
    /// For the items after the first few.
    Items {
        node: NodeId,
        after: usize,
    },
    Contains {
        node: NodeId,
        least: Option<Number>,
        most: Option<Number>,
    },
    /// For the items that no other keyword of the schema `within` is for.
    UnevaluatedItems {
        node: NodeId,
        within: NodeId,
    },
    /// For the members that no other keyword of the schema `within` is for.
    UnevaluatedProperties {
        node: NodeId,
        within: NodeId,
        siblings: SiblingProperties,
    },
    Reference(NodeId),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    Condition {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
}

/// The names and patterns in `properties` and `patternProperties` beside a keyword.
#[derive(Debug, Default)]
pub(super) struct SiblingProperties {
    pub(super) names: HashSet<String>,
    pub(super) patterns: Vec<PatternId>,
}

/// The direction of a limit for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeKind {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// The quantity that a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountKind {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

impl CompiledSchema {
    /// The node of the whole schema.
    pub(super) const ROOT: NodeId = NodeId(0);

    /// Compiles a schema. `None` if a keyword has an invalid value, for example an unsupported pattern.
    pub(super) fn compile(root: &Json) -> Option<CompiledSchema> {
        let mut compiler = Compiler {
            root,
            nodes: Vec::new(),
            ids: HashMap::new(),
            pending: Vec::new(),
            patterns: PatternSet::default(),
            has_unevaluated: false,
        };
        compiler.node(root);
        // A list instead of recursion: a chain of references can be long.
        while let Some((id, schema)) = compiler.pending.pop() {
            compiler.nodes[id.0].keywords = compiler.keywords(id, schema)?;
        }
        let Compiler { nodes, patterns, has_unevaluated, .. } = compiler;
        Some(CompiledSchema { nodes, patterns, has_unevaluated })
    }

    pub(super) fn node(&self, id: NodeId) -> &SchemaNode {
        &self.nodes[id.0]
    }

    pub(super) fn patterns(&self) -> &PatternSet {
        &self.patterns
    }

    /// Whether nothing is valid here.
    pub(super) fn is_never(&self, id: NodeId) -> bool {
        matches!(self.nodes[id.0].keywords.as_slice(), [Keyword::Never])
    }
}

struct Compiler<'a> {
    root: &'a Json,
    nodes: Vec<SchemaNode>,
    /// The nodes by the address of their schema, which does not move while it is compiled.
    ids: HashMap<usize, NodeId>,
    pending: Vec<(NodeId, &'a Json)>,
    patterns: PatternSet,
    has_unevaluated: bool,
}

impl<'a> Compiler<'a> {
    fn node(&mut self, schema: &'a Json) -> NodeId {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(id) = self.ids.get(&address) {
            self.nodes[id.0].is_shared = true;
            return *id;
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(SchemaNode::default());
        self.ids.insert(address, id);
        self.pending.push((id, schema));
        id
    }

    fn keywords(&mut self, id: NodeId, schema: &'a Json) -> Option<Vec<Keyword>> {
        let members = match schema {
            Json::Bool(true) => return Some(Vec::new()),
            Json::Bool(false) => return Some(vec![Keyword::Never]),
            Json::Object(members) => members,
            Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => return None,
        };
        let mut keywords = Vec::new();
        for (name, value) in members {
            keywords.extend(self.keyword((id, schema), name, value)?);
        }
        // The type is told first.
        keywords.sort_by_key(|keyword| !matches!(keyword, Keyword::Type(_)));
        Some(keywords)
    }

    /// The outer `None` is an invalid value, the inner one a keyword that validates nothing by itself.
    fn keyword(
        &mut self,
        (id, schema): (NodeId, &'a Json),
        name: &str,
        value: &'a Json,
    ) -> Option<Option<Keyword>> {
        let keyword = match name {
            "type" => Keyword::Type(types(value)?),
            "enum" => values(value.as_array()?.iter())?,
            "const" => values(std::iter::once(value))?,
            "pattern" => Keyword::Pattern(self.patterns.add(value.as_str()?)?),
            "multipleOf" => Keyword::MultipleOf(value.as_number()?.clone()),
            "uniqueItems" => return Some(value.as_bool()?.then_some(Keyword::UniqueItems)),
            "required" => Keyword::Required(strings(value)?),
            "dependentRequired" => {
                let members = value.as_object()?.iter();
                let lists = members.map(|(name, list)| Some((name.clone(), strings(list)?)));
                Keyword::DependentRequired(lists.collect::<Option<_>>()?)
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                Keyword::Range { range: range_kind(name)?, limit: value.as_number()?.clone() }
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => {
                Keyword::Count { count: count_kind(name)?, limit: value.as_number()?.clone() }
            }
            name => return self.applicator((id, schema), name, value),
        };
        Some(Some(keyword))
    }

    /// A keyword whose value has subschemas.
    fn applicator(
        &mut self,
        (id, schema): (NodeId, &'a Json),
        name: &str,
        value: &'a Json,
    ) -> Option<Option<Keyword>> {
        let keyword = match name {
            "$ref" | "$dynamicRef" => {
                Keyword::Reference(self.node(target(self.root, value.as_str()?)?))
            }
            "allOf" => Keyword::AllOf(self.list(value)?),
            "anyOf" => Keyword::AnyOf(self.list(value)?),
            "oneOf" => Keyword::OneOf(self.list(value)?),
            "not" => Keyword::Not(self.node(value)),
            "if" => {
                let mut branch = |name| schema.get(name).map(|it| self.node(it));
                let (then, otherwise) = (branch("then"), branch("else"));
                Keyword::Condition { condition: self.node(value), then, otherwise }
            }
            "properties" => Keyword::Properties(self.map(value)?),
            "dependentSchemas" => Keyword::DependentSchemas(self.map(value)?),
            "patternProperties" => {
                let mut nodes = Vec::new();
                for (pattern, child) in value.as_object()? {
                    nodes.push((self.patterns.add(pattern)?, self.node(child)));
                }
                Keyword::PatternProperties(nodes)
            }
            "additionalProperties" => {
                let siblings = self.siblings(schema)?;
                Keyword::AdditionalProperties { node: self.node(value), siblings }
            }
            "unevaluatedProperties" => {
                self.has_unevaluated = true;
                let siblings = self.siblings(schema)?;
                Keyword::UnevaluatedProperties { node: self.node(value), within: id, siblings }
            }
            "propertyNames" => Keyword::PropertyNames(self.node(value)),
            "prefixItems" => Keyword::PrefixItems(self.list(value)?),
            "items" => {
                let before = schema.get("prefixItems").and_then(Json::as_array);
                Keyword::Items { node: self.node(value), after: before.map_or(0, Vec::len) }
            }
            "unevaluatedItems" => {
                self.has_unevaluated = true;
                Keyword::UnevaluatedItems { node: self.node(value), within: id }
            }
            "contains" => {
                let count = |name| schema.get(name).and_then(Json::as_number).cloned();
                let (least, most) = (count("minContains"), count("maxContains"));
                Keyword::Contains { node: self.node(value), least, most }
            }
            _ => return Some(None),
        };
        Some(Some(keyword))
    }

    fn list(&mut self, value: &'a Json) -> Option<Vec<NodeId>> {
        Some(value.as_array()?.iter().map(|child| self.node(child)).collect())
    }

    fn map(&mut self, value: &'a Json) -> Option<Vec<(String, NodeId)>> {
        let members = value.as_object()?.iter();
        Some(members.map(|(name, child)| (name.clone(), self.node(child))).collect())
    }

    fn siblings(&mut self, schema: &Json) -> Option<SiblingProperties> {
        let mut siblings = SiblingProperties::default();
        if let Some(named) = schema.get("properties") {
            siblings.names = named.as_object()?.keys().cloned().collect();
        }
        if let Some(by_pattern) = schema.get("patternProperties") {
            for pattern in by_pattern.as_object()?.keys() {
                siblings.patterns.push(self.patterns.add(pattern)?);
            }
        }
        Some(siblings)
    }
}

fn types(value: &Json) -> Option<Vec<JsonKind>> {
    match value {
        Json::String(name) => Some(vec![JsonKind::parse(name)?]),
        Json::Array(names) => names.iter().map(|it| JsonKind::parse(it.as_str()?)).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    }
}

fn values<'a>(values: impl Iterator<Item = &'a Json> + Clone) -> Option<Keyword> {
    // A schema is small enough for this.
    let mut work = Work::limited_to(MAX_STEPS);
    let canonical = values.clone().map(|it| Instance::Value(it).canonical(&mut work).ok());
    let canonical = canonical.collect::<Option<_>>()?;
    let shown: Vec<String> = values.map(Json::to_string).collect();
    Some(Keyword::Values { canonical, shown: shortened(&shown.join(", ")) })
}

fn strings(value: &Json) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect()
}

fn range_kind(name: &str) -> Option<RangeKind> {
    match name {
        "minimum" => Some(RangeKind::Minimum),
        "maximum" => Some(RangeKind::Maximum),
        "exclusiveMinimum" => Some(RangeKind::ExclusiveMinimum),
        "exclusiveMaximum" => Some(RangeKind::ExclusiveMaximum),
        _ => None,
    }
}

fn count_kind(name: &str) -> Option<CountKind> {
    match name {
        "minLength" => Some(CountKind::MinLength),
        "maxLength" => Some(CountKind::MaxLength),
        "minItems" => Some(CountKind::MinItems),
        "maxItems" => Some(CountKind::MaxItems),
        "minProperties" => Some(CountKind::MinProperties),
        "maxProperties" => Some(CountKind::MaxProperties),
        _ => None,
    }
}
