//! Runs one operator by hand, cycle by cycle, without threads: for tests of operators.

use crate::block::{Block, Payload, Routing};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, Place,
    SliceState,
};
use crate::partition::{Partition, Router};
use arrow_array::RecordBatch;
use std::{ops::Range, sync::Arc};
use tidemill_types::{Cycle, Micros, SliceId};

/// Slices, their operator, their states.
type TrialLane = (Range<u32>, Box<dyn Operator>, Vec<SliceState>);

/// An operator with its state, driven by a test. It is split into lanes as a job would be.
pub struct Trial {
    factory: Arc<dyn OperatorFactory>,
    partitions: Vec<Partition>,
    slices: u32,
    lanes: Vec<TrialLane>,
    cycle: Cycle,
    watermark: Micros,
    /// Every dead letter so far.
    pub letters: Vec<DeadLetter>,
}

impl Trial {
    /// A trial with one partition a port, `slices` slices in `lanes` lanes.
    #[must_use]
    pub fn new(
        factory: Arc<dyn OperatorFactory>,
        partitions: Vec<Partition>,
        slices: u32,
        lanes: u32,
    ) -> Self {
        let lanes = (0..lanes)
            .map(|lane| {
                let range = slices * lane / lanes..slices * (lane + 1) / lanes;
                let states = range.clone().map(|slice| factory.state(SliceId(slice))).collect();
                (range, factory.operator(), states)
            })
            .collect();
        let cycle = Cycle::NONE;
        let watermark = Micros::MIN;
        Self { factory, partitions, slices, lanes, cycle, watermark, letters: Vec::new() }
    }

    /// Runs one cycle: batches by port in; output port and batch out, in order of lanes.
    ///
    /// # Errors
    /// The operator's.
    ///
    /// # Panics
    /// Panics if a key column cannot be a key.
    pub fn cycle(
        &mut self,
        ports: Vec<Vec<RecordBatch>>,
        watermark: Micros,
        ended: bool,
    ) -> Result<Vec<(usize, RecordBatch)>, OperatorError> {
        let payloads = |port: Vec<RecordBatch>| port.into_iter().map(Payload::Arrow).collect();
        self.cycle_payloads(ports.into_iter().map(payloads).collect(), watermark, ended)
    }

    /// Runs one cycle as [`Self::cycle`] does, on columns or byte records.
    ///
    /// # Errors
    /// The operator's.
    ///
    /// # Panics
    /// Panics if a key column cannot be a key.
    pub fn cycle_payloads(
        &mut self,
        ports: Vec<Vec<Payload>>,
        watermark: Micros,
        ended: bool,
    ) -> Result<Vec<(usize, RecordBatch)>, OperatorError> {
        self.cycle = self.cycle.next();
        let count = self.partitions.len();
        let mut input: Vec<Vec<Arc<Block>>> = ports
            .into_iter()
            .enumerate()
            .map(|(port, batches)| batches.into_iter().map(|it| self.route(port, it)).collect())
            .collect();
        input.resize_with(count, Vec::new);
        let mut written = Vec::new();
        for (range, operator, states) in &mut self.lanes {
            let mut output = Output::new(256 << 10);
            let mine = |blocks: &Vec<Arc<Block>>| {
                blocks.iter().filter(|block| block.count_in(range) > 0).cloned().collect()
            };
            let lane_input = CycleInput { ports: input.iter().map(mine).collect() };
            if lane_input.is_empty() && !self.factory.wants_time() && !ended {
                continue;
            }
            let mut context = Context {
                cycle: self.cycle,
                cycle_time: Micros(i64::try_from(self.cycle.0).expect("few cycles") * 1_000),
                seed: self.cycle.0,
                watermarks: &vec![watermark; count],
                watermark,
                watermark_before: self.watermark,
                ended: &vec![ended; count],
                slices: range.clone(),
                states,
                place: Place::default(),
                letters: &mut self.letters,
            };
            operator.cycle(&mut context, &lane_input, &mut output)?;
            written.extend(output.take_batches());
        }
        self.watermark = watermark;
        Ok(written)
    }

    fn route(&self, port: usize, payload: Payload) -> Arc<Block> {
        let mut block = Block::whole(payload, SliceId(0));
        match &self.partitions[port] {
            Partition::Key(columns) => {
                let used = Routing::default();
                let routing = Router::default().by_key(&block.payload, columns, self.slices, used);
                block.routing = Some(routing.expect("key columns of a type that can be a key"));
            }
            Partition::Random => {
                let (count, seed, used) = (block.len(), self.cycle.0, Routing::default());
                block.routing = Some(Router::default().at_random(count, self.slices, seed, used));
            }
            Partition::One | Partition::All | Partition::Local => {}
        }
        Arc::new(block)
    }
}
