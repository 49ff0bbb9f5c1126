//! Many streams at once: two syncs of the whole file system make them durable, however many there
//! are.
//!
//! ```text
//! folders, metadata as `meta.new` ─▶ sync ─▶ renamed to `meta` ─▶ sync ─▶ they are streams
//! ```

use super::Log;
use crate::{error::LogError, log_core::at, meta, options::StreamSpec, stream::Stream};
use std::{collections::BTreeSet, io, sync::Arc};
use tidemill_env::FileSystem;

impl Log {
    /// Makes streams, each as [`Self::create`] does, in much less time than one by one. All that
    /// could be made survive a power cut when this returns.
    pub fn create_all(
        &self,
        asked: Vec<(String, StreamSpec)>,
    ) -> Vec<Result<Arc<Stream>, LogError>> {
        let _one = self.0.change.lock();
        match self.bulk_sync(asked.len()) {
            Some(file_system) => self.create_in_bulk(asked, &*file_system),
            None => asked.into_iter().map(|(name, spec)| self.create_one(&name, spec)).collect(),
        }
    }

    fn create_in_bulk(
        &self,
        asked: Vec<(String, StreamSpec)>,
        file_system: &dyn FileSystem,
    ) -> Vec<Result<Arc<Stream>, LogError>> {
        let mut others = self.streamlet_count();
        let mut names = BTreeSet::new();
        let mut made: Vec<Result<Stream, LogError>> = Vec::with_capacity(asked.len());
        for (name, spec) in asked {
            let streamlets = spec.streamlets;
            let stream = self.check_new(&name, &spec, others).and_then(|()| {
                if names.insert(name.clone()) {
                    self.prepare(&name, &spec)
                } else {
                    Err(LogError::Exists(name))
                }
            });
            others += if stream.is_ok() { streamlets } else { 0 };
            made.push(stream);
        }
        let disk = &*self.0.shared.world.disk;
        let synced = file_system.sync();
        self.fail_all(&mut made, synced);
        for stream in &mut made {
            let settled = stream.as_ref().ok().map(|it| meta::settle(disk, &it.core.folder));
            if let Some(Err(error)) = settled {
                *stream = Err(error);
            }
        }
        if made.iter().any(Result::is_ok) {
            let synced = file_system.sync();
            self.fail_all(&mut made, synced);
        }
        let open = |stream: Stream| {
            stream.open_streamlets(&stream.spec());
            self.add(stream)
        };
        made.into_iter().map(|stream| stream.map(open)).collect()
    }

    /// Puts a stream on the disk, not durably yet.
    fn prepare(&self, name: &str, spec: &StreamSpec) -> Result<Stream, LogError> {
        let disk = &*self.0.shared.world.disk;
        let stream = self.new_stream(name, spec);
        let folder = &stream.core.folder;
        disk.create_dir_all(folder).map_err(at(folder))?;
        let written = meta::prepare(disk, folder, &stream.core.meta(&Default::default(), false));
        if written.is_err() {
            self.discard(&stream);
        }
        written.map(|()| stream)
    }

    /// Discards all streams after a failed sync: none of them is known to be durable.
    fn fail_all(&self, made: &mut [Result<Stream, LogError>], synced: io::Result<()>) {
        let Err(error) = synced else { return };
        for stream in made {
            let Ok(failed) = stream else { continue };
            self.discard(failed);
            *stream = Err(self.not_synced(&error));
        }
    }

    /// Removes the files of a stream that was not made. Files that cannot be removed become a
    /// stream or a finding at the next opening.
    pub(super) fn discard(&self, stream: &Stream) {
        let disk = &*self.0.shared.world.disk;
        let folder = &stream.core.folder;
        let _left = meta::remove(disk, folder).and_then(|()| disk.remove_dir(folder));
    }
}

#[cfg(test)]
mod tests;
