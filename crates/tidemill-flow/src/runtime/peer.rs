//! The other processes of a job: frames to their lanes, and frames from them.
//!
//! ```text
//! worker ─ blocks, by reference ─▶ queue ─▶ I/O thread ─▶ socket ─▶ I/O thread ─▶ inbox
//!     ◀──────────────────────────── credit ◀─────────────────────────────────────┘
//! ```
//!
//! - Byte records go from the memory they were written to straight to the socket, and are read
//!   straight into pooled memory: no copy in between.
//! - The credit of the links bounds a queue: the sender counts bytes until the reader has processed
//!   them.
//! - A peer that is lost, or breaks the rules, fails the job; the error names the peer.

use super::inbox::{CycleEnd, Parcel};
use super::job::Job;
use super::lane::Lane;
use super::peer_reader::{FrameReader, Incoming};
use super::peer_writer::FrameWriter;
use super::plan::LinkPlan;
use crate::block::Block;
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, OnceLock},
};
use tidemill_env::Connection;
use tidemill_env::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tidemill_types::{Cycle, LaneIx, LayoutVersion, LinkIx, ProcessIx, job::CompressionSpec};

/// Cycles that a peer may be ahead of a lane here. An inbox has a place for each of them.
const CYCLES_AHEAD_MAX: u64 = 1 << 16;

/// The most bytes that a block may count on its link. A slice of a large batch counts as the whole
/// batch, which may exceed a frame; sums must not overflow.
const SHARE_MAX: u64 = 1 << 36;

/// A frame to send.
pub(crate) enum Outgoing {
    /// Rows for a lane.
    Block { address: Address, cycle: Cycle, block: Arc<Block>, share: u64, slices: Range<u32> },
    /// The end of a cycle.
    End { address: Address, end: CycleEnd },
    /// Bytes of a link that were processed.
    Credit { link: LinkIx, bytes: u64 },
    /// This process has finished its part.
    Bye,
}

/// An input of a lane in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) link: LinkIx,
    pub(crate) lane: LaneIx,
    /// The input of that lane's inbox.
    pub(crate) input: u32,
    pub(crate) layout: LayoutVersion,
}

/// All other processes of a job.
#[derive(Default)]
pub(crate) struct Peers {
    /// By process; none for this one.
    peers: Vec<Option<Arc<Peer>>>,
}

/// One other process.
pub(crate) struct Peer {
    pub(crate) name: String,
    queue: Mutex<VecDeque<Outgoing>>,
    wakeup: Condvar,
    closed: AtomicBool,
    closer: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

impl Peers {
    /// Peers by process, with none in the place of this one.
    pub(crate) fn new(peers: Vec<Option<Arc<Peer>>>) -> Self {
        Self { peers }
    }

    /// Returns true if the job has this process alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    fn of(&self, process: ProcessIx) -> Option<&Arc<Peer>> {
        self.peers.get(process.index()).and_then(Option::as_ref)
    }

    /// Sends blocks and the end of a cycle to a lane of another process.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn send(
        &self,
        job: &Job,
        (link, lane, input): (LinkIx, &Arc<Lane>, usize),
        end: CycleEnd,
        parcels: &mut Vec<Parcel>,
    ) -> Result<(), String> {
        let process = job.plan[lane.stage].process;
        let peer = self.of(process).ok_or_else(|| format!("there is no process {process}"))?;
        let address = Address { link, lane: lane.index, input: input as u32, layout: lane.layout };
        let blocks = parcels.drain(..).map(|(block, share)| Outgoing::Block {
            address,
            cycle: end.cycle,
            block,
            share,
            slices: lane.slices.clone(),
        });
        peer.push(blocks.chain([Outgoing::End { address, end }]));
        Ok(())
    }

    /// Gives credit back to the process that writes a link.
    pub(crate) fn credit(&self, job: &Job, link: LinkIx, bytes: u64) {
        let process = job.plan[job.plan[link].from].process;
        if let Some(peer) = self.of(process) {
            peer.push([Outgoing::Credit { link, bytes }]);
        }
    }

    /// Ends all connections after the queued frames; with a good-bye if all went well.
    pub(crate) fn close(&self, finished: bool) {
        for peer in self.peers.iter().flatten() {
            if finished && !peer.closed.load(Ordering::Acquire) {
                peer.push([Outgoing::Bye]);
            }
            peer.closed.store(true, Ordering::Release);
            let _held = peer.queue.lock().expect("no panic while held");
            peer.wakeup.notify_all();
        }
    }
}

impl Peer {
    pub(crate) fn new(name: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            queue: Mutex::new(VecDeque::new()),
            wakeup: Condvar::new(),
            closed: AtomicBool::new(false),
            closer: OnceLock::new(),
        })
    }

    fn push(&self, frames: impl IntoIterator<Item = Outgoing>) {
        let mut queue = self.queue.lock().expect("no panic while held");
        let was_empty = queue.is_empty();
        queue.extend(frames);
        drop(queue);
        if was_empty {
            self.wakeup.notify_one();
        }
    }

    /// Takes all queued frames, and waits for the first. Returns false once the peer is closed.
    fn take(&self, taken: &mut VecDeque<Outgoing>) -> bool {
        let mut queue = self.queue.lock().expect("no panic while held");
        while queue.is_empty() {
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            queue = self.wakeup.wait(queue).expect("no panic while held");
        }
        std::mem::swap(&mut *queue, taken);
        true
    }
}

