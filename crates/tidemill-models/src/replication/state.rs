//! The state of the model: copies of one virtual log, their leaders, the coordinator's record, the
//! network, and what clients were told.
//!
//! Everything is a small integer in a fixed array, so that a state is cheap to copy and to hash.
//!
//! Invariants:
//! - The fields of [`Promises`] record what clients saw. No step of the protocol reads them.

/// The most nodes of a model.
pub const NODES: usize = 4;
/// The most positions of the virtual log of a model.
pub const POSITIONS: usize = 3;
/// The most virtual segments of a model.
pub const SEGMENTS: usize = 3;
/// One more than the highest epoch of a model.
pub const EPOCHS: usize = 6;
/// The `matched` of a copy that has not answered in this epoch.
pub const UNMATCHED: u8 = u8::MAX;

/// The entries of a copy by position. An entry is `epoch << 4 | record`; 0 is a hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyEntries(pub [u8; POSITIONS]);

impl CopyEntries {
    /// The end of the unbroken run of entries that begins at `from`.
    #[must_use]
    pub fn end(&self, from: u8) -> u8 {
        (usize::from(from)..POSITIONS).find(|p| self.0[*p] == 0).unwrap_or(POSITIONS) as u8
    }

    /// Drops all entries at `position` and above.
    pub fn cut(&mut self, position: u8) {
        self.0[usize::from(position)..].fill(0);
    }

    /// The entries at `from` and above; the rest are holes.
    #[must_use]
    pub fn tail(&self, from: u8) -> Self {
        let mut tail = *self;
        tail.0[..usize::from(from)].fill(0);
        tail
    }

    /// The entry at a position, 0 for a hole.
    #[must_use]
    pub fn at(&self, position: u8) -> u8 {
        self.0[usize::from(position)]
    }
}

/// The copies of a virtual segment: for each node its generation plus 1, or 0 for no member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentCopies(pub [u8; NODES]);

impl SegmentCopies {
    /// The nodes of the set, ascending.
    pub fn nodes(self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |n| self.0[*n] != 0)
    }

    /// The generation that the set names for a node.
    #[must_use]
    pub fn generation(self, node: usize) -> Option<u8> {
        self.0[node].checked_sub(1)
    }

    /// The number of copies.
    #[must_use]
    pub fn len(self) -> usize {
        self.nodes().count()
    }

    /// A set without copies.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A virtual segment: the positions from `from` to the next segment's, and the copies of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentSpan {
    /// The first position.
    pub from: u8,
    /// The copies that hold it.
    pub set: SegmentCopies,
}

/// The coordinator's record of the virtual log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableRecord {
    /// Grows with each write. A write names the revision it was made from.
    pub revision: u8,
    /// The leader epoch.
    pub epoch: u8,
    /// The node that leads in this epoch, or is to.
    pub leader: u8,
    /// Set when the leader of this epoch has finished recovery.
    pub serving: bool,
    /// The number of virtual segments. The last one is open, the others are closed.
    pub segments: u8,
    /// The virtual segments in order.
    pub chain: [SegmentSpan; SEGMENTS],
}

impl TableRecord {
    /// The open virtual segment.
    #[must_use]
    pub fn open(&self) -> SegmentSpan {
        self.chain[usize::from(self.segments) - 1]
    }

    /// The virtual segment that covers a position.
    #[must_use]
    pub fn covering(&self, position: u8) -> SegmentSpan {
        let covering = (0..usize::from(self.segments)).rfind(|s| self.chain[*s].from <= position);
        self.chain[covering.unwrap_or(0)]
    }
}

/// The part of recovery that a leader is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Copies of the open segment are being sealed and read.
    Sealing,
    /// The chosen prefix is being copied to the new set.
    Copying,
    /// The coordinator has been asked to record the new set.
    Recording,
    /// Records are accepted.
    Serving,
}

