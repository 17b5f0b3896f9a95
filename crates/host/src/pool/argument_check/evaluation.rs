//! Counts the errors of a value by a compiled schema, within a limited amount of work. A node that several references
//! lead to is evaluated once for each value, so the work grows with the size of the schema times the size of the
//! value, and never with the number of ways through the schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value as Json};

use super::compiled_schema::{
    CompiledSchema, CountKind, Keyword, NodeId, RangeKind, SiblingProperties,
};
use super::instance::{Instance, InstanceKey, compare, is_multiple_of};
use super::pattern::PatternId;
use super::work::{Work, WorkLimitError};

/// The additional work that caching a result costs, because it takes memory.
const CACHE_STEPS: u64 = 3;

/// Which results are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheScope {
    /// Those of nodes that several places of the schema lead to. No other node is evaluated twice for a value.
    SharedNodes,
    /// All, for an explanation, which goes through the schema again.
    AllNodes,
}

/// The evaluation of one value.
#[derive(Debug)]
pub(super) struct Evaluation<'a> {
    schema: &'a CompiledSchema,
    cache_scope: CacheScope,
    cache: HashMap<(NodeId, InstanceKey), u32>,
    pub(super) work: Work,
}

/// A part of a value, and the schema for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Child<'a> {
    pub(super) node: NodeId,
    pub(super) place: ChildPlace<'a>,
    pub(super) instance: Instance<'a>,
}

/// The place of a part in its value.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChildPlace<'a> {
    Member(&'a str),
    Item(usize),
}

/// The parts of a value that the keywords of a schema are for.
#[derive(Debug, Default)]
struct EvaluatedParts<'a> {
    is_all: bool,
    names: HashSet<&'a str>,
    items: HashSet<usize>,
    visited: HashSet<NodeId>,
}

impl<'a> EvaluatedParts<'a> {
    fn contains_name(&self, name: &str) -> bool {
        self.is_all || self.names.contains(name)
    }

    fn contains_item(&self, index: usize) -> bool {
        self.is_all || self.items.contains(&index)
    }

    fn insert(&mut self, place: ChildPlace<'a>) {
        match place {
            ChildPlace::Member(name) => drop(self.names.insert(name)),
            ChildPlace::Item(index) => drop(self.items.insert(index)),
        }
    }
}

type CountResult = Result<u32, WorkLimitError>;

impl<'a> Evaluation<'a> {
    pub(super) fn new(schema: &'a CompiledSchema, cache_scope: CacheScope, work: Work) -> Self {
        let cache_scope = if schema.has_unevaluated { CacheScope::AllNodes } else { cache_scope };
        Evaluation { schema, cache_scope, cache: HashMap::new(), work }
    }

