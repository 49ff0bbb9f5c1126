//! A backend of checkpoints on a server: what all kinds of servers have in common.
//!
//! Nothing here knows a protocol.

#[cfg(test)]
pub(crate) mod tests;

use crate::{
    hbase::HbaseTable,
    object::ObjectPlace,
    owner::{self, Identity},
    redis::RedisStore,
    sealed::{SEAL_BYTES, unseal},
    store::{Changes, Store},
};
use bytes::Bytes;
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};
use tidemill_checkpoints::{Backend, BackendError, WriteBatch};
use tidemill_env::World;
use tidemill_types::job::{HbaseSpec, ObjectStoreSpec, RedisSpec};

/// Longest key, in bytes: its name in a bucket is in hexadecimal digits.
const KEY_BYTES_MAX: usize = 120;
/// How long a server that cannot be reached is asked again while a backend is opened: it may be
/// starting too, after a power cut for instance.
const OPEN_US: u64 = 10_000_000;
/// Keys that are deleted at once when all are.
const CLEARED_AT_ONCE: usize = 10_000;
/// The time from one try to the next.
const OPEN_AGAIN_US: u64 = 500_000;

/// Whose checkpoints are kept.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The job's name: letters, digits, `-` and `_`.
    pub name: &'a str,
    /// Where its id is kept; one process has it.
    pub folder: &'a Path,
}

/// A backend on a server.
pub struct RemoteBackend {
    store: Box<dyn Store>,
    identity: Identity,
    /// One commit at a time.
    commits: Mutex<()>,
}

impl RemoteBackend {
    /// Opens what a Redis server keeps for a job.
    ///
    /// # Errors
    /// The server's, or the place is another's. A server that cannot be reached is tried for ten
    /// seconds.
    pub fn redis(spec: &RedisSpec, job: Job<'_>, world: &World) -> Result<Self, BackendError> {
        let identity = Identity::open(world, job.folder)?;
        Self::open(Box::new(RedisStore::new(spec, job.name)?), identity, world)
    }

    /// Opens what a bucket of an object store keeps for a job.
    ///
    /// # Errors
    /// As [`Self::redis`].
    pub fn bucket(
        spec: &ObjectStoreSpec,
        job: Job<'_>,
        world: &World,
    ) -> Result<Self, BackendError> {
        let identity = Identity::open(world, job.folder)?;
        Self::open(Box::new(ObjectPlace::new(spec, job.name)?), identity, world)
    }

    /// Opens what a table of HBase keeps for a job.
    ///
    /// # Errors
    /// As [`Self::redis`].
    pub fn hbase(spec: &HbaseSpec, job: Job<'_>, world: &World) -> Result<Self, BackendError> {
        let identity = Identity::open(world, job.folder)?;
        Self::open(Box::new(HbaseTable::new(spec, job.name)?), identity, world)
    }

    /// Takes the place for this job, or finds that it has it.
    pub(crate) fn open(
        store: Box<dyn Store>,
        identity: Identity,
        world: &World,
    ) -> Result<Self, BackendError> {
        let until_us = world.clock.monotonic_micros() + OPEN_US;
        let backend = Self { store, identity, commits: Mutex::default() };
        loop {
            match backend.claim() {
                Err(BackendError::Unreachable { .. })
                    if world.clock.monotonic_micros() < until_us =>
                {
                    world.clock.sleep_micros(OPEN_AGAIN_US);
                }
                outcome => return outcome.map(|()| backend),
            }
        }
    }

    fn claim(&self) -> Result<(), BackendError> {
        if self.store.owner()?.is_none() {
            self.store.claim(&self.identity.record())?;
        }
        // Of two that claim it at once, one is the owner.
        self.check_owner(self.store.owner()?.as_deref())
    }

    fn check_owner(&self, found: Option<&[u8]>) -> Result<(), BackendError> {
        let place = || self.store.place().to_owned();
        match found {
            Some(record) if self.identity.is_in(record) => Ok(()),
            Some(record) => {
                let (owner, free) = (owner::described(record), self.store.how_to_free());
                let why = format!(
                    "its owner is {owner}. Give this job another name or place; or, if that one \
                     is gone for good, {free}"
                );
                Err(BackendError::Taken { place: place(), why })
            }
            None => {
                let why = "the record of its owner is gone. Start the job again: it takes what \
                           is there"
                    .to_owned();
                Err(BackendError::Lost { place: place(), why })
            }
        }
    }
}

impl Backend for RemoteBackend {
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        batch.check()?;
        let changes = Changes::of(batch);
        let value_max = self.store.value_bytes_max() - SEAL_BYTES;
        for (key, value) in batch.changes() {
            if key.len() > KEY_BYTES_MAX {
                return Err(BackendError::KeyTooLong { bytes: key.len(), max: KEY_BYTES_MAX });
            }
            if let Some(bytes) = value.map(<[u8]>::len).filter(|bytes| *bytes > value_max) {
                return Err(BackendError::ValueTooLong { bytes, max: value_max });
            }
        }
        if !batch.is_empty() {
            let _commit = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
            self.store.apply(&|found| self.check_owner(found), &changes)?;
        }
        batch.clear();
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let Some(sealed) = self.store.get(key)? else { return Ok(None) };
        unseal(key, &sealed).map(Some).ok_or_else(|| BackendError::WrongValue {
            place: self.store.place().to_owned(),
            key: hex(key),
        })
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let mut keys = self.store.keys(prefix)?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// The record of the owner goes last: until then the place is this one's.
    fn clear(&self) -> Result<(), BackendError> {
        let keys = self.keys(b"")?;
        let _commit = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = |found: Option<&[u8]>| self.check_owner(found);
        for some in keys.chunks(CLEARED_AT_ONCE) {
            let deletes = some.iter().map(Vec::as_slice).collect();
            self.store.apply(&owner, &Changes { puts: Vec::new(), deletes })?;
        }
        self.store.free(&owner)
    }
}

/// Bytes in hexadecimal digits: the order of the names is that of the bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`hex`] was made of.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}
