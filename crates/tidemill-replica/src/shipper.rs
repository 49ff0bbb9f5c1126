//! Ships a virtual log to one backup: what to send next, what is under way, what is answered.
//!
//! ```text
//! unopened ── Open ─→ opening ── Accepted ─→ open ── Ship, Ship, … ─→ Accepted ─→ Matched
//!     ↑                  │ time passes, connection lost, Unopened      │
//!     └──────────────────┴───────────── pause, doubled each time ──────┘
//! ```
//!
//! Everything new goes in one write. While the writes that may be under way are, the next gathers.
//!
//! Model: `Ship` and acknowledgements of `tidemill-models`.
//!
//! Invariants:
//! - A write is at most `write_bytes` long, unless its only chunk is longer.
//! - At most `writes_max` writes are under way.
//! - What an answer acknowledges never falls. An answer of another epoch or generation acknowledges nothing.

use crate::backup::BackupAnswer;
use crate::copy_set::CopyId;
use std::collections::VecDeque;
use std::time::Duration;
use tidemill_types::{Incarnation, LogPosition, VirtualLogEpoch};

/// The sizes of the chunks of a virtual log.
pub trait ChunkSizes {
    /// The bytes of the chunk at a position below the end of the log.
    fn bytes(&self, position: LogPosition) -> u64;
}

/// The limits of a shipper.
#[derive(Clone, Copy, Debug)]
pub struct ShipperLimits {
    /// The most bytes of a write, unless one chunk alone is longer.
    pub write_bytes: u64,
    /// The most writes under way.
    pub writes_max: usize,
    /// The time after which a write without an answer is sent again.
    pub answer_timeout: Duration,
    /// The first pause after a failure. It doubles each time.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// The time that a watermark waits for a write to travel with, before it travels alone.
    pub watermark_pause: Duration,
    /// Bytes a second, if the stream is throttled. A write may exceed it and is paid for by a pause.
    pub bytes_per_second: Option<u64>,
}

/// An event of a shipper.
#[derive(Clone, Debug)]
pub enum ShipperEvent {
    /// The leader's log ends here.
    Appended(LogPosition),
    /// The leader's watermark is here.
    Watermark(LogPosition),
    /// The backup has answered.
    Answer(BackupAnswer),
    /// The connection is lost, and all that was under way with it.
    Disconnected,
    /// Time has passed.
    Clock,
}

/// A step that a shipper asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipperAction {
    /// Send an opening from this position on.
    Open {
        /// The first position that the backup is to hold.
        from: LogPosition,
    },
    /// Send these entries in one write.
    Ship {
        /// The first position.
        from: LogPosition,
        /// The position after the last one.
        to: LogPosition,
        /// The leader's watermark.
        watermark: LogPosition,
    },
    /// The backup holds everything up to here.
    Matched(LogPosition),
    /// The backup has not answered for this long. Said once until it answers.
    Silent(Duration),
    /// The backup is of another generation: only a change of set can take it back.
    OtherGeneration(Incarnation),
    /// The backup has promised a higher epoch: this leadership is over.
    Deposed(VirtualLogEpoch),
    /// Call again with [`ShipperEvent::Clock`] at this moment.
    WakeAt(Duration),
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    to: LogPosition,
    watermark: LogPosition,
    sent_at: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Unopened,
    Opening { sent_at: Duration },
    Open,
    Ended,
}

/// Ships a virtual log to one backup. Moments are monotonic time since some fixed one.
#[derive(Debug)]
pub struct Shipper {
    copy: CopyId,
    epoch: VirtualLogEpoch,
    from: LogPosition,
    limits: ShipperLimits,
    link: Link,
    end: LogPosition,
    watermark: LogPosition,
    matched: Option<LogPosition>,
    sent: LogPosition,
    shown: LogPosition,
    under_way: VecDeque<UnderWay>,
    /// The moment since which something is unanswered.
    waits_since: Option<Duration>,
    is_silent: bool,
    /// The moment since which the backup does not know the watermark.
    dark_since: Option<Duration>,
    pause: Duration,
    resume_at: Duration,
}