/// A leadership as its node believes in it. It is in memory alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leadership {
    /// The epoch.
    pub epoch: u8,
    /// The revision of the record that was read last.
    pub revision: u8,
    /// The part of recovery, or serving.
    pub phase: Phase,
    /// The open virtual segment as the leader knows it.
    pub open: SegmentSpan,
    /// The change of set that may have been recorded, or may yet be.
    pub next: Option<SegmentSpan>,
    /// The members of the set that have been sealed, as bits.
    pub sealed: u8,
    /// Set when `best` is of a copy that has forgotten nothing.
    pub complete: bool,
    /// The longest prefix found so far.
    pub best: CopyEntries,
    /// By node the end of what it has acknowledged, or [`UNMATCHED`].
    pub matched: [u8; NODES],
    /// The high watermark: everything below it is on every copy of the set.
    pub head: u8,
}

/// A node with its copy of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyNode {
    /// The copy.
    pub log: CopyEntries,
    /// The end of what a power cut leaves.
    pub synced: u8,
    /// Grows when the node may have forgotten something that it had acknowledged.
    pub generation: u8,
    /// The lowest epoch that is accepted. It is durable before the first answer under it.
    pub promised: u8,
    /// The epoch whose leader this copy follows.
    pub joined: u8,
    /// The first position of what it holds of the open segment.
    pub base: u8,
    /// The high watermark as shipped.
    pub head: u8,
    /// The leadership, if the node believes that it leads.
    pub lead: Option<Leadership>,
}

/// A message in flight. Messages arrive in any order, late, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaMessage {
    /// CopyEntries for a copy.
    Ship {
        /// The copy.
        to: u8,
        /// The generation of the copy that is meant.
        generation: u8,
        /// The leader.
        leader: u8,
        /// The leader's epoch.
        epoch: u8,
        /// Set on the first message of an epoch: the copy drops what it has from `at` on.
        opening: bool,
        /// The position of the first entry.
        at: u8,
        /// The entries from `at` on.
        entries: CopyEntries,
        /// The leader's high watermark.
        head: u8,
    },
    /// A copy's answer to a leader.
    Ack {
        /// The leader.
        to: u8,
        /// The copy.
        from: u8,
        /// The generation of the copy.
        generation: u8,
        /// The leader's epoch.
        epoch: u8,
        /// The end of what the copy holds.
        end: u8,
    },
    /// A write to the coordinator. It is applied if the record has the revision before this one's.
    Put(TableRecord),
}

/// A checker's history: the answers that clients got, and the promises that faults have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Promises {
    /// By position the entry that a producer was told is safe.
    pub acknowledged: [u8; POSITIONS],
    /// By position the entry that a consumer has read.
    pub read: [u8; POSITIONS],
    /// By epoch the nodes that acknowledged under it, as bits.
    pub acknowledgers: [u8; EPOCHS],
    /// Set when a consumer read an entry at a position where another one was read or acknowledged.
    pub contradiction: bool,
}

/// The faults that were spent of each budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spent {
    /// Records appended.
    pub records: u8,
    /// Changes of set proposed.
    pub changes: u8,
    /// Processes killed and started again.
    pub crashes: u8,
    /// Power cuts and rotten copies.
    pub losses: u8,
    /// Messages delivered twice.
    pub duplicates: u8,
}

/// A state of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterState {
    /// The nodes.
    pub nodes: [CopyNode; NODES],
    /// The coordinator's record.
    pub record: TableRecord,
    /// The messages in flight, sorted.
    pub network: Vec<ReplicaMessage>,
    /// The answers that clients got.
    pub promises: Promises,
    /// The budgets spent.
    pub spent: Spent,
}

impl ClusterState {
    /// Puts a message in flight. An equal one that is in flight already stands for both.
    pub fn send(&mut self, message: ReplicaMessage) {
        if let Err(place) = self.network.binary_search(&message) {
            self.network.insert(place, message);
        }
    }

    /// The set of nodes with their generations of now, as a handshake tells them.
    #[must_use]
    pub fn set_of(&self, nodes: u8) -> SegmentCopies {
        let mut set = SegmentCopies::default();
        for (n, node) in self.nodes.iter().enumerate() {
            if nodes & 1 << n != 0 {
                set.0[n] = node.generation + 1;
            }
        }
        set
    }
}
