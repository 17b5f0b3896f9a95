//! Describes the errors of a value by a schema as faults, at most so many. Of alternatives it explains the one that was
//! probably meant.

use std::collections::HashSet;

use switchboard_config::file::entry_decoder::nearest;

use super::compiled_schema::{
    CompiledSchema, CountKind, Keyword, NodeId, RangeKind, SiblingProperties,
};
use super::evaluation::{ChildPlace, Evaluation};
use super::fault::{ArgumentFault, ArgumentFaultKind, shortened};
use super::instance::{Instance, InstanceKey};
use super::work::WorkLimitError;

/// The most faults that are told at once.
const MAX_FAULTS: usize = 20;

/// The explanation of one value.
pub(super) struct Explanation<'a> {
    evaluation: Evaluation<'a>,
    path: Vec<ChildPlace<'a>>,
    faults: Vec<ArgumentFault>,
    explained: HashSet<(NodeId, InstanceKey)>,
}

/// The faults of a value. The evaluation should remember all results.
pub(super) fn explain<'a>(
    evaluation: Evaluation<'a>,
    instance: Instance<'a>,
) -> Result<Vec<ArgumentFault>, WorkLimitError> {
    let mut explanation =
        Explanation { evaluation, path: Vec::new(), faults: Vec::new(), explained: HashSet::new() };
    explanation.node(CompiledSchema::ROOT, instance)?;
    explanation.faults.truncate(MAX_FAULTS);
    Ok(explanation.faults)
}

impl<'a> Explanation<'a> {
    fn node(&mut self, id: NodeId, instance: Instance<'a>) -> Result<(), WorkLimitError> {
        if !self.explained.insert((id, instance.key())) {
            return Ok(());
        }
        self.evaluation.work.enter()?;
        for keyword in &self.evaluation.schema().node(id).keywords {
            if self.faults.len() >= MAX_FAULTS {
                break;
            }
            if self.evaluation.keyword_errors(keyword, instance)? > 0 {
                self.keyword(keyword, instance)?;
            }
        }
        self.evaluation.work.leave();
        Ok(())
    }

    /// Explains a keyword with errors.
    fn keyword(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
    ) -> Result<(), WorkLimitError> {
        match keyword {
            Keyword::Never | Keyword::Not(_) => self.push_invalid("is not allowed".to_owned()),
            Keyword::Type(kinds) => {
                let expected: Vec<&str> = kinds.iter().map(|it| it.name()).collect();
                self.push_type(expected.join(" or "), instance);
            }
            Keyword::Values { shown, .. } => {
                self.push(None, ArgumentFaultKind::NotListed { allowed: shown.clone() });
            }
            Keyword::Required(names) => self.push_missing(names, instance),
            Keyword::DependentRequired(lists) => {
                for (name, names) in lists {
                    if instance.members().is_some_and(|it| it.contains_key(name)) {
                        self.push_missing(names, instance);
                    }
                }
            }
            Keyword::Reference(node) => self.node(*node, instance)?,
            Keyword::AllOf(nodes) => {
                for node in nodes {
                    self.node(*node, instance)?;
                }
            }
            Keyword::AnyOf(nodes) => self.alternatives(nodes, instance)?,
            Keyword::OneOf(nodes) => self.one_of(nodes, instance)?,
            Keyword::Condition { condition, then, otherwise } => {
                let is_met = self.evaluation.is_valid(*condition, instance)?;
                if let Some(node) = if is_met { then } else { otherwise } {
                    self.node(*node, instance)?;
                }
            }
            Keyword::DependentSchemas(nodes) => {
                for (name, node) in nodes {
                    if instance.members().is_some_and(|it| it.contains_key(name)) {
                        self.node(*node, instance)?;
                    }
                }
            }
            Keyword::AdditionalProperties { node, siblings }
            | Keyword::UnevaluatedProperties { node, siblings, .. }
                if self.evaluation.schema().is_never(*node) =>
            {
                self.unknown_members(keyword, siblings, instance)?;
            }
            Keyword::Properties(_)
            | Keyword::PatternProperties(_)
            | Keyword::AdditionalProperties { .. }
            | Keyword::UnevaluatedProperties { .. }
            | Keyword::PrefixItems(_)
            | Keyword::Items { .. }
            | Keyword::UnevaluatedItems { .. } => self.children(keyword, instance)?,
            Keyword::Range { .. }
            | Keyword::MultipleOf(_)
            | Keyword::Count { .. }
            | Keyword::Pattern(_)
            | Keyword::UniqueItems
            | Keyword::PropertyNames(_)
            | Keyword::Contains { .. } => self.push_invalid(self.violated_condition(keyword)),
        }
        Ok(())
    }

    fn children(
        &mut self,
        keyword: &'a Keyword,
        instance: Instance<'a>,
    ) -> Result<(), WorkLimitError> {
        for child in self.evaluation.children(keyword, instance)? {
            if self.faults.len() >= MAX_FAULTS {
                break;
            }
            self.path.push(child.place);
            self.node(child.node, child.instance)?;
            self.path.pop();
        }
        Ok(())
    }

    fn unknown_members(
        &mut self,
        keyword: &'a Keyword,
        siblings: &SiblingProperties,
        instance: Instance<'a>,
    ) -> Result<(), WorkLimitError> {
        for child in self.evaluation.children(keyword, instance)? {
            if self.faults.len() >= MAX_FAULTS {
                break;
            }
            if let ChildPlace::Member(name) = child.place {
                let names = u64::try_from(siblings.names.len()).unwrap_or(u64::MAX);
                self.evaluation.work.spend(names)?;
                let nearest = nearest(name, siblings.names.iter().map(String::as_str));
                let nearest = nearest.map(str::to_owned);
                self.push(Some(name), ArgumentFaultKind::Unknown { nearest });
            }
        }
        Ok(())
    }