impl Shipper {
    /// A shipper to a copy that is to hold the log from `from` on. The log ends at `end`.
    #[must_use]
    pub fn new(
        copy: CopyId,
        epoch: VirtualLogEpoch,
        from: LogPosition,
        end: LogPosition,
        limits: ShipperLimits,
        now: Duration,
    ) -> Self {
        Self {
            copy,
            epoch,
            from,
            limits,
            link: Link::Unopened,
            end,
            watermark: LogPosition(0),
            matched: None,
            sent: from,
            shown: LogPosition(0),
            under_way: VecDeque::new(),
            waits_since: None,
            is_silent: false,
            dark_since: None,
            pause: limits.pause,
            resume_at: now,
        }
    }

    /// The copy that is shipped to.
    #[must_use]
    pub fn copy(&self) -> CopyId {
        self.copy
    }

    /// The end of what the copy has acknowledged in this epoch.
    #[must_use]
    pub fn matched(&self) -> Option<LogPosition> {
        self.matched
    }

    /// The steps that an event asks for.
    pub fn on(
        &mut self,
        event: ShipperEvent,
        sizes: &impl ChunkSizes,
        now: Duration,
    ) -> Vec<ShipperAction> {
        let mut actions = Vec::new();
        match event {
            ShipperEvent::Appended(end) => self.end = self.end.max(end),
            ShipperEvent::Watermark(watermark) => self.watermark = self.watermark.max(watermark),
            ShipperEvent::Answer(answer) => self.hear(&answer, now, &mut actions),
            ShipperEvent::Disconnected if self.link != Link::Ended => self.fail(now),
            ShipperEvent::Disconnected | ShipperEvent::Clock => {}
        }
        self.expire(now, &mut actions);
        self.send(sizes, now, &mut actions);
        if matches!(self.link, Link::Opening { .. }) || !self.under_way.is_empty() {
            self.waits_since.get_or_insert(now);
        }
        actions
    }

    fn hear(&mut self, answer: &BackupAnswer, now: Duration, actions: &mut Vec<ShipperAction>) {
        match *answer {
            BackupAnswer::Refused { promised } if promised > self.epoch => {
                self.link = Link::Ended;
                actions.push(ShipperAction::Deposed(promised));
            }
            BackupAnswer::OtherGeneration { generation }
                if generation > self.copy.generation && self.link != Link::Ended =>
            {
                self.link = Link::Ended;
                actions.push(ShipperAction::OtherGeneration(generation));
            }
            BackupAnswer::Accepted { epoch, generation, end } if self.is_own(epoch, generation) => {
                self.alive();
                if matches!(self.link, Link::Opening { .. }) {
                    self.link = Link::Open;
                    self.sent = end;
                }
                self.settle(end);
                if self.matched.is_none_or(|matched| matched < end) {
                    self.matched = Some(end);
                    actions.push(ShipperAction::Matched(end));
                }
            }
            BackupAnswer::Gap { epoch, generation, end } if self.is_own(epoch, generation) => {
                self.alive();
                // What was sent before the gap was lost: all of it goes again.
                if self.link == Link::Open {
                    self.under_way.clear();
                    self.sent = end;
                }
            }
            BackupAnswer::Unopened { epoch, generation }
                if self.is_own(epoch, generation) && self.link == Link::Open =>
            {
                self.fail(now);
            }
            _ => {}
        }
    }

    fn is_own(&self, epoch: VirtualLogEpoch, generation: Incarnation) -> bool {
        self.link != Link::Ended && epoch == self.epoch && generation == self.copy.generation
    }

    fn alive(&mut self) {
        (self.waits_since, self.is_silent, self.pause) = (None, false, self.limits.pause);
    }

