//! The common part of all backends on servers.
//!
//! Nothing here knows a protocol.

#[cfg(test)]
pub(crate) mod tests;

use crate::{
    hbase::HbaseTable,
    object::ObjectPlace,
    owner::{self, OwnerIdentity},
    redis::RedisStore,
    seal::{SEAL_BYTES, unseal},
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

/// The longest key, in bytes: its name in a bucket is in hexadecimal digits.
const KEY_BYTES_MAX: usize = 120;
/// The time for which opening retries an unreachable server: it may be starting too, after a power
/// cut for instance.
const OPEN_US: u64 = 10_000_000;
/// The keys of one batch when all are deleted.
const CLEARED_AT_ONCE: usize = 10_000;
/// The pause between two attempts.
const OPEN_AGAIN_US: u64 = 500_000;

/// The job that owns a place on a server.
#[derive(Clone, Copy, Debug)]
pub struct OwnerJob<'a> {
    /// The job's name: letters, digits, `-` and `_`.
    pub name: &'a str,
    /// The folder of its id, which one process locks.
    pub folder: &'a Path,
}

/// A backend on a server.
pub struct RemoteBackend {
    store: Box<dyn Store>,
    identity: OwnerIdentity,
    /// One commit at a time.
    commits: Mutex<()>,
}

impl RemoteBackend {
    /// Opens the place of a job on a Redis server.
    ///
    /// # Errors
    /// An error of the server, or the place has another owner. A server that cannot be reached is
    /// tried for ten seconds.
    pub fn redis(spec: &RedisSpec, job: OwnerJob<'_>, world: &World) -> Result<Self, BackendError> {
        let identity = OwnerIdentity::open(world, job.folder)?;
        Self::open(Box::new(RedisStore::new(spec, job.name)?), identity, world)
    }

    /// Opens the place of a job in a bucket of an object store.
    ///
    /// # Errors
    /// As [`Self::redis`].
    pub fn bucket(
        spec: &ObjectStoreSpec,
        job: OwnerJob<'_>,
        world: &World,
    ) -> Result<Self, BackendError> {
        let identity = OwnerIdentity::open(world, job.folder)?;
        Self::open(Box::new(ObjectPlace::new(spec, job.name)?), identity, world)
    }

    /// Opens the place of a job in a table of HBase.
    ///
    /// # Errors
    /// As [`Self::redis`].
    pub fn hbase(spec: &HbaseSpec, job: OwnerJob<'_>, world: &World) -> Result<Self, BackendError> {
        let identity = OwnerIdentity::open(world, job.folder)?;
        Self::open(Box::new(HbaseTable::new(spec, job.name)?), identity, world)
    }

    /// Claims the place for this job, unless the job has it already.
    pub(crate) fn open(
        store: Box<dyn Store>,
        identity: OwnerIdentity,
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

    /// The record of the owner is deleted last: until then the place stays claimed.
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

/// Encodes bytes as hexadecimal digits, which sort as the bytes do.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes [`hex`].
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}
