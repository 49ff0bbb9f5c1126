//! A stream: its streamlets under one name.

use crate::{
    epoch_journal::StreamletEpochs,
    error::LogError,
    ids::StreamId,
    log_core::LogCore,
    meta,
    options::{Fsync, StreamSpec},
    recover::RecoveredStreamlet,
    role::{StartRole, StreamletRole},
    streamlet::{StreamCore, Streamlet},
};
use std::sync::Arc;
use tidemill_env::lock::RwLock;
use tidemill_types::{GroupIx, StreamletIx};

/// Streamlets under a name.
pub struct Stream {
    pub(crate) core: Arc<StreamCore>,
    pub(crate) shared: Arc<LogCore>,
    pub(crate) streamlets: RwLock<Vec<Arc<Streamlet>>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({} {})", self.core.name, self.core.id)
    }
}

impl Stream {
    /// The id, which no other stream ever has.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.core.id
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The settings, now.
    #[must_use]
    pub fn spec(&self) -> StreamSpec {
        self.core.spec()
    }

    /// A streamlet by its number.
    #[must_use]
    pub fn streamlet(&self, index: u32) -> Option<Arc<Streamlet>> {
        let streamlets = self.streamlets.read();
        streamlets.get(index as usize).cloned()
    }

    /// All streamlets, by number.
    #[must_use]
    pub fn streamlets(&self) -> Vec<Arc<Streamlet>> {
        self.streamlets.read().clone()
    }

    /// The role of this node for each streamlet, by number.
    #[must_use]
    pub fn roles(&self) -> Vec<StreamletRole> {
        self.streamlets.read().iter().map(|it| it.role()).collect()
    }

    /// Puts a streamlet in the place of the one of its number.
    pub(crate) fn replace(&self, streamlet: &Arc<Streamlet>) {
        let mut streamlets = self.streamlets.write();
        if let Some(place) = streamlets.get_mut(streamlet.index.0 as usize) {
            *place = Arc::clone(streamlet);
        }
    }

    /// Writes these settings to the disk, then uses them. Earlier chunks are as durable as the
    /// settings ask when this returns. A stream that `is_new` may not use the disk reserve.
    pub(crate) fn apply(&self, spec: StreamSpec, is_new: bool) -> Result<(), LogError> {
        let disk = &*self.shared.world.disk;
        let fsync = |spec: &StreamSpec| spec.fsync.unwrap_or(self.shared.options.fsync);
        let before = fsync(&self.core.spec());
        {
            let starts = self.core.starts.lock();
            let mut meta = self.core.meta(&starts, false);
            meta.spec = spec.clone();
            match is_new {
                true => meta::write(disk, &self.core.folder, &meta)?,
                false => self.shared.reserve.write(disk, &self.core.folder, &meta)?,
            }
            self.core.set_spec(spec.clone());
        }
        self.open_streamlets(&spec);
        let now = fsync(&spec);
        if now != before && now != Fsync::Os {
            self.expedite(now);
        }
        Ok(())
    }

    /// Syncs earlier chunks: after a power cut that loses one of them, later acknowledged ones
    /// would be cut.
    fn expedite(&self, fsync: Fsync) {
        let all: Vec<_> = self.streamlets().into_iter().map(|it| (it.expedite(), it)).collect();
        if fsync == Fsync::Always && self.shared.options.sync_threads > 0 {
            all.iter().for_each(|(behind, streamlet)| streamlet.wait_synced(behind));
        }
    }

    /// Makes the streamlets that are not there yet, and has all go by these settings.
    pub(crate) fn open_streamlets(&self, spec: &StreamSpec) {
        let mut streamlets = self.streamlets.write();
        for index in streamlets.len() as u32..spec.streamlets {
            let empty = RecoveredStreamlet {
                segments: vec![],
                unsynced: vec![],
                next_group: GroupIx(0),
                start: 0,
                next: 0,
                tail_epochs: vec![],
            };
            let (index, epochs) = (StreamletIx(index), StreamletEpochs::default());
            let first = epochs.history.highest();
            let role = match self.shared.options.role {
                StartRole::Alone => StreamletRole::Leader(first),
                StartRole::Copy => StreamletRole::Copy(first),
            };
            let made = Streamlet::new(&self.shared, &self.core, index, empty, epochs, role);
            streamlets.push(made);
        }
        streamlets.iter().for_each(|it| it.set_active_groups(spec.active_groups));
    }
}