    /// Writes up to `end` are no longer under way.
    fn settle(&mut self, end: LogPosition) {
        while self.under_way.front().is_some_and(|write| write.to <= end) {
            let write = self.under_way.pop_front().expect("the front is there");
            self.shown = self.shown.max(write.watermark);
        }
        self.sent = self.sent.max(end);
    }

    /// Begins again with an opening after a pause.
    fn fail(&mut self, now: Duration) {
        self.under_way.clear();
        self.link = Link::Unopened;
        self.resume_at = self.resume_at.max(now + self.pause);
        self.pause = (self.pause * 2).min(self.limits.pause_max);
    }

    fn expire(&mut self, now: Duration, actions: &mut Vec<ShipperAction>) {
        let oldest = match self.link {
            Link::Opening { sent_at } => Some(sent_at),
            Link::Open => self.under_way.front().map(|write| write.sent_at),
            Link::Unopened | Link::Ended => None,
        };
        if oldest.is_some_and(|sent_at| now >= sent_at + self.limits.answer_timeout) {
            self.fail(now);
        }
        let silence = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        if self.link != Link::Ended && !self.is_silent && silence >= self.limits.answer_timeout {
            self.is_silent = true;
            actions.push(ShipperAction::Silent(silence));
        }
    }

    fn send(&mut self, sizes: &impl ChunkSizes, now: Duration, actions: &mut Vec<ShipperAction>) {
        if now < self.resume_at {
            if self.link != Link::Ended {
                actions.push(ShipperAction::WakeAt(self.resume_at));
            }
            return;
        }
        if self.link == Link::Unopened {
            self.link = Link::Opening { sent_at: now };
            actions.push(ShipperAction::Open { from: self.matched.unwrap_or(self.from) });
        }
        while self.link == Link::Open && self.under_way.len() < self.limits.writes_max {
            let from = self.sent;
            let (to, bytes) = self.next_write(sizes);
            let is_dark = self.watermark > self.shown && self.under_way.is_empty();
            self.dark_since = is_dark.then(|| self.dark_since.unwrap_or(now));
            let is_due = |since| now >= since + self.limits.watermark_pause;
            if to == from && !self.dark_since.is_some_and(is_due) {
                break;
            }
            self.sent = to;
            self.under_way.push_back(UnderWay { to, watermark: self.watermark, sent_at: now });
            actions.push(ShipperAction::Ship { from, to, watermark: self.watermark });
            if let Some(rate) = self.limits.bytes_per_second {
                let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
                self.resume_at =
                    now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                if self.resume_at > now {
                    break;
                }
            }
        }
        self.wake(now, actions);
    }

    /// The end of the next write and its bytes.
    fn next_write(&self, sizes: &impl ChunkSizes) -> (LogPosition, u64) {
        let (mut to, mut bytes) = (self.sent, 0u64);
        while to < self.end {
            let more = bytes.saturating_add(sizes.bytes(to));
            if more > self.limits.write_bytes && to > self.sent {
                break;
            }
            (to, bytes) = (LogPosition(to.0 + 1), more);
        }
        (to, bytes)
    }

    fn wake(&self, now: Duration, actions: &mut Vec<ShipperAction>) {
        let timeout = self.limits.answer_timeout;
        let expiry = match self.link {
            Link::Opening { sent_at } => Some(sent_at + timeout),
            Link::Open => self.under_way.front().map(|write| write.sent_at + timeout),
            Link::Unopened | Link::Ended => None,
        };
        let watermark = self.dark_since.map(|since| since + self.limits.watermark_pause);
        let watermark = watermark.filter(|_| self.link == Link::Open && self.under_way.is_empty());
        let resume = (self.resume_at > now && self.link != Link::Ended).then_some(self.resume_at);
        if let Some(moment) = expiry.into_iter().chain(resume).chain(watermark).min() {
            actions.push(ShipperAction::WakeAt(moment));
        }
    }
}

#[cfg(test)]
mod tests;
