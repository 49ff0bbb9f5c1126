//! Upkeep of a node every few seconds: retention, and notes of jobs that were put off.
//!
//! One round after the other, on a thread that may block; the wait between two ends when the node
//! stops, a round that is under way is waited for.

use crate::jobs::Jobs;
use std::{sync::Arc, time::Duration};
use tidemill_env::World;
use tidemill_log::Log;
use tidemill_types::Micros;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// The rounds of a node.
pub(super) struct Upkeep {
    stop: watch::Sender<bool>,
    rounds: JoinHandle<()>,
}

impl Upkeep {
    /// Begins the rounds; the first is after `every`.
    pub(super) fn start(
        world: &World,
        (log, jobs): (&Arc<Log>, &Arc<Jobs>),
        every: Duration,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let of = (Arc::clone(log), Arc::clone(jobs));
        let rounds = tokio::spawn(rounds(world.clone(), of, every, stopped));
        Self { stop, rounds }
    }

    /// Ends them.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        let _ended = self.rounds.await;
    }
}

async fn rounds(
    world: World,
    (log, jobs): (Arc<Log>, Arc<Jobs>),
    every: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    while timeout(every, stopped.wait_for(|it| *it)).await.is_err() {
        let now = Micros(world.clock.wall_micros());
        let (log, jobs) = (Arc::clone(&log), Arc::clone(&jobs));
        let round = move || {
            let removed = log.maintain(now);
            jobs.note_again();
            removed
        };
        match tokio::task::spawn_blocking(round).await {
            Ok(Ok(0)) => {}
            Ok(Ok(segments)) => tracing::info!(segments, "retention removed segments"),
            Ok(Err(error)) => tracing::warn!(%error, "retention failed; it is tried again"),
            Err(error) => tracing::error!(%error, "retention panicked"),
        }
    }
}
