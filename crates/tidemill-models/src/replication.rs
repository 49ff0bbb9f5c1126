//! A virtual log: R copies, a leader that ships and acknowledges, change of set through the
//! coordinator, sealing, and promotion by the longest prefix.
//!
//! ```text
//! append → ship → ack ─ all copies of the set have it ─→ acknowledged and visible
//!                   └─ a copy is away → change of set: closes the segment at the high watermark,
//!                                       opens the next one with another set, by compare-and-put
//! leader gone → elect (epoch + 1, by compare-and-put) → seal → longest prefix → copy to a new set
//!             → record the set by compare-and-put → serve
//! ```
//!
//! The network delays, reorders, loses and doubles messages. A paused leader (a zombie) is one that
//! takes no step for a while. A node that is away is one that nothing is delivered to. A crash ends a
//! process and keeps its files; a power cut also drops the tail that was not synced; a rotten copy
//! loses everything from some position on. A seal is a request and its answer in one step, as a
//! lost answer is a seal that the candidate makes no use of.
//!
//! Read in this order: [`state`], [`steps`], [`properties`], then the tests with their flaws.

mod copies;
pub mod properties;
pub mod recovery;
pub mod state;
pub mod steps;
#[cfg(test)]
mod tests;

use state::{
    ClusterState, CopyNode, EPOCHS, Leadership, NODES, Phase, ReplicaMessage, SegmentCopies,
};
use state::{
    CopyEntries, POSITIONS, Promises, SEGMENTS, SegmentSpan, Spent, TableRecord, UNMATCHED,
};
use stateright::{Model, Property};

/// When a copy is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// `fsync: always`: a copy is synced before it is acknowledged.
    Always,
    /// `fsync: every` and `fsync: os`: a copy is synced some time later.
    Later,
}

/// A fault of the implementation that the properties must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A record is acknowledged when one other copy has it.
    AckAfterOneBackup,
    /// A copy acknowledges before it has synced, in the mode that promises it.
    AckBeforeSync,
    /// A candidate reads the copies without raising their epoch.
    PromoteWithoutSealing,
    /// A candidate serves reads up to the end of the prefix before the new set has it.
    HighWatermarkAtEnd,
    /// A copy that starts again drops what lies above the high watermark it knows (before KIP-101).
    TruncateByHighWatermark,
    /// A copy keeps entries of an earlier epoch where it has as many as the leader.
    TruncateByLength,
    /// A leader counts the new set alone from the moment it asks for it.
    AckFewerDuringChange,
    /// A leader counts the old set alone until it learns that the new one is recorded.
    AckOldSetDuringChange,
    /// A copy with a rotten entry offers what is before it as if it were all.
    SickCopyAsSource,
    /// A copy that lost its tail in a power cut counts as before.
    ForgetfulCopyCounts,
    /// An acknowledgement counts whatever the generation of the copy that sent it.
    AckOfOtherGeneration,
    /// A copy forgets in a crash which epoch it has promised.
    PromiseInMemory,
    /// The coordinator applies a write whatever its revision.
    PutWithoutCompare,
    /// A candidate waits for a copy that has forgotten nothing, even when it has read all copies.
    WaitForFullCopy,
    /// A second opening message of one epoch drops what was shipped after the first.
    OpeningCutsAgain,
}

/// The bounds of a model: how much of everything there is.
#[derive(Clone, Debug)]
pub struct ReplicationModel {
    /// When a copy is durable.
    pub durability: SyncMode,
    /// The planted fault, if any.
    pub flaw: Option<Flaw>,
    /// Nodes, at most [`NODES`].
    pub nodes: u8,
    /// The first set, as bits of nodes. Node 0 leads.
    pub first_set: u8,
    /// The sets that a leader may choose, as bits of nodes.
    pub sets: Vec<u8>,
    /// The nodes that the controller may elect, as bits.
    pub candidates: u8,
    /// Records appended, at most [`POSITIONS`].
    pub records: u8,
    /// The highest epoch. The first is 1.
    pub epochs: u8,
    /// Changes of set by a serving leader.
    pub changes: u8,
    /// Processes killed.
    pub crashes: u8,
    /// Power cuts and rotten copies.
    pub losses: u8,
    /// Messages delivered twice.
    pub duplicates: u8,
    /// Messages in flight at once.
    pub in_flight: usize,
    /// Copies serve reads below the high watermark that was shipped to them.
    pub copy_reads: bool,
    /// Each state is also brought to rest without further faults, to see that it serves again.
    pub check_recovery: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStep {
    /// A leader accepts a record.
    Append(u8),
    /// A node syncs its copy.
    Sync(u8),
    /// A leader sends a copy what it lacks.
    Ship(u8, u8),
    /// A message arrives.
    Deliver(ReplicaMessage),
    /// A message arrives and will arrive once more.
    DeliverTwice(ReplicaMessage),
    /// A leader asks for another set.
    Change(u8, SegmentCopies),
    /// The controller elects a node.
    Elect(u8),
    /// A node reads the coordinator's record.
    Observe(u8),
    /// A candidate seals a copy and reads it.
    Seal(u8, u8),
    /// A candidate takes the longest prefix and begins to copy it to a set.
    Adopt(u8, SegmentCopies),
    /// A candidate asks the coordinator to record its set.
    RecordSet(u8),
    /// A process is killed and starts again.
    Crash(u8),
    /// A machine loses power and starts again.
    PowerCut(u8),
    /// A copy is found rotten from a position on.
    Rot(u8, u8),
}

impl Model for ReplicationModel {
    type State = ClusterState;
    type Action = ProtocolStep;

    fn init_states(&self) -> Vec<ClusterState> {
        assert!(usize::from(self.nodes) <= NODES && usize::from(self.epochs) < EPOCHS);
        assert!(usize::from(self.records) <= POSITIONS && usize::from(self.changes) < SEGMENTS);
        let copy = CopyNode {
            log: CopyEntries::default(),
            synced: 0,
            generation: 0,
            promised: 1,
            joined: 1,
            base: 0,
            head: 0,
            lead: None,
        };
        let mut state = ClusterState {
            nodes: [copy; NODES],
            record: TableRecord {
                revision: 1,
                epoch: 1,
                serving: true,
                segments: 1,
                ..TableRecord::default()
            },
            network: Vec::new(),
            promises: Promises::default(),
            spent: Spent::default(),
        };
        let open = SegmentSpan { from: 0, set: state.set_of(self.first_set) };
        state.record.chain[0] = open;
        for (n, node) in state.nodes.iter_mut().enumerate() {
            node.joined = u8::from(open.set.0[n] != 0);
        }
        state.nodes[0].lead = Some(Leadership {
            epoch: 1,
            revision: 1,
            phase: Phase::Serving,
            open,
            next: None,
            sealed: 0,
            complete: false,
            best: CopyEntries::default(),
            matched: std::array::from_fn(|n| if open.set.0[n] == 0 { UNMATCHED } else { 0 }),
            head: 0,
        });
        vec![state]
    }

    fn actions(&self, state: &ClusterState, steps: &mut Vec<ProtocolStep>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &ClusterState, step: ProtocolStep) -> Option<ClusterState> {
        let mut next = state.clone();
        self.take(&mut next, step);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}
