//! Runs one operator by hand, cycle by cycle, without threads: for tests of operators.
//!
//! Every trial saves its states and restores them while it runs, so each test of an operator also
//! tests its checkpoints: a restored state must write the same rows as one that was never saved.
//! Keys that can leave memory do so in every second life, and come back. States that can be read
//! key by key begin every other life without keys, and read the rest some cycles later.

use crate::block::{Block, Payload, Routing};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, RecordPlace,
    SliceState,
};
use crate::partition::{Partition, Router};
use crate::runtime::slice_slot::{RestoreError, SliceRemainder, SliceSlot};
use crate::snapshot::StateAt;
use arrow_array::RecordBatch;
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::Arc,
};
use tidemill_env::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use tidemill_state::{
    Delta, HashOfEntry, ReadError, ReadKeys, ReadRows, SavedKeys, SavedRows, TakeKey, structure,
};
use tidemill_types::{Cycle, Micros, SliceId};

/// Slices, their operator, their states.
type TrialLane = (Range<u32>, Box<dyn Operator>, Vec<SliceSlot>);

/// The input of one cycle.
#[derive(Clone)]
struct TrialCycle {
    cycle: Cycle,
    blocks: Vec<Vec<Arc<Block>>>,
    watermarks: (Micros, Micros),
    ended: bool,
}

/// The output of a cycle: port and batch.
type CycleOutput = Vec<(usize, RecordBatch)>;

/// A checkpoint that is being written out.
struct Saving {
    /// By lane and slice: all of it is written out.
    is_done: Vec<Vec<bool>>,
    /// And all of it is to be, and nothing was yet.
    is_all: Vec<Vec<bool>>,
    /// The cycles since it began, with their output.
    since: Vec<(TrialCycle, CycleOutput, Vec<DeadLetter>)>,
}

/// Entries of a slice that are written out after each cycle.
const SAVED_AT_ONCE: usize = 3;
/// Keys of a slice that leave after each cycle.
const LEAVE_AT_ONCE: usize = 2;
/// Bytes that a slice has in memory when it is restored.
const RESTORED_BYTES: usize = 200;

/// The saved runs of a slice, the oldest first.
#[derive(Default)]
struct Runs(Mutex<Vec<Bytes>>);

impl Runs {
    fn get(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadRows for Runs {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        let (runs, mut found) = (self.get().clone(), None);
        let read = tidemill_state::visit_entries(&runs, &mut |it, value| {
            if it == key {
                found = Some(value.to_vec());
            }
            Ok(())
        });
        read.expect("runs that were just written");
        found.ok_or_else(|| ReadError::Failed("the row was not saved".to_owned()))
    }
}

/// The keys in the saved runs of a slice.
struct RunsByKey {
    runs: Arc<Runs>,
    hash_of: HashOfEntry,
}

impl RunsByKey {
    fn each(&self, mut each: impl FnMut(&[u8], [u8; 4], &[u8])) {
        let read = tidemill_state::visit_entries(&self.runs.get().clone(), &mut |key, value| {
            let (prefix, row) = key.split_last_chunk().expect("the key of a row");
            each(prefix, *row, value);
            Ok(())
        });
        read.expect("runs that were just written");
    }
}

impl ReadKeys for RunsByKey {
    fn parts(&self) -> Vec<(Vec<u8>, u32)> {
        let mut parts = BTreeMap::new();
        self.each(|prefix, row, _| {
            parts.insert(prefix.to_vec(), u32::from_be_bytes(row) + 1);
        });
        parts.into_iter().collect()
    }

    fn find(
        &mut self,
        prefix: &[u8],
        hash: u64,
        take: &mut TakeKey<'_>,
    ) -> Result<bool, ReadError> {
        let mut found = Vec::new();
        self.each(|of, row, value| {
            if of == prefix && (self.hash_of)(value) == Some(hash) {
                found.push((row, value.to_vec()));
            }
        });
        let mut taken = found.iter().map(|(row, value)| take(row, value));
        let taken = taken.find(|it| !matches!(it, Ok(false)));
        Ok(taken.is_some_and(|it| it.expect("what was just saved")))
    }
}

/// A slice that begins with none of its keys.
struct TrialRest {
    factory: Arc<dyn OperatorFactory>,
    slice: SliceId,
    runs: Arc<Runs>,
    /// The number of requests for its keys.
    asked: AtomicUsize,
}

impl SliceRemainder for TrialRest {
    fn slice(&self) -> SliceId {
        self.slice
    }

    fn take_if_read(&self) -> Option<SliceState> {
        None
    }

    fn take(&self, _: bool) -> Result<SliceState, RestoreError> {
        let mut state = tracked(&*self.factory, self.slice);
        let restored = structure::restore(&mut *state, &self.runs.get());
        restored.expect("what was just saved");
        Ok(state)
    }

