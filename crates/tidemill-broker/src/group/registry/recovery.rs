//! Groups as the store has them.

use super::{Alarms, GroupCell, GroupRegistry};
use crate::{
    group::{machine::ConsumerGroup, offsets::GroupOffsets},
    settings::GroupSettings,
    store::{MetadataStore, StoreBatch, StoreError, StoreTable},
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, Mutex, RwLock, atomic::AtomicUsize},
};
use tidemill_env::World;
use tidemill_wire::groups::{GroupRecord, OffsetKey, OffsetRecord};

/// The purpose of the random numbers for ids of members.
const RANDOM_PURPOSE: u64 = u64::from_be_bytes(*b"groupids");
/// Under this key stands how long the node has run: 1, then milliseconds, u64 big endian.
const RUNNING_KEY: &[u8] = b"running-ms";

/// Notes how long the node has run.
pub(super) fn put_running_ms(batch: &mut StoreBatch, now_ms: u64) {
    let value = [&[1][..], &now_ms.to_be_bytes()].concat();
    batch.put(StoreTable::Settings, RUNNING_KEY, value);
}

fn running_ms(value: &[u8]) -> Option<u64> {
    let (version, rest) = value.split_first()?;
    (*version == 1).then(|| rest.try_into().map(u64::from_be_bytes).ok())?
}

/// Visits all entries of a table. The visitor returns the damage of a bad one.
fn each(
    store: &MetadataStore,
    table: StoreTable,
    mut visit: impl FnMut(&[u8], &[u8]) -> Option<()>,
) -> Result<(), StoreError> {
    let mut all_good = true;
    store.scan(table, &[], |key, value| {
        all_good &= visit(key, value).is_some();
        if all_good { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if all_good { Ok(()) } else { Err(store.unreadable(table)) }
}

impl GroupRegistry {
    /// All groups of the store. Members that were in one still are; their sessions begin now.
    ///
    /// # Errors
    /// The store cannot be read, or has forms that this node does not know.
    pub(crate) fn open(
        world: &World,
        store: Arc<MetadataStore>,
        settings: GroupSettings,
    ) -> Result<Arc<Self>, StoreError> {
        let mut groups: BTreeMap<String, GroupRecord> = BTreeMap::new();
        let mut offsets: BTreeMap<String, GroupOffsets> = BTreeMap::new();
        let mut now_ms = 0;
        each(&store, StoreTable::Groups, |key, value| {
            let record = GroupRecord::decode(value).ok()?;
            now_ms = now_ms.max(record.since_ms);
            groups.insert(String::from_utf8(key.to_vec()).ok()?, record);
            Some(())
        })?;
        each(&store, StoreTable::Offsets, |key, value| {
            let (key, record) = (OffsetKey::decode(key)?, OffsetRecord::decode(value).ok()?);
            now_ms = now_ms.max(record.since_ms);
            offsets.entry(key.group).or_default().commit((key.topic, key.partition), record);
            Some(())
        })?;
        each(&store, StoreTable::PendingOffsets, |key, value| {
            let (producer_id, key) = OffsetKey::decode_pending(key)?;
            let record = OffsetRecord::decode(value).ok()?;
            let of_group = offsets.entry(key.group).or_default();
            of_group.stage(producer_id, (key.topic, key.partition), record);
            Some(())
        })?;
        if let Some(value) = store.get(StoreTable::Settings, RUNNING_KEY)? {
            let ran_ms =
                running_ms(&value).ok_or_else(|| store.unreadable(StoreTable::Settings))?;
            now_ms = now_ms.max(ran_ms);
        }
        let opened = Arc::new(Self {
            began_us: world.clock.monotonic_micros(),
            random: Mutex::new(world.random(RANDOM_PURPOSE)),
            world: world.clone(),
            store,
            cells: RwLock::default(),
            alarms: Alarms::default(),
            offset_count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            ran_before_ms: now_ms,
            settings,
        });
        opened.restore(groups, offsets, now_ms);
        Ok(opened)
    }

    fn restore(
        self: &Arc<Self>,
        mut groups: BTreeMap<String, GroupRecord>,
        mut offsets: BTreeMap<String, GroupOffsets>,
        now_ms: u64,
    ) {
        let rules = Self::rules(&self.settings);
        let mut ids: Vec<String> = groups.keys().chain(offsets.keys()).cloned().collect();
        ids.sort();
        ids.dedup();
        let mut cells = BTreeMap::new();
        for id in ids {
            let group = match groups.remove(&id) {
                Some(record) => ConsumerGroup::restored(rules, record, now_ms),
                None => ConsumerGroup::new(rules, now_ms),
            };
            let cell = GroupCell::new(&id, group, offsets.remove(&id).unwrap_or_default());
            {
                let mut inner = cell.lock();
                self.count(&mut inner);
                self.settle(&cell, &mut inner, now_ms);
            }
            cells.insert(id, cell);
        }
        *self.cells.write().unwrap_or_else(std::sync::PoisonError::into_inner) = cells;
    }
}