    fn one_of(
        &mut self,
        nodes: &'a [NodeId],
        instance: Instance<'a>,
    ) -> Result<(), WorkLimitError> {
        for node in nodes {
            if self.evaluation.is_valid(*node, instance)? {
                let expected = "matches several alternatives, but should match only one".to_owned();
                self.push_invalid(expected);
                return Ok(());
            }
        }
        self.alternatives(nodes, instance)
    }

    /// Explains the alternative with the fewest errors, which was probably meant.
    fn alternatives(
        &mut self,
        nodes: &'a [NodeId],
        instance: Instance<'a>,
    ) -> Result<(), WorkLimitError> {
        let mut expected_types: Vec<String> = Vec::new();
        let mut best: Option<(u32, NodeId)> = None;
        for node in nodes {
            // Skip alternatives of another type, unless all are.
            let mut types = Vec::new();
            self.collect_expected_types(*node, instance, &mut types)?;
            if !types.is_empty() {
                expected_types.extend(types);
                continue;
            }
            let errors = self.evaluation.errors(*node, instance)?;
            if best.is_none_or(|(fewest, _)| errors < fewest) {
                best = Some((errors, *node));
            }
        }
        if let Some((_, node)) = best {
            return self.node(node, instance);
        }
        let mut told = HashSet::new();
        expected_types.retain(|it| told.insert(it.clone()));
        self.push_type(shortened(&expected_types.join(" or ")), instance);
        Ok(())
    }

    /// The types that a schema requires of the value itself, where it has another one.
    fn collect_expected_types(
        &mut self,
        id: NodeId,
        instance: Instance<'a>,
        types: &mut Vec<String>,
    ) -> Result<(), WorkLimitError> {
        self.evaluation.work.enter()?;
        for keyword in &self.evaluation.schema().node(id).keywords {
            #[expect(clippy::wildcard_enum_match_arm, reason = "other keywords require no type")]
            match keyword {
                Keyword::Type(kinds) if !kinds.iter().any(|kind| instance.is_a(*kind)) => {
                    let names: Vec<&str> = kinds.iter().map(|it| it.name()).collect();
                    types.push(names.join(" or "));
                }
                Keyword::Reference(node) => self.collect_expected_types(*node, instance, types)?,
                Keyword::AllOf(nodes) => {
                    for node in nodes {
                        self.collect_expected_types(*node, instance, types)?;
                    }
                }
                _ => {}
            }
        }
        self.evaluation.work.leave();
        Ok(())
    }

    fn push_missing(&mut self, names: &'a [String], instance: Instance<'a>) {
        for name in names {
            if self.faults.len() < MAX_FAULTS
                && instance.members().is_some_and(|it| !it.contains_key(name))
            {
                self.push(Some(name), ArgumentFaultKind::Missing);
            }
        }
    }

    fn push_type(&mut self, expected: String, instance: Instance<'a>) {
        self.push(None, ArgumentFaultKind::Type { expected, actual: instance.kind_name() });
    }

    fn push_invalid(&mut self, expected: String) {
        self.push(None, ArgumentFaultKind::Invalid { expected });
    }

    fn push(&mut self, last_name: Option<&str>, kind: ArgumentFaultKind) {
        let fault = ArgumentFault { at: display_path(&self.path, last_name), kind };
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn violated_condition(&self, keyword: &Keyword) -> String {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes no other keyword")]
        match keyword {
            Keyword::Range { range, limit } => match range {
                RangeKind::Minimum => format!("should be at least {limit}"),
                RangeKind::Maximum => format!("should be at most {limit}"),
                RangeKind::ExclusiveMinimum => format!("should be more than {limit}"),
                RangeKind::ExclusiveMaximum => format!("should be less than {limit}"),
            },
            Keyword::Count { count, limit } => match count {
                CountKind::MinLength => format!("should have at least {limit} characters"),
                CountKind::MaxLength => format!("should have at most {limit} characters"),
                CountKind::MinItems => format!("should have at least {limit} items"),
                CountKind::MaxItems => format!("should have at most {limit} items"),
                CountKind::MinProperties => unsatisfied("minProperties"),
                CountKind::MaxProperties => unsatisfied("maxProperties"),
            },
            Keyword::UniqueItems => "should have no duplicate items".to_owned(),
            Keyword::MultipleOf(divisor) => format!("should be a multiple of {divisor}"),
            Keyword::Pattern(pattern) => {
                let patterns = self.evaluation.schema().patterns();
                format!("should match `{}`", shortened(patterns.get(*pattern).source()))
            }
            Keyword::PropertyNames(_) => unsatisfied("propertyNames"),
            _ => unsatisfied("contains"),
        }
    }
}

fn unsatisfied(keyword: &str) -> String {
    format!("does not satisfy `{keyword}` of its schema")
}

/// The path of an argument, as users write it.
fn display_path(path: &[ChildPlace<'_>], last_name: Option<&str>) -> String {
    let mut text = String::new();
    let last = last_name.map(ChildPlace::Member);
    for place in path.iter().chain(&last) {
        match place {
            ChildPlace::Member(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&shortened(name));
            }
            ChildPlace::Item(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}