    fn read_ahead(self: Arc<Self>) {}

    fn is_enough(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) > self.slice.0 as usize % 7
    }
}

/// An operator with its state, driven by a test. It is split into lanes as a job would be.
pub struct Trial {
    factory: Arc<dyn OperatorFactory>,
    partitions: Vec<Partition>,
    slices: u32,
    lanes: Vec<TrialLane>,
    cycle: Cycle,
    watermark: Micros,
    saving: Option<Saving>,
    wholes: usize,
    /// The saved runs, by lane and slice.
    runs: Vec<Vec<Arc<Runs>>>,
    /// The number of restores.
    restored: usize,
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
        let ranges = (0..lanes).map(|it| slices * it / lanes..slices * (it + 1) / lanes);
        let lanes: Vec<TrialLane> = ranges.map(|range| new_lane(&*factory, range)).collect();
        let runs = |range: &Range<u32>| range.clone().map(|_| Arc::default()).collect();
        let runs = lanes.iter().map(|(range, ..)| runs(range)).collect();
        Self {
            factory,
            partitions,
            slices,
            lanes,
            cycle: Cycle::NONE,
            watermark: Micros::MIN,
            saving: None,
            wholes: 0,
            runs,
            restored: 0,
            letters: Vec::new(),
        }
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
        let cycle = TrialCycle {
            cycle: self.cycle,
            blocks: input,
            watermarks: (self.watermark, watermark),
            ended,
        };
        self.watermark = watermark;
        let (factory, mut letters) = (Arc::clone(&self.factory), Vec::new());
        let written = run(&*factory, &mut self.lanes, &cycle, &mut letters)?;
        self.letters.extend_from_slice(&letters);
        if factory.cannot_save().is_none() {
            self.save(cycle, &written, letters);
        }
        Ok(written)
    }

    /// Begins to save the states, or goes on with it. A complete checkpoint is restored and
    /// compared.
    fn save(&mut self, cycle: TrialCycle, written: &CycleOutput, letters: Vec<DeadLetter>) {
        let Some(saving) = &mut self.saving else {
            let (mut is_done, mut is_all) = (Vec::new(), Vec::new());
            for (_, _, states) in &mut self.lanes {
                let freeze = |state: &mut SliceState| {
                    structure::begin_expiry(&mut **state);
                    structure::freeze(&mut **state)
                };
                is_all.push(states.iter_mut().filter_map(SliceSlot::here).map(freeze).collect());
                is_done.push(vec![false; states.len()]);
            }
            self.saving = Some(Saving { is_done, is_all, since: Vec::new() });
            return;
        };
        saving.since.push((cycle, written.clone(), letters));
        let mut is_whole = true;
        for (lane, (_, _, states)) in self.lanes.iter_mut().enumerate() {
            for (slice, state) in states.iter_mut().filter_map(SliceSlot::here).enumerate() {
                structure::expire(&mut **state, &mut { LEAVE_AT_ONCE });
                if saving.is_done[lane][slice] {
                    continue;
                }
                // A run for each piece, as small as can be.
                let (mut delta, mut run) = (Delta::default(), Vec::new());
                if std::mem::take(&mut saving.is_all[lane][slice]) {
                    delta.clear(&[]);
                    self.wholes += 1;
                }
                let is_done = structure::drain(&mut **state, &mut delta, SAVED_AT_ONCE);
                is_whole &= is_done;
                saving.is_done[lane][slice] = is_done;
                if !delta.is_empty() {
                    delta.finish(&mut run).expect("little has changed");
                    self.runs[lane][slice].get().push(run.into());
                }
            }
        }
        if is_whole && let Some(saving) = self.saving.take() {
            self.restore(saving);
        }
    }

    /// The number of slices saved as a whole, because most of each had changed.
    #[must_use]
    pub fn saved_as_wholes(&self) -> usize {
        self.wholes
    }

    /// The number of entries of the last checkpoint, over all slices.
    ///
    /// # Panics
    /// Panics if the saved runs cannot be read.
    #[must_use]
    pub fn saved_entries(&self) -> usize {
        let mut count = 0;
        for runs in self.runs.iter().flatten() {
            let read = tidemill_state::visit_entries(&runs.get(), &mut |_, _| {
                count += 1;
                Ok(())
            });
            read.expect("runs that were just written");
        }
        count
    }

    /// The rows of a table of the states, by slice.
    ///
    /// # Panics
    /// Panics if a state cannot be shown.
    pub fn rows(&mut self, table: usize) -> Vec<(u32, RecordBatch)> {
        let mut rows = Vec::new();
        for (range, _, states) in &mut self.lanes {
            for (slice, state) in range.clone().zip(states) {
                let at = StateAt { state: &mut **state.get(), watermark: self.watermark };
                let taken = self.factory.rows(table, at, &mut |batch| {
                    rows.push((slice, batch));
                    ControlFlow::Continue(())
                });
                taken.expect("a state that can be shown");
            }
        }
        rows
    }

    /// Restores the states, which then go on in place of those that were never saved.
    fn restore(&mut self, saving: Saving) {
        let factory = Arc::clone(&self.factory);
        let ranges = self.lanes.iter().map(|(range, ..)| range.clone());
        let mut lanes: Vec<TrialLane> = ranges.map(|range| new_lane(&*factory, range)).collect();
        self.restored += 1;
        let hash_of = factory.hash_of_entry().filter(|_| self.restored.is_multiple_of(2));
        for ((range, _, states), saved) in lanes.iter_mut().zip(&self.runs) {
            for ((slice, held), saved) in range.clone().zip(states).zip(saved) {
                let mut runs = saved.get();
                if runs.len() > 9 {
                    let merged = tidemill_state::merge(&std::mem::take(&mut *runs));
                    runs.push(merged.expect("runs that were just written").into());
                }
                let state = held.get();
                if let Some(hash_of) = hash_of.clone().filter(|_| !runs.is_empty()) {
                    drop(runs);
                    let keys = RunsByKey { runs: Arc::clone(saved), hash_of };
                    state.read_by_key(SavedKeys::new(Box::new(keys)));
                    let rest = TrialRest {
                        factory: Arc::clone(&factory),
                        slice: SliceId(slice),
                        runs: Arc::clone(saved),
                        asked: AtomicUsize::new(0),
                    };
                    let state = std::mem::replace(state, Box::new(()));
                    *held = SliceSlot::Partial(state, Arc::new(rest));
                    continue;
                }
                if self.restored % 2 == 1 {
                    let rows = Arc::clone(saved) as Arc<dyn ReadRows>;
                    let saved = SavedRows::new(rows, Arc::default(), RESTORED_BYTES);
                    structure::expires(&mut **state, &saved);
                }
                structure::restore(&mut **state, &runs).expect("what was just saved");
            }
        }
        for (cycle, written, letters) in saving.since {
            let mut again = Vec::new();
            let restored = run(&*factory, &mut lanes, &cycle, &mut again);
            let restored = restored.expect("what went well before");
            assert!(restored == written, "restored: {restored:?}, never saved: {written:?}");
            assert_eq!(again, letters);
        }
        self.lanes = lanes;
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
                let (rows, seed) = (0..block.len() as u64, self.cycle.0);
                let used = Routing::default();
                block.routing = Some(Router::default().at_random(rows, self.slices, seed, used));
            }
            Partition::One | Partition::All | Partition::Local => {}
        }
        Arc::new(block)
    }
}

