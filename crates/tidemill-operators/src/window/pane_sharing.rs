//! Sharing of panes: stages with windows over time that read one input by one key keep each pane
//! once (Marcu, "KerA: A Unified Ingestion and Storage System for Scalable Big Data Processing",
//! chapter 4).
//!
//! ```text
//! a: 1 min, count(*)                       panes of 1 min: [count │ count, sum of delay]
//! b: 1 h every 1 min, count(*), avg(delay)
//! ```
//!
//! Panes of all of them are as short as the shortest, so sharing is not always less: a minute and a
//! day side by side are two panes a key, together they would be 1,440. So stages share where the
//! panes of all keys, each in every pane, take no more memory together than apart. A key with fewer
//! rows takes less together in any case.
//!
//! A row that an argument has no value for is a dead letter, and in no window: stages share only if
//! that is so of the same rows in all of them.

use super::{compile, panes, spans::Spans, wrong_window};
use crate::aggregate::{AccumulatorKind, AggregateError};
use arrow_schema::SchemaRef;
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};
use tidemill_flow::OperatorFactory;
use tidemill_types::job::{Named, WindowSpec};

#[cfg(test)]
mod tests;

/// Words of a key and its place in the table of a pane.
const KEY_WORDS: u128 = 3;

/// A stage that may share its panes.
#[derive(Clone, Copy, Debug)]
pub struct SharedStage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Tumbling or sliding windows.
    pub window: &'a WindowSpec,
    /// Its aggregates.
    pub aggregate: &'a Named<String>,
}

/// Stages that share their panes, as one operator: output `2 n` are the results of stage `n`, and
/// output `2 n + 1` its late rows. A stage's rows are those that it would write alone, but that
/// sums of floats may differ in their last digits, and keys of a window may come in another order.
///
/// # Errors
/// There is no stage, or a stage does not fit the input.
pub fn shared(
    input: &SchemaRef,
    key: &[String],
    stages: &[SharedStage<'_>],
) -> Result<Arc<dyn OperatorFactory>, AggregateError> {
    let spans = stages.iter().map(spans_of).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<_> = stages.iter().map(|it| (Some(it.window), it.aggregate)).collect();
    let plans = compile(input, key, &parts)?;
    let made = stages.iter().zip(plans).zip(&spans).map(|((stage, plan), own)| panes::PaneStage {
        plan,
        spans: Some(own.of_panes(spans.iter().map(|it| it.pane))),
        name: Some(stage.name.to_owned()),
    });
    let made: Vec<panes::PaneStage> = made.collect();
    if made.is_empty() {
        return Err(wrong_window("there is no stage"));
    }
    Ok(panes::on_panes(made))
}

fn spans_of(stage: &SharedStage<'_>) -> Result<Spans, AggregateError> {
    let spans = Spans::of(stage.window).map_err(wrong_window)?;
    spans.ok_or_else(|| wrong_window("only windows over time of one size share their panes"))
}

/// Stages on the same panes.
struct SharingGroup<'a> {
    stages: Vec<usize>,
    spans: Spans,
    kept: BTreeSet<(AccumulatorKind, &'a str)>,
    /// Arguments that some rows have no value for.
    fallible: BTreeSet<&'a str>,
}

impl SharingGroup<'_> {
    /// Words of a key that has rows in every pane.
    fn words(&self) -> u128 {
        let panes = self.spans.size.unsigned_abs().div_ceil(self.spans.pane.unsigned_abs());
        let kept = self.kept.iter().map(|(kept, _)| words(*kept)).sum::<u128>();
        u128::from(panes) * (KEY_WORDS + kept)
    }

    fn with(&self, other: &Self) -> Self {
        Self {
            stages: self.stages.iter().chain(&other.stages).copied().collect(),
            spans: Spans {
                size: self.spans.size.max(other.spans.size),
                ..self.spans.of_panes(std::iter::once(other.spans.pane))
            },
            kept: self.kept.union(&other.kept).copied().collect(),
            fallible: self.fallible.clone(),
        }
    }
}

/// Which of these stages share their panes: groups of their numbers, each in ascending order. A
/// stage that shares with nobody is a group of its own; one that does not fit the input is in none.
pub fn groups(input: &SchemaRef, key: &[String], stages: &[SharedStage<'_>]) -> Vec<Vec<usize>> {
    let fits = |(nth, stage): (usize, &SharedStage<'_>)| {
        let plan = compile(input, key, &[(Some(stage.window), stage.aggregate)]).ok()?;
        Some((nth, spans_of(stage).ok()?, plan))
    };
    let plans: Vec<_> = stages.iter().enumerate().filter_map(fits).collect();
    let alone = plans.iter().map(|(nth, spans, plan)| {
        let kept = plan.iter().flat_map(|it| it.aggregates.kept()).collect();
        let fallible = plan.iter().flat_map(|it| it.aggregates.fallible()).collect();
        SharingGroup { stages: vec![*nth], spans: *spans, kept, fallible }
    });
    let mut alone: Vec<SharingGroup<'_>> = alone.collect();
    // The largest first: it is what the others may find their panes in.
    alone.sort_by_key(|it| Reverse(it.words()));
    let mut groups: Vec<SharingGroup<'_>> = Vec::new();
    for one in alone {
        let together = groups.iter().map(|group| group.with(&one));
        let found = together.enumerate().find(|(nth, together)| {
            groups[*nth].fallible == one.fallible
                && together.words() <= groups[*nth].words().saturating_add(one.words())
        });
        match found {
            Some((nth, together)) => groups[nth] = together,
            None => groups.push(one),
        }
    }
    let mut found: Vec<Vec<usize>> = groups.into_iter().map(|it| it.stages).collect();
    found.iter_mut().for_each(|it| it.sort_unstable());
    found.sort_unstable();
    found
}

/// About how many words an accumulator takes.
fn words(kept: AccumulatorKind) -> u128 {
    match (kept.words(), kept) {
        (Some(words), _) => words as u128,
        (None, AccumulatorKind::Distinct) => 32,
        (None, AccumulatorKind::Sketch) => 256,
        (None, AccumulatorKind::Digest) => 512,
        // A text.
        (None, _) => 6,
    }
}
