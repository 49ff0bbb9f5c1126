//! An operator that fails in some cycle: with an error or a panic, before its rows, among them or
//! after them.

use super::{CallEffect, ExpectedFailure, PlantedState, lock, soon};
use crate::job::SimJob;
use arrow_schema::SchemaRef;
use std::{panic::resume_unwind, sync::Arc};
use tidemill_env::Random;
use tidemill_flow::{
    Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState, StateAt,
    StateTable, TakeRows,
};
use tidemill_state::HashOfEntry;
use tidemill_types::{SliceId, Span};

/// The record at which it fails.
const ROW: usize = 3;

/// A cycle of a stage that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorFault {
    pub(super) stage: usize,
    /// The number of calls before it, of all its lanes.
    after: u64,
    /// The part of its state and output that is done by then.
    done: CallEffect,
    pub(super) panics: bool,
}

impl OperatorFault {
    pub(super) fn of(random: &mut Random, job: &SimJob) -> Self {
        Self {
            stage: random.below(job.stage_count() as u64) as usize,
            after: soon(random, 7),
            done: [CallEffect::Nothing, CallEffect::Part, CallEffect::All]
                [random.below(3) as usize],
            panics: random.below(2) == 0,
        }
    }
}

/// A stage that is as another, but for a cycle in which it fails.
pub(super) struct FaultyOperator {
    factory: Arc<dyn OperatorFactory>,
    fails: FaultPoint,
}

/// When and how.
#[derive(Clone)]
struct FaultPoint {
    inner: Arc<PlantedState>,
    fault: OperatorFault,
    name: String,
}

impl FaultyOperator {
    pub(super) fn new(
        factory: Arc<dyn OperatorFactory>,
        inner: Arc<PlantedState>,
        fault: OperatorFault,
        name: &str,
    ) -> Self {
        Self { factory, fails: FaultPoint { inner, fault, name: name.to_owned() } }
    }
}

// What is not passed on would be another stage than in the other lives.
#[deny(clippy::missing_trait_methods)]
impl OperatorFactory for FaultyOperator {
    fn outputs(&self) -> Vec<SchemaRef> {
        self.factory.outputs()
    }
    fn is_side(&self, output: usize) -> bool {
        self.factory.is_side(output)
    }
    fn operator(&self) -> Box<dyn Operator> {
        let (operator, fails) = (self.factory.operator(), self.fails.clone());
        Box::new(FaultyLane { operator, fails, has_failed: false })
    }
    fn state(&self, slice: SliceId) -> SliceState {
        self.factory.state(slice)
    }
    fn members(&self) -> Vec<String> {
        self.factory.members()
    }
    fn member_of(&self, output: usize) -> Option<String> {
        self.factory.member_of(output)
    }
    fn does(&self) -> String {
        self.factory.does()
    }
    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        self.factory.hash_of_entry()
    }
    fn cannot_save(&self) -> Option<String> {
        self.factory.cannot_save()
    }
    fn wants_time(&self) -> bool {
        self.factory.wants_time()
    }
    fn holds_back(&self) -> Span {
        self.factory.holds_back()
    }
    fn tables(&self) -> Vec<StateTable> {
        self.factory.tables()
    }
    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        self.factory.rows(table, at, take)
    }
}

struct FaultyLane {
    operator: Box<dyn Operator>,
    fails: FaultPoint,
    has_failed: bool,
}

impl Operator for FaultyLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let FaultPoint { inner, fault, name } = &self.fails;
        if self.has_failed {
            let why = format!("a lane of `{name}` was called after it had failed");
            lock(&inner.wrong).get_or_insert(why);
        }
        if inner.call() != fault.after {
            return self.operator.cycle(context, input, output);
        }
        match fault.done {
            CallEffect::Nothing => {}
            CallEffect::Part => self.operator.cycle(context, &half(input), output)?,
            CallEffect::All => self.operator.cycle(context, input, output)?,
        }
        self.has_failed = true;
        let slice = SliceId(context.slices.end - 1);
        context.at(slice, ROW);
        let message = format!("the simulated {name} fails");
        inner.expect_failure(ExpectedFailure {
            cycle: Some(context.cycle),
            record: Some((slice, ROW)),
            panicked: fault.panics,
            ..ExpectedFailure::of(name.clone(), message.clone())
        });
        if fault.panics {
            // Without the message that a panic prints.
            resume_unwind(Box::new(message));
        }
        Err(OperatorError::new(message))
    }
}

/// Every other block.
fn half(input: &CycleInput) -> CycleInput {
    let half = |blocks: &Vec<_>| blocks.iter().step_by(2).map(Arc::clone).collect();
    CycleInput { ports: input.ports.iter().map(half).collect() }
}