/// Gives the peer its connection: the threads that read and write it may start.
pub(crate) fn split(peer: &Peer, connection: Connection) -> (FrameReader, FrameWriter) {
    let Connection { reader, writer, closer, is_within_machine, peer: _ } = connection;
    // A peer has one connection in its life.
    drop(peer.closer.set(closer));
    (FrameReader::new(reader), FrameWriter::new(writer, is_within_machine))
}

/// The I/O thread that writes to a peer.
pub(crate) fn write_loop(
    job: &Job,
    peer: &Peer,
    mut writer: FrameWriter,
    compression: CompressionSpec,
) {
    writer.compress(compression);
    let mut taken = VecDeque::new();
    while peer.take(&mut taken) {
        while !taken.is_empty() {
            let count = match writer.write(taken.make_contiguous()) {
                Ok(count) => count,
                Err(error) => return lost(job, peer, &format!("cannot be written to: {error}")),
            };
            for frame in taken.drain(..count) {
                if let Outgoing::Block { block, .. } = frame {
                    job.blocks.give_back(block);
                }
            }
        }
    }
    if let Some(closer) = peer.closer.get() {
        closer();
    }
}

/// The I/O thread that reads from a peer.
pub(crate) fn read_loop(job: &Arc<Job>, peer: &Peer, mut reader: FrameReader) {
    let mut blocks: Vec<(Address, Vec<Parcel>)> = Vec::new();
    loop {
        let outcome = match reader.read(job) {
            Ok(Incoming::Bye) => return farewell(job),
            Ok(frame) => receive(job, &mut blocks, frame),
            Err(message) => Err(message),
        };
        match outcome {
            Ok(()) => {}
            Err(_) if peer.closed.load(Ordering::Acquire) => return,
            Err(message) => return lost(job, peer, &message),
        }
    }
}

fn receive(
    job: &Arc<Job>,
    waiting: &mut Vec<(Address, Vec<Parcel>)>,
    frame: Incoming,
) -> Result<(), String> {
    match frame {
        Incoming::Block { address, block, share } => {
            // Blocks of a lane that is not here would wait for an end that nobody takes.
            find_lane(job, address)?;
            if share > SHARE_MAX {
                return Err(format!("a block of {share} bytes is too large"));
            }
            let Block { payload, routing, slice } = block;
            let block = job.blocks.take(payload, routing, slice);
            parcels_of(waiting, address).push((block, share));
            Ok(())
        }
        Incoming::End { address, end } => {
            let (lane, link) = find_lane(job, address)?;
            let next = lane.state.lock().expect("no panic while held").inbox.next();
            if end.cycle.0.saturating_sub(next.0) > CYCLES_AHEAD_MAX {
                return Err(format!("cycle {} is too far ahead: the next is {next}", end.cycle));
            }
            let parcels = parcels_of(waiting, address);
            job.deliver(link, &lane, address.input as usize, end, parcels)
        }
        Incoming::Credit { link, bytes } => {
            let ours = |it: &&LinkPlan| job.plan.is_here(it.from) && !job.plan.is_here(it.to);
            let credit = job.plan.links.get(link.index()).filter(ours).map(|link| &link.credit);
            let credit = credit.ok_or_else(|| format!("there is no link {link}"))?;
            if credit.waiting_bytes() < bytes {
                return Err(format!("link {link} was given back more than was sent"));
            }
            credit.release(bytes).iter().for_each(|lane| job.wake_lane(lane));
            Ok(())
        }
        Incoming::Bye => Ok(()),
    }
}

/// A peer has finished. Process 0 has the sources and the sinks: when it has finished, so has the
/// job.
fn farewell(job: &Job) {
    if job.plan.process != ProcessIx(0) {
        job.finished.store(true, Ordering::Release);
        job.end();
    }
}

/// The lane of this process that an address names. Any number may come from outside.
fn find_lane(job: &Job, address: Address) -> Result<(Arc<Lane>, LinkIx), String> {
    let link = address.link;
    let wrong = || format!("no lane here has the address {address:?}");
    let plan = job.plan.links.get(link.index()).ok_or_else(wrong)?;
    if !job.plan.is_here(plan.to) || job.plan.is_here(plan.from) {
        return Err(wrong());
    }
    let layouts = job.layouts.read().expect("no panic while held");
    let layout = layouts.iter().find(|layout| layout.version == address.layout);
    let layout = layout.ok_or_else(wrong)?;
    if !layout.inputs_of(&job.plan, link).contains(&(address.input as usize)) {
        return Err(wrong());
    }
    let lane = layout.lanes_of(plan.to).get(address.lane.index()).ok_or_else(wrong)?;
    Ok((Arc::clone(lane), link))
}

fn parcels_of(waiting: &mut Vec<(Address, Vec<Parcel>)>, address: Address) -> &mut Vec<Parcel> {
    let index = match waiting.iter().position(|(it, _)| *it == address) {
        Some(index) => index,
        None => {
            waiting.push((address, Vec::new()));
            waiting.len() - 1
        }
    };
    &mut waiting[index].1
}

/// A peer is gone. Nothing is lost yet if the job had ended anyway.
fn lost(job: &Job, peer: &Peer, message: &str) {
    if let Some(closer) = peer.closer.get() {
        closer();
    }
    if !job.over.load(Ordering::Acquire) {
        let cycle = Cycle(job.committer.cut.load(Ordering::Acquire));
        job.fail(job.error_of(&peer.name, cycle, message.to_owned()));
    }
}
