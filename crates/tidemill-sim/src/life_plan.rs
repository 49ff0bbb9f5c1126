//! The plan of a life of a job: its events and their times, made from the seed before it begins.

use crate::{
    fault::{Fault, Faults},
    job::SimJob,
};
use tidemill_env::{Random, SimPace};
use tidemill_types::{ByteSize, Span, job::Recovery};

/// Something that happens to the job's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The process dies; its writes stay.
    Kill,
    /// The machine dies: unsynced writes are lost, wholly or in part.
    PowerCut,
    /// A person stops it.
    Stop,
    /// The disk with ledger and output fails once, after this number of operations.
    Fails(u64),
    /// As above, a sync.
    SyncFails(u64),
    /// Reads of that disk fail: after this number of reads, this number of them.
    ReadsFail(u64, u64),
    /// That disk has this number of bytes left.
    Full(u64),
    /// It has room again.
    Room,
    /// The same for the disk with the checkpoints.
    StateFails(u64),
    StateSyncFails(u64),
    /// Reads fail: after this number of reads, this number of them.
    StateReadsFail(u64, u64),
    StateFull(u64),
    StateRoom,
    /// The clock on the wall is set, in microseconds.
    Jump(i64),
}

/// A request of a person to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobRequest {
    Rescale(usize),
    Keep,
    Delete,
    /// A second process starts the job in the same folder.
    Second,
}

/// A life of a job, before it begins.
#[derive(Clone, Debug)]
pub(crate) struct LifePlan {
    pub(crate) workers: usize,
    pub(crate) recovery: Recovery,
    pub(crate) every: Span,
    /// It goes on from a checkpoint that was kept, if there is one.
    pub(crate) from_kept: bool,
    /// In that case: with a new ledger and new output.
    pub(crate) begins: bool,
    pub(crate) flush_bytes: ByteSize,
    pub(crate) file_bytes: ByteSize,
    /// Each with its time from the start, in microseconds.
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) requests: Vec<(u64, JobRequest)>,
    /// The planted fault.
    pub(crate) fault: Option<Fault>,
    /// Should it end by itself before its time, the machine loses power too.
    pub(crate) ends_dark: bool,
}

/// Any moment, early ones more often; later ones where all takes longer.
fn moment(random: &mut Random, pace: &SimPace) -> u64 {
    let slow_us = if pace.slow_one_in > 0 { pace.slow_us_max } else { 0 };
    let most = (1 << (9 + random.below(10))) * (1 + (pace.disk_us_max + slow_us) / 100);
    random.below(most)
}

fn event(random: &mut Random) -> Event {
    let soon = |random: &mut Random| {
        let most = 1 << random.below(8);
        random.below(most)
    };
    match random.below(14) {
        0..=2 => Event::Kill,
        3..=5 => Event::PowerCut,
        6 => Event::Stop,
        7 => Event::Fails(soon(random)),
        8 => Event::SyncFails(soon(random)),
        9 => Event::Full(random.below(4_000)),
        10 => Event::StateFails(soon(random)),
        11 => Event::StateSyncFails(soon(random)),
        12 => Event::StateFull(random.below(4_000)),
        _ => Event::Jump(random.below(7_200_000_000) as i64 - 3_600_000_000),
    }
}

impl LifePlan {
    /// A life with or without misfortune.
    pub(crate) fn of(
        random: &mut Random,
        faults: &mut Faults,
        (job, pace): (&SimJob, &SimPace),
        is_last: bool,
    ) -> Self {
        let mut events = Vec::new();
        for _ in 0..if is_last { 0 } else { 1 + random.below(4) } {
            let at = moment(random, pace);
            let event = event(random);
            events.push((at, event));
            // Space comes back, or it does not. A job waits for its own disk for ever.
            if random.below(2) == 0 || matches!(event, Event::Full(_)) {
                let again = at + moment(random, pace);
                match event {
                    Event::Full(_) => events.push((again, Event::Room)),
                    Event::StateFull(_) => events.push((again, Event::StateRoom)),
                    _ => {}
                }
            }
        }
        if !is_last && random.below(8) == 0 {
            let (after, count) = (random.below(20), 1 + random.below(3));
            events.push((0, Event::StateReadsFail(after, count)));
        }
        if !is_last && random.below(8) == 0 {
            let (after, count) = (random.below(8), 1 + random.below(3));
            events.push((0, Event::ReadsFail(after, count)));
        }
        events.sort_by_key(|(at, _)| *at);
        let mut requests: Vec<_> = (0..random.below(5))
            .map(|_| {
                let request = match random.below(6) {
                    0..=2 => JobRequest::Rescale(1 + random.below(4) as usize),
                    3 => JobRequest::Keep,
                    4 => JobRequest::Delete,
                    _ => JobRequest::Second,
                };
                (moment(random, pace), request)
            })
            .collect();
        requests.sort_by_key(|(at, _)| *at);
        Self {
            workers: 1 + random.below(4) as usize,
            // Keys are read alone where the life before was one of the last two as well.
            recovery: match random.below(6) {
                0 => Recovery::Eager,
                1 | 2 => Recovery::Prefetch,
                _ => Recovery::Lazy,
            },
            every: Span(1 << (5 + random.below(9))),
            from_kept: random.below(3) == 0,
            begins: random.below(2) == 0,
            flush_bytes: ByteSize(1 << (10 + random.below(12))),
            file_bytes: ByteSize(1 << (10 + random.below(12))),
            events,
            requests,
            fault: faults.next(job).filter(|_| !is_last),
            ends_dark: random.below(2) == 0,
        }
    }
}
