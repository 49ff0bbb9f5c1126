//! Small steps and questions of one state, which need no bounds: shipping, forgetting, what clients
//! were told.

use super::state::{
    ClusterState, CopyNode, Leadership, NODES, POSITIONS, Phase, ReplicaMessage, SegmentCopies,
    TableRecord, UNMATCHED,
};

impl CopyNode {
    /// The end of the last entry.
    #[must_use]
    pub fn extent(&self) -> u8 {
        (0..POSITIONS).rfind(|p| self.log.0[*p] != 0).map_or(0, |p| p as u8 + 1)
    }

    /// Drops all entries at `position` and above.
    pub fn cut(&mut self, position: u8) {
        self.log.cut(position);
        self.synced = self.synced.min(position);
    }

    /// The copy may have forgotten something: it is no longer the one that the sets name.
    pub fn forget(&mut self) {
        self.generation += 1;
        self.joined = 0;
        self.head = 0;
    }
}

impl Leadership {
    /// The generation of a copy whose answers count: that of the newest set that has it.
    #[must_use]
    pub fn generation_of(&self, copy: usize) -> Option<u8> {
        let next = self.next.and_then(|next| next.set.generation(copy));
        next.or_else(|| self.open.set.generation(copy))
    }
}

impl TableRecord {
    /// True for the node that this record elects, until it knows.
    #[must_use]
    pub fn is_election_of(&self, n: u8, node: &CopyNode) -> bool {
        self.leader == n && !self.serving && self.epoch > node.promised
    }
}

impl ClusterState {
    /// True if reading the coordinator's record would change something at a node.
    #[must_use]
    pub fn observes(&self, n: u8) -> bool {
        let node = &self.nodes[usize::from(n)];
        let is_behind = |lead: &Leadership| {
            lead.epoch < self.record.epoch || lead.revision < self.record.revision
        };
        self.record.is_election_of(n, node) || node.lead.as_ref().is_some_and(is_behind)
    }

    /// True if a leader has something for a copy that is not in flight, nor answered in flight.
    #[must_use]
    pub fn lacks_shipment(&self, n: u8, m: usize, watermark: bool) -> bool {
        let node = &self.nodes[usize::from(n)];
        let (Some(lead), copy) = (&node.lead, &self.nodes[m]) else { return false };
        if usize::from(n) == m || lead.generation_of(m) != Some(copy.generation) {
            return false;
        }
        let end = node.log.end(lead.open.from);
        let is_answered = self.network.iter().any(|message| match *message {
            ReplicaMessage::Ack { to, from, epoch, end: known, .. } => {
                to == n && usize::from(from) == m && epoch == lead.epoch && known >= end
            }
            _ => false,
        });
        let is_behind = lead.matched[m] == UNMATCHED || lead.matched[m] < end;
        let is_dark = watermark && copy.head < lead.head && lead.matched[m] != UNMATCHED;
        (is_behind && !is_answered || is_dark)
            && self.network.binary_search(&self.shipment(n, m)).is_err()
    }

    /// The chunks that a leader would send a copy now.
    fn shipment(&self, n: u8, m: usize) -> ReplicaMessage {
        let node = &self.nodes[usize::from(n)];
        let lead = node.lead.expect("a node that ships leads");
        let first = match lead.next {
            Some(next) if next.set.0[m] != 0 => next.from,
            _ => lead.open.from,
        };
        let opening = lead.matched[m] == UNMATCHED;
        let at = if opening { first } else { lead.matched[m] };
        ReplicaMessage::Ship {
            to: m as u8,
            generation: lead.generation_of(m).expect("a shipment is for a copy of a set"),
            leader: n,
            epoch: lead.epoch,
            opening,
            at,
            entries: node.log.tail(at),
            head: if lead.phase == Phase::Serving { lead.head } else { 0 },
        }
    }

    /// A leader sends a copy what it lacks.
    pub fn ship(&mut self, n: u8, m: u8) {
        let shipment = self.shipment(n, usize::from(m));
        self.send(shipment);
    }

    /// A candidate asks the coordinator to record the set that has the prefix.
    pub fn record_set(&mut self, n: u8) {
        let record = self.record;
        let lead = self.nodes[usize::from(n)].lead.as_mut().expect("a candidate leads");
        let mut put = TableRecord {
            revision: lead.revision + 1,
            epoch: lead.epoch,
            leader: n,
            serving: true,
            ..record
        };
        put.chain[usize::from(put.segments) - 1] =
            lead.next.expect("a candidate that copies has a set");
        lead.phase = Phase::Recording;
        self.send(ReplicaMessage::Put(put));
    }

    /// A consumer reads the entries from `from` to `to` at a node.
    pub fn mark_read(&mut self, n: u8, from: u8, to: u8) {
        for p in usize::from(from)..usize::from(to) {
            let entry = self.nodes[usize::from(n)].log.0[p];
            let promises = &mut self.promises;
            let differs = |known: u8| known != 0 && known != entry;
            if entry != 0 {
                promises.contradiction |= differs(promises.read[p]);
                promises.contradiction |= differs(promises.acknowledged[p]);
                promises.read[p] = entry;
            }
        }
    }

    /// A leader acknowledges the entries from `from` to `to`, and consumers read them.
    pub fn mark_acknowledged(&mut self, n: u8, epoch: u8, from: u8, to: u8) {
        self.mark_read(n, from, to);
        for p in usize::from(from)..usize::from(to) {
            self.promises.acknowledged[p] = self.nodes[usize::from(n)].log.0[p];
        }
        self.promises.acknowledgers[usize::from(epoch)] |= 1 << n;
    }

    /// True if a node still is the copy that a set names.
    #[must_use]
    pub fn is_complete(&self, n: usize, generation: Option<u8>) -> bool {
        generation == Some(self.nodes[n].generation)
    }

    /// True if every copy of a set still is the one that the set names.
    #[must_use]
    pub fn is_whole(&self, set: SegmentCopies) -> bool {
        set.nodes().all(|m| self.is_complete(m, set.generation(m)))
    }

    /// Forgets the promises of segments whose every copy has lost something: no mode keeps them.
    pub fn void(&mut self) {
        for p in 0..POSITIONS {
            let set = self.record.covering(p as u8).set;
            if !(0..NODES).any(|m| self.is_complete(m, set.generation(m))) {
                self.promises.acknowledged[p] = 0;
                self.promises.read[p] = 0;
            }
        }
    }
}
