//! A stage that fails in some cycle: with an error or a panic, before its rows, among them or after them.

use super::{Done, Inner, Told, lock, soon};
use crate::job::Job;
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
pub(crate) struct StageFault {
    pub(super) stage: usize,
    /// After so many that did not, of all its lanes.
    after: u64,
    /// How much of its state and of its output is there by then.
    done: Done,
    pub(super) panics: bool,
}

impl StageFault {
    pub(super) fn of(random: &mut Random, job: &Job) -> Self {
        Self {
            stage: random.below(job.stage_count() as u64) as usize,
            after: soon(random, 7),
            done: [Done::Nothing, Done::Part, Done::All][random.below(3) as usize],
            panics: random.below(2) == 0,
        }
    }
}

/// A stage that is as another, but for a cycle in which it fails.
pub(super) struct Faulty {
    factory: Arc<dyn OperatorFactory>,
    fails: Fails,
}

/// When and how.
#[derive(Clone)]
struct Fails {
    inner: Arc<Inner>,
    fault: StageFault,
    name: String,
}

impl Faulty {
    pub(super) fn new(
        factory: Arc<dyn OperatorFactory>,
        inner: Arc<Inner>,
        fault: StageFault,
        name: &str,
    ) -> Self {
        Self { factory, fails: Fails { inner, fault, name: name.to_owned() } }
    }
}

// What is not passed on would be another stage than in the other lives.
#[deny(clippy::missing_trait_methods)]
impl OperatorFactory for Faulty {
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
    fails: Fails,
    has_failed: bool,
}

impl Operator for FaultyLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let Fails { inner, fault, name } = &self.fails;
        if self.has_failed {
            let why = format!("a lane of `{name}` was called after it had failed");
            lock(&inner.wrong).get_or_insert(why);
        }
        if inner.call() != fault.after {
            return self.operator.cycle(context, input, output);
        }
        match fault.done {
            Done::Nothing => {}
            Done::Part => self.operator.cycle(context, &half(input), output)?,
            Done::All => self.operator.cycle(context, input, output)?,
        }
        self.has_failed = true;
        let slice = SliceId(context.slices.end - 1);
        context.at(slice, ROW);
        let message = format!("the simulated {name} fails");
        inner.tell(Told {
            cycle: Some(context.cycle),
            record: Some((slice, ROW)),
            panicked: fault.panics,
            ..Told::of(name.clone(), message.clone())
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
