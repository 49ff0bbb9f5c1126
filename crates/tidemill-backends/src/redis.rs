//! Checkpoints in Redis.
//!
//! ```text
//! PREFIX:JOB:owner        whose it is
//! PREFIX:JOB:mark         how many transactions there were
//! PREFIX:JOB:keys         a sorted set of all keys
//! PREFIX:JOB:value:KEY    a value, sealed
//! ```
//!
//! A batch is one transaction, or several if it is large: first all puts, then all deletions. Each
//! checks the owner and the mark, and is dropped if either changes meanwhile. A mark other than the
//! one left there shows that the server lost acknowledged writes.
//!
//! A full server takes no transaction. Deletions then go through a script, which checks the owner
//! too and leaves the mark as it is: a deletion that the server loses is only repeated later.
//!
//! Not here: clusters of Redis, sentinels.

mod connection;
mod durability;

use crate::{
    seal::seal,
    store::{Changes, OwnerCheck, Store},
};
use bytes::Bytes;
use connection::RedisConnection;
use redis::Pipeline;
use std::{
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tidemill_checkpoints::BackendError;
use tidemill_types::job::RedisSpec;

/// The bytes of values in one transaction, unless a single one is longer.
const TRANSACTION_BYTES: usize = 8 << 20;
/// The changes in one transaction.
const TRANSACTION_CHANGES: usize = 4_096;
/// The keys listed at once.
const PAGE_KEYS: isize = 1_000;
/// The longest string that Redis takes by default.
const VALUE_BYTES_MAX: usize = 512 << 20;

/// A script that deletes the third and all later keys, and members of the sorted set named second,
/// if the key named first, the owner, has the given value.
const DELETES: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for nth = 3, #KEYS do redis.call('UNLINK', KEYS[nth]) end
for nth = 2, #ARGV do redis.call('ZREM', KEYS[2], ARGV[nth]) end
return 1";

/// The place of a job on a Redis server.
pub(crate) struct RedisStore {
    place: String,
    names: RedisNames,
    state: Mutex<RedisState>,
}

struct RedisState {
    link: RedisConnection,
    /// The possible marks: two numbers if the last transaction may or may not have happened.
    mark: Option<RangeInclusive<u64>>,
}

struct RedisNames {
    owner: String,
    mark: String,
    keys: String,
    values: String,
}

impl RedisNames {
    fn value(&self, key: &[u8]) -> Vec<u8> {
        [self.values.as_bytes(), key].concat()
    }
}

impl RedisStore {
    /// Parses the address. Sends no request.
    pub(crate) fn new(spec: &RedisSpec, job: &str) -> Result<Self, BackendError> {
        let under = format!("{}:{job}", spec.prefix);
        let name = |part: &str| format!("{under}:{part}");
        let names = RedisNames {
            owner: name("owner"),
            mark: name("mark"),
            keys: name("keys"),
            values: name("value:"),
        };
        let link = RedisConnection::new(spec, &under)?;
        let place = link.place().to_owned();
        Ok(Self { place, names, state: Mutex::new(RedisState { link, mark: None }) })
    }

    fn state(&self) -> MutexGuard<'_, RedisState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a transaction, if owner and mark are as expected.
    fn transact(
        &self,
        state: &mut RedisState,
        owner: &OwnerCheck<'_>,
        mut changes: Pipeline,
    ) -> Result<(), BackendError> {
        let names = &self.names;
        let mut look = redis::pipe();
        look.cmd("WATCH").arg(&names.owner).arg(&names.mark).ignore();
        look.cmd("GET").arg(&names.owner).cmd("GET").arg(&names.mark);
        let (found, mark): (Option<Vec<u8>>, Option<u64>) = state.link.ask(&look)?;
        owner(found.as_deref())?;
        let (mark, expected) = (mark.unwrap_or(0), state.mark.clone().unwrap_or(0..=0));
        if !expected.contains(&mark) {
            let why = format!(
                "transaction {} was acknowledged, and the server is at {mark}. It lost its last \
                 writes: set `appendonly yes` and `appendfsync always` there, and start the job \
                 again: it takes what is there",
                expected.start()
            );
            return Err(BackendError::Lost { place: self.place.clone(), why });
        }
        changes.cmd("SET").arg(&names.mark).arg(mark + 1).ignore();
        state.mark = Some(mark..=mark + 1);
        // On the connection that watches, or not at all.
        let done: Option<()> = state.link.ask_once(changes.atomic())?;
        done.ok_or_else(|| self.another_wrote())?;
        state.mark = Some(mark + 1..=mark + 1);
        Ok(())
    }

    /// Deletes names, and keys from the set of all, without a transaction.
    fn delete_though_full(
        &self,
        state: &mut RedisState,
        owner: &OwnerCheck<'_>,
        (names, keys): (&[Vec<u8>], &[&[u8]]),
    ) -> Result<(), BackendError> {
        let mut look = redis::pipe();
        look.cmd("GET").arg(&self.names.owner);
        let (found,): (Option<Vec<u8>>,) = state.link.ask(&look)?;
        owner(found.as_deref())?;
        let mut delete = redis::pipe();
        delete.cmd("EVAL").arg(DELETES).arg(2 + names.len());
        delete.arg(&self.names.owner).arg(&self.names.keys).arg(names);
        delete.arg(found.unwrap_or_default()).arg(keys);
        let (is_done,): (bool,) = state.link.ask_once(&delete)?;
        is_done.then_some(()).ok_or_else(|| self.another_wrote())
    }

    fn another_wrote(&self) -> BackendError {
        let why = "another wrote to it at the same time".to_owned();
        BackendError::Refused { place: self.place.clone(), why }
    }
}

impl Store for RedisStore {
    fn place(&self) -> &str {
        &self.place
    }

    fn how_to_free(&self) -> String {
        format!("delete its record: `redis-cli DEL {}`", self.names.owner)
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn owner(&self) -> Result<Option<Bytes>, BackendError> {
        let mut look = redis::pipe();
        look.cmd("GET").arg(&self.names.owner).cmd("GET").arg(&self.names.mark);
        let mut state = self.state();
        let (found, mark): (Option<Vec<u8>>, Option<u64>) = state.link.ask(&look)?;
        let mark = mark.unwrap_or(0);
        // ObjectRequest when the backend is opened only: what is there is where this process begins.
        state.mark = Some(mark..=mark);
        Ok(found.map(Bytes::from))
    }

    fn claim(&self, record: &[u8]) -> Result<(), BackendError> {
        let mut claim = redis::pipe();
        claim.cmd("SET").arg(&self.names.owner).arg(record).arg("NX").ignore();
        let mut state = self.state();
        state.link.ask::<()>(&claim)?;
        state.link.sync()
    }

    fn free(&self, owner: &OwnerCheck<'_>) -> Result<(), BackendError> {
        let (names, mut state) = (&self.names, self.state());
        let mut look = redis::pipe();
        look.cmd("WATCH").arg(&names.owner).ignore().cmd("GET").arg(&names.owner);
        let (found,): (Option<Vec<u8>>,) = state.link.ask(&look)?;
        owner(found.as_deref())?;
        let mut free = redis::pipe();
        free.cmd("DEL").arg(&names.mark).arg(&names.keys).arg(&names.owner).ignore();
        // On the connection that watches, or not at all.
        match state.link.ask_once::<Option<()>>(free.atomic()) {
            Err(error) if is_full(&error) => {
                let all = [&names.mark, &names.keys, &names.owner];
                let all = all.map(|name| name.clone().into_bytes());
                self.delete_though_full(&mut state, owner, (&all, &[]))?;
            }
            done => done?.ok_or_else(|| self.another_wrote())?,
        }
        state.link.sync()
    }

    fn apply(&self, owner: &OwnerCheck<'_>, changes: &Changes<'_>) -> Result<(), BackendError> {
        let mut state = self.state();
        let mut transaction = RedisTransaction::new();
        for (key, value) in &changes.puts {
            if transaction.bytes > 0 && transaction.bytes + value.len() > TRANSACTION_BYTES
                || transaction.changes == TRANSACTION_CHANGES
            {
                self.transact(&mut state, owner, transaction.take())?;
            }
            transaction.put(&self.names, key, value);
        }
        if transaction.changes > 0 {
            self.transact(&mut state, owner, transaction.take())?;
        }
        for deleted in changes.deletes.chunks(TRANSACTION_CHANGES) {
            let values: Vec<_> = deleted.iter().map(|key| self.names.value(key)).collect();
            transaction.delete(&self.names, (&values, deleted));
            match self.transact(&mut state, owner, transaction.take()) {
                Err(error) if is_full(&error) => {
                    self.delete_though_full(&mut state, owner, (&values, deleted))?;
                }
                done => done?,
            }
        }
        state.link.sync()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let mut get = redis::pipe();
        get.cmd("GET").arg(self.names.value(key));
        let (found,): (Option<Vec<u8>>,) = self.state().link.ask(&get)?;
        Ok(found.map(Bytes::from))
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let end = after(prefix).map_or(b"+".to_vec(), |end| [b"(", &end[..]].concat());
        let mut from = [b"[", prefix].concat();
        let mut keys = Vec::new();
        loop {
            let mut page = redis::pipe();
            page.cmd("ZRANGEBYLEX").arg(&self.names.keys).arg(&from).arg(&end);
            page.arg("LIMIT").arg(0).arg(PAGE_KEYS);
            let (found,): (Vec<Vec<u8>>,) = self.state().link.ask(&page)?;
            let Some(last) = found.last() else { return Ok(keys) };
            from = [b"(", &last[..]].concat();
            keys.extend(found);
        }
    }
}

/// Returns true if the server is out of memory.
fn is_full(error: &BackendError) -> bool {
    matches!(error, BackendError::Refused { why, .. } if why.contains("OOM"))
}

/// The commands of one transaction.
struct RedisTransaction {
    pipeline: Pipeline,
    changes: usize,
    bytes: usize,
}

impl RedisTransaction {
    fn new() -> Self {
        Self { pipeline: redis::pipe(), changes: 0, bytes: 0 }
    }

    fn put(&mut self, names: &RedisNames, key: &[u8], value: &[u8]) {
        self.pipeline.cmd("SET").arg(names.value(key)).arg(seal(key, value)).ignore();
        self.pipeline.cmd("ZADD").arg(&names.keys).arg(0).arg(key).ignore();
        self.changes += 1;
        self.bytes += value.len();
    }

    fn delete(&mut self, names: &RedisNames, (values, keys): (&[Vec<u8>], &[&[u8]])) {
        self.pipeline.cmd("UNLINK").arg(values).ignore();
        self.pipeline.cmd("ZREM").arg(&names.keys).arg(keys).ignore();
    }

    fn take(&mut self) -> Pipeline {
        std::mem::replace(self, Self::new()).pipeline
    }
}

/// The first string after all that begin with `prefix`; none if there is no such string.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let length = prefix.iter().rposition(|byte| *byte != u8::MAX)? + 1;
    let mut end = prefix[..length].to_vec();
    end[length - 1] += 1;
    Some(end)
}