/// An empty state that notes its changes.
fn tracked(factory: &dyn OperatorFactory, slice: SliceId) -> SliceState {
    let mut state = factory.state(slice);
    structure::track(&mut *state);
    state
}

fn new_lane(factory: &dyn OperatorFactory, range: Range<u32>) -> TrialLane {
    let held = |slice| SliceSlot::Resident(tracked(factory, SliceId(slice)));
    (range.clone(), factory.operator(), range.map(held).collect())
}

/// Runs a cycle in all lanes.
fn run(
    factory: &dyn OperatorFactory,
    lanes: &mut [TrialLane],
    it: &TrialCycle,
    letters: &mut Vec<DeadLetter>,
) -> Result<CycleOutput, OperatorError> {
    let mut written = Vec::new();
    let count = it.blocks.len();
    for (range, operator, states) in lanes {
        let mut output = Output::new(256 << 10);
        let mine = |blocks: &Vec<Arc<Block>>| {
            blocks.iter().filter(|block| block.count_in(range) > 0).cloned().collect()
        };
        let lane_input = CycleInput { ports: it.blocks.iter().map(mine).collect() };
        if lane_input.is_empty() && !factory.wants_time() && !it.ended {
            continue;
        }
        let mut context = Context {
            cycle: it.cycle,
            cycle_time: Micros(i64::try_from(it.cycle.0).expect("few cycles") * 1_000),
            seed: it.cycle.0,
            watermarks: &vec![it.watermarks.1; count],
            watermark: it.watermarks.1,
            watermark_before: it.watermarks.0,
            ended: &vec![it.ended; count],
            slices: range.clone(),
            states,
            place: RecordPlace::default(),
            letters,
        };
        operator.cycle(&mut context, &lane_input, &mut output)?;
        written.extend(output.take_batches());
    }
    Ok(written)
}
