//! Progress of a job: counters that its threads write and anyone may read.

use serde::Serialize;
use tidemill_types::Cycle;

/// A job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// The last cycle that every source slice has cut.
    pub cycle_cut: Cycle,
    /// The last cycle that every sink has committed.
    pub cycle_committed: Cycle,
    /// Sources, in the order of the graph.
    pub sources: Vec<SourceProgress>,
    /// Stages, in the order of the graph.
    pub stages: Vec<StageProgress>,
    /// Sinks, in the order of the graph.
    pub sinks: Vec<SinkProgress>,
    /// Records that could not be processed.
    pub dead_letters: u64,
    /// Records dropped under overload (`at-most-once`).
    pub shed: u64,
    /// Checkpoints of the job's state.
    pub checkpoints: CheckpointProgress,
    /// The part that the job waits for, if it waits.
    pub stalled: Option<Stalled>,
    /// Worker threads now.
    pub workers: usize,
    /// True once all sources have ended and all sinks are closed.
    pub finished: bool,
}

/// A part of a running job that cannot do its work now: a disk is full, or a server is away. The
/// job waits with it, and continues by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalled {
    /// The name of a source or sink, `ledger`, or the sink of dead letters.
    pub part: String,
    /// The reason, for a person.
    pub why: String,
    /// Its beginning, in microseconds since 1970.
    pub since_us: i64,
}

/// The checkpoints of this run at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckpointProgress {
    /// The number of completed checkpoints.
    pub completed: u64,
    /// The number of failed writes, each of which was tried again.
    pub failures: u64,
    /// The time of the newest, in microseconds since 1970, of this run or an earlier one.
    pub made_us: Option<i64>,
    /// The cycle of the newest, or the one that the run began with.
    pub cycle: Cycle,
    /// Bytes of changes in the newest.
    pub bytes: u64,
    /// From its beginning to its completion, in microseconds.
    pub took_us: u64,
    /// From the beginning of one to that of the next as it is now, in microseconds; 0 before the
    /// first, and if time does not matter.
    pub every_us: u64,
    /// Slices whose state is still to be read back.
    pub slices_left: usize,
    /// The reason why the one under way could not be written yet.
    pub failure: Option<String>,
}

/// A source at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceProgress {
    /// Its name.
    pub name: String,
    /// Records read.
    pub records: u64,
    /// Input bytes read.
    pub bytes: u64,
    /// Its position, in its own unit.
    pub position: u64,
    /// Its end, in the same unit, if it is known.
    pub total: Option<u64>,
    /// Cycles cut but not yet committed by the sinks.
    pub lag_cycles: u64,
    /// True once it has ended.
    pub ended: bool,
}

/// A stage at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageProgress {
    /// Its name.
    pub name: String,
    /// Its slices.
    pub slices: u32,
    /// Rows taken.
    pub rows_in: u64,
    /// Rows written.
    pub rows_out: u64,
    /// Rows written to side outputs, such as late ones.
    pub rows_side: u64,
    /// Time its operator worked, in microseconds, over all workers.
    pub busy_us: u64,
    /// About how many bytes of memory its state takes.
    pub state_bytes: u64,
    /// Keys of its state that are not in memory, as nothing came for them for a time.
    pub expired_keys: u64,
    /// The number of times such a key was read back.
    pub revived_keys: u64,
    /// Keys that were read back since the job went on while the rest of their slice was not.
    pub read_keys: u64,
    /// Bytes that wait on its incoming links.
    pub waiting_bytes: u64,
    /// The last cycle that all its slices have processed.
    pub cycle: Cycle,
}

/// A sink at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SinkProgress {
    /// Its name.
    pub name: String,
    /// Rows written and committed in this life of the job.
    pub rows: u64,
}