    pub(super) fn schema(&self) -> &'a CompiledSchema {
        self.schema
    }

    /// The number of errors; 0 if the value is valid. A reference that leads back to itself with the same value
    /// adds no error.
    pub(super) fn errors(&mut self, id: NodeId, instance: Instance<'a>) -> CountResult {
        let node = self.schema.node(id);
        let is_cached = node.is_shared || self.cache_scope == CacheScope::AllNodes;
        let key = is_cached.then(|| (id, instance.key()));
        if let Some(key) = key {
            self.work.spend(1)?;
            if let Some(known) = self.cache.get(&key) {
                return Ok(*known);
            }
            self.work.spend(CACHE_STEPS)?;
            self.cache.insert(key, 0);
        }
        self.work.enter()?;
        let mut errors = 0_u32;
        for keyword in &node.keywords {
            errors = errors.saturating_add(self.keyword_errors(keyword, instance)?);
        }
        self.work.leave();
        if let Some(key) = key {
            self.cache.insert(key, errors);
        }
        Ok(errors)
    }

    pub(super) fn is_valid(
        &mut self,
        id: NodeId,
        instance: Instance<'a>,
    ) -> Result<bool, WorkLimitError> {
        Ok(self.errors(id, instance)? == 0)
    }

    /// The number of errors by one keyword.
    pub(super) fn keyword_errors(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
    ) -> CountResult {
        self.work.spend(1)?;
        match keyword {
            Keyword::Never => Ok(1),
            Keyword::Type(kinds) => failed_unless(kinds.iter().any(|kind| instance.is_a(*kind))),
            Keyword::Values { canonical, .. } => {
                let text = instance.canonical(&mut self.work)?;
                failed_unless(canonical.contains(&text))
            }
            Keyword::Range { range, limit } => {
                failed_unless(instance.number().is_none_or(|it| range.allows(it, limit)))
            }
            Keyword::MultipleOf(divisor) => {
                failed_unless(instance.number().is_none_or(|it| is_multiple_of(it, divisor)))
            }
            Keyword::Count { count, limit } => self.count_errors(*count, limit, instance),
            Keyword::Pattern(pattern) => match instance.text() {
                Some(text) => failed_unless(self.is_match(*pattern, text)?),
                None => Ok(0),
            },
            Keyword::UniqueItems => self.duplicate_errors(instance),
            Keyword::Reference(node) => self.errors(*node, instance),
            Keyword::AllOf(_)
            | Keyword::AnyOf(_)
            | Keyword::OneOf(_)
            | Keyword::Not(_)
            | Keyword::Condition { .. } => self.combination_errors(keyword, instance),
            Keyword::Required(_)
            | Keyword::DependentRequired(_)
            | Keyword::DependentSchemas(_)
            | Keyword::Properties(_)
            | Keyword::PatternProperties(_)
            | Keyword::AdditionalProperties { .. }
            | Keyword::PropertyNames(_)
            | Keyword::UnevaluatedProperties { .. } => match instance.members() {
                Some(members) => self.object_errors(keyword, instance, members),
                None => Ok(0),
            },
            Keyword::PrefixItems(_)
            | Keyword::Items { .. }
            | Keyword::Contains { .. }
            | Keyword::UnevaluatedItems { .. } => match instance.items() {
                Some(items) => self.array_errors(keyword, instance, items),
                None => Ok(0),
            },
        }
    }

    fn count_errors(&mut self, kind: CountKind, limit: &Number, of: Instance<'a>) -> CountResult {
        let count = match kind {
            CountKind::MinLength | CountKind::MaxLength => match of.text() {
                Some(text) => {
                    self.work.spend_on_text(text)?;
                    Some(text.chars().count())
                }
                None => None,
            },
            CountKind::MinItems | CountKind::MaxItems => of.items().map(<[Json]>::len),
            CountKind::MinProperties | CountKind::MaxProperties => of.members().map(Map::len),
        };
        let Some(count) = count else { return Ok(0) };
        let order = compare(&Number::from(count), limit);
        failed_unless(match kind {
            CountKind::MinLength | CountKind::MinItems | CountKind::MinProperties => order.is_ge(),
            CountKind::MaxLength | CountKind::MaxItems | CountKind::MaxProperties => order.is_le(),
        })
    }

    fn duplicate_errors(&mut self, instance: Instance<'a>) -> CountResult {
        let mut seen = HashSet::new();
        for item in instance.items().into_iter().flatten() {
            if !seen.insert(Instance::Value(item).canonical(&mut self.work)?) {
                return Ok(1);
            }
        }
        Ok(0)
    }

    fn combination_errors(&mut self, keyword: &'a Keyword, instance: Instance<'a>) -> CountResult {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes no other keyword")]
        match keyword {
            Keyword::AllOf(nodes) => self.sum(nodes.iter().map(|node| (*node, instance))),
            Keyword::AnyOf(nodes) => {
                for node in nodes {
                    if self.is_valid(*node, instance)? {
                        return Ok(0);
                    }
                }
                Ok(1)
            }
            Keyword::OneOf(nodes) => {
                let mut valid = 0;
                for node in nodes {
                    valid += u32::from(self.is_valid(*node, instance)?);
                }
                failed_unless(valid == 1)
            }
            Keyword::Not(node) => failed_unless(!self.is_valid(*node, instance)?),
            Keyword::Condition { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, instance)? { then } else { otherwise };
                self.sum(branch.iter().map(|node| (*node, instance)))
            }
            _ => Ok(0),
        }
    }

    fn object_errors(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
        members: &'a Map<String, Json>,
    ) -> CountResult {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes no other keyword")]
        match keyword {
            Keyword::Required(names) => self.missing(names, members),
            Keyword::DependentRequired(lists) => {
                let mut errors = 0_u32;
                for (name, names) in lists {
                    self.work.spend(1)?;
                    if members.contains_key(name) {
                        errors = errors.saturating_add(self.missing(names, members)?);
                    }
                }
                Ok(errors)
            }
            Keyword::DependentSchemas(nodes) => {
                let present = nodes.iter().filter(|(name, _)| members.contains_key(name));
                self.sum(present.map(|(_, node)| (*node, instance)))
            }
            Keyword::PropertyNames(node) => {
                for name in members.keys() {
                    if !self.is_valid(*node, Instance::Name(name))? {
                        return Ok(1);
                    }
                }
                Ok(0)
            }
            Keyword::AdditionalProperties { node, .. }
            | Keyword::UnevaluatedProperties { node, .. }
                if self.schema.is_never(*node) =>
            {
                let children = self.children(keyword, instance)?;
                failed_unless(children.is_empty())
            }
            _ => {
                let children = self.children(keyword, instance)?;
                self.sum(children.into_iter().map(|it| (it.node, it.instance)))
            }
        }
    }

    fn array_errors(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
        items: &'a [Json],
    ) -> CountResult {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes no other keyword")]
        match keyword {
            Keyword::Contains { node, least, most } => {
                let mut found = 0_u64;
                for item in items {
                    found += u64::from(self.is_valid(*node, Instance::Value(item))?);
                }
                let found = Number::from(found);
                let is_enough = match least {
                    Some(least) => compare(&found, least).is_ge(),
                    None => found != Number::from(0),
                };
                let most = most.as_ref();
                failed_unless(is_enough && most.is_none_or(|it| compare(&found, it).is_le()))
            }
            _ => {
                let children = self.children(keyword, instance)?;
                self.sum(children.into_iter().map(|it| (it.node, it.instance)))
            }
        }
    }

    fn missing(&mut self, names: &[String], members: &Map<String, Json>) -> CountResult {
        self.work.spend(u64::try_from(names.len()).unwrap_or(u64::MAX))?;
        let missing = names.iter().filter(|name| !members.contains_key(*name)).count();
        Ok(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    fn sum(&mut self, nodes: impl Iterator<Item = (NodeId, Instance<'a>)>) -> CountResult {
        let mut errors = 0_u32;
        for (node, instance) in nodes {
            errors = errors.saturating_add(self.errors(node, instance)?);
        }
        Ok(errors)
    }

    /// The parts of a value that a keyword applies a schema to.
    pub(super) fn children(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
    ) -> Result<Vec<Child<'a>>, WorkLimitError> {
        match (instance.members(), instance.items()) {
            (Some(members), _) => self.child_members(keyword, instance, members),
            (None, Some(items)) => self.child_items(keyword, instance, items),
            (None, None) => Ok(Vec::new()),
        }
    }

    fn child_members(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
        members: &'a Map<String, Json>,
    ) -> Result<Vec<Child<'a>>, WorkLimitError> {
        let mut children = Vec::new();
        let mut push = |node: NodeId, name: &'a str, value: &'a Json| {
            children.push(Child {
                node,
                place: ChildPlace::Member(name),
                instance: Instance::Value(value),
            });
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "other keywords have no such children")]
        match keyword {
            Keyword::Properties(nodes) => {
                for (name, node) in nodes {
                    self.work.spend(1)?;
                    if let Some((name, value)) = members.get_key_value(name) {
                        push(*node, name, value);
                    }
                }
            }
            Keyword::PatternProperties(nodes) => {
                for (pattern, node) in nodes {
                    for (name, value) in members {
                        if self.is_match(*pattern, name)? {
                            push(*node, name, value);
                        }
                    }
                }
            }
            Keyword::AdditionalProperties { node, siblings } => {
                for (name, value) in members {
                    if !self.is_sibling(siblings, name)? {
                        push(*node, name, value);
                    }
                }
            }
            Keyword::UnevaluatedProperties { node, within, .. } => {
                let evaluated = self.evaluated_parts(*within, instance)?;
                for (name, value) in members {
                    self.work.spend(1)?;
                    if !evaluated.contains_name(name) {
                        push(*node, name, value);
                    }
                }
            }
            _ => {}
        }
        Ok(children)
    }

    fn child_items(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
        items: &'a [Json],
    ) -> Result<Vec<Child<'a>>, WorkLimitError> {
        let mut children = Vec::new();
        let mut push = |node: NodeId, index: usize, value: &'a Json| {
            children.push(Child {
                node,
                place: ChildPlace::Item(index),
                instance: Instance::Value(value),
            });
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "other keywords have no such children")]
        match keyword {
            Keyword::PrefixItems(nodes) => {
                for (index, (node, item)) in nodes.iter().zip(items).enumerate() {
                    self.work.spend(1)?;
                    push(*node, index, item);
                }
            }
            Keyword::Items { node, after } => {
                for (index, item) in items.iter().enumerate().skip(*after) {
                    self.work.spend(1)?;
                    push(*node, index, item);
                }
            }
            Keyword::UnevaluatedItems { node, within } => {
                let evaluated = self.evaluated_parts(*within, instance)?;
                for (index, item) in items.iter().enumerate() {
                    self.work.spend(1)?;
                    if !evaluated.contains_item(index) {
                        push(*node, index, item);
                    }
                }
            }
            _ => {}
        }
        Ok(children)
    }

    fn is_sibling(
        &mut self,
        siblings: &SiblingProperties,
        name: &str,
    ) -> Result<bool, WorkLimitError> {
        self.work.spend(1)?;
        if siblings.names.contains(name) {
            return Ok(true);
        }
        for pattern in &siblings.patterns {
            if self.is_match(*pattern, name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_match(&mut self, pattern: PatternId, text: &str) -> Result<bool, WorkLimitError> {
        let pattern = self.schema.patterns().get(pattern);
        self.work.spend(1)?;
        Ok(!self.work.affords_match(pattern.steps(text))? || pattern.is_match(text))
    }

    /// What the keywords of a schema are for, without those that are for the rest.
    fn evaluated_parts(
        &mut self,
        within: NodeId,
        instance: Instance<'a>,
    ) -> Result<EvaluatedParts<'a>, WorkLimitError> {
        let mut parts = EvaluatedParts::default();
        for keyword in &self.schema.node(within).keywords {
            if !matches!(
                keyword,
                Keyword::UnevaluatedItems { .. } | Keyword::UnevaluatedProperties { .. }
            ) {
                self.add_evaluated(keyword, instance, &mut parts)?;
            }
        }
        Ok(parts)
    }

    fn add_evaluated(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
        parts: &mut EvaluatedParts<'a>,
    ) -> Result<(), WorkLimitError> {
        self.work.spend(1)?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "other keywords are for no parts")]
        match keyword {
            Keyword::Properties(_)
            | Keyword::PatternProperties(_)
            | Keyword::AdditionalProperties { .. }
            | Keyword::PrefixItems(_)
            | Keyword::Items { .. } => {
                let children = self.children(keyword, instance)?;
                children.into_iter().for_each(|child| parts.insert(child.place));
            }
            Keyword::UnevaluatedProperties { .. } => {
                parts.is_all |= instance.members().is_some();
            }
            Keyword::UnevaluatedItems { .. } => parts.is_all |= instance.items().is_some(),
            Keyword::Contains { node, .. } => {
                for (index, item) in instance.items().into_iter().flatten().enumerate() {
                    if self.is_valid(*node, Instance::Value(item))? {
                        parts.insert(ChildPlace::Item(index));
                    }
                }
            }
            Keyword::Reference(node) => self.add_evaluated_by(&[*node], instance, parts)?,
            Keyword::AllOf(nodes) | Keyword::AnyOf(nodes) | Keyword::OneOf(nodes) => {
                self.add_evaluated_by(nodes, instance, parts)?;
            }
            Keyword::Condition { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, instance)? { then } else { otherwise };
                self.add_evaluated_by(&[*condition], instance, parts)?;
                self.add_evaluated_by(branch.as_slice(), instance, parts)?;
            }
            Keyword::DependentSchemas(nodes) => {
                for (name, node) in nodes {
                    if instance.members().is_some_and(|it| it.contains_key(name)) {
                        self.add_evaluated_by(&[*node], instance, parts)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the parts that the keywords of valid schemas are for.
    fn add_evaluated_by(
        &mut self,
        nodes: &[NodeId],
        instance: Instance<'a>,
        parts: &mut EvaluatedParts<'a>,
    ) -> Result<(), WorkLimitError> {
        for node in nodes {
            if !parts.visited.insert(*node) || !self.is_valid(*node, instance)? {
                continue;
            }
            self.work.enter()?;
            for keyword in &self.schema.node(*node).keywords {
                self.add_evaluated(keyword, instance, parts)?;
            }
            self.work.leave();
        }
        Ok(())
    }
}

impl RangeKind {
    fn allows(self, number: &Number, limit: &Number) -> bool {
        let order = compare(number, limit);
        match self {
            RangeKind::Minimum => order.is_ge(),
            RangeKind::Maximum => order.is_le(),
            RangeKind::ExclusiveMinimum => order.is_gt(),
            RangeKind::ExclusiveMaximum => order.is_lt(),
        }
    }
}

/// One error, unless a condition holds.
fn failed_unless(holds: bool) -> CountResult {
    Ok(u32::from(!holds))
}
