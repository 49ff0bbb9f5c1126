//! A map whose entries leave memory, against a model and against one whose entries stay.

use super::*;
use crate::structure::{self, Map};
use crate::testing::run_of;
use crate::{Delta, visit_entries};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_env::sync::Mutex;

type Step = (u8, u8, u8);
type Slice = Map<u8, Vec<u8>>;
type Model = BTreeMap<u8, Vec<u8>>;

/// The runs of the newest complete checkpoint.
#[derive(Default)]
struct Complete(Mutex<Vec<Bytes>>);

impl ReadRows for Complete {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        let runs = self.0.lock().expect("no panic while held").clone();
        let mut found = None;
        let read = visit_entries(&runs, &mut |it, value| {
            found = (it == key).then(|| value.to_vec()).or(found.take());
            Ok(())
        });
        let failed = |error: SavedError| ReadError::Failed(error.to_string());
        read.map_err(failed)?;
        found.ok_or_else(|| failed(SavedError::new("it is not there")))
    }
}

/// A map whose entries may leave, with what it should hold.
struct Work {
    slice: Slice,
    model: Model,
    complete: Arc<Complete>,
    counts: Arc<ExpiryCounts>,
}

impl Work {
    fn new(complete: &Arc<Complete>, restored_bytes_max: usize) -> Self {
        let mut work = Self {
            slice: Slice::default(),
            model: Model::new(),
            complete: Arc::clone(complete),
            counts: Arc::default(),
        };
        let rows: Arc<dyn ReadRows> = Arc::clone(&work.complete) as Arc<dyn ReadRows>;
        structure::track(&mut work.slice);
        let saved = SavedRows::new(rows, Arc::clone(&work.counts), restored_bytes_max);
        expires(&mut work.slice, &saved);
        work
    }

    fn expired(&self) -> u64 {
        self.counts.expired.load(Ordering::Relaxed)
    }

    /// Does the same to both; what they answer must be the same.
    fn step(&mut self, (what, which, value): Step) {
        let (key, bytes) = (which % 48, vec![value; usize::from(value)]);
        let (slice, model) = (&mut self.slice, &mut self.model);
        match what % 12 {
            0..3 => assert_eq!(slice.set(key, bytes.clone()), model.insert(key, bytes)),
            3 => assert_eq!(slice.delete(&key), model.remove(&key)),
            4 => {
                slice.get_or_default(key).push(value);
                model.entry(key).or_default().push(value);
            }
            5 if which < 8 => {
                slice.retain(|_, held| held.len() % 5 != usize::from(value % 5));
                model.retain(|_, held| held.len() % 5 != usize::from(value % 5));
            }
            6 if which < 2 => {
                slice.clear();
                model.clear();
            }
            7 => {
                let (held, of_model) = (slice.get_mut(&key), model.get_mut(&key));
                assert_eq!(held, of_model);
                held.into_iter().chain(of_model).for_each(|it| it.push(1));
            }
            _ => assert_eq!(slice.get(&key), model.get(&key)),
        }
        assert_eq!(slice.len(), model.len());
    }

    /// What somebody sees who looks: nothing comes back for it.
    fn looked_at(&self) -> Model {
        let (expired, mut seen) = (self.expired(), Model::new());
        let key_of = |shown: &structure::columns::ColumnValue| match shown {
            structure::columns::ColumnValue::UInt(key) => *key as u8,
            other => panic!("a key and not {other:?}"),
        };
        structure::Structure::show(&self.slice, &mut |row| {
            let structure::columns::ColumnValue::Text(value) = &row[1] else { panic!("{row:?}") };
            seen.insert(key_of(&row[0]), serde_json::from_str(value).expect("a list"));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(self.expired(), expired);
        seen
    }

    fn contents(&self) -> Model {
        self.slice.iter().map(|(key, value)| (*key, value.clone())).collect()
    }
}

/// Works, with checkpoints that are written out while work goes on and entries leave.
fn check(steps: &[Step]) -> u64 {
    let mut work = Work::new(&Arc::default(), usize::MAX);
    let (mut expired_most, mut under_way) = (0, None::<(Delta, Model)>);
    for step in steps.iter().copied() {
        match (step.0 % 8, under_way.take()) {
            (7, None) => {
                // As the engine does: the checkpoint before is complete.
                if step.1 % 2 == 0 {
                    begin_expiry(&mut work.slice);
                }
                structure::freeze(&mut work.slice);
                under_way = Some((Delta::default(), work.model.clone()));
            }
            (7, Some((mut delta, frozen))) => {
                if structure::drain(&mut work.slice, &mut delta, usize::from(step.1 % 32)) {
                    let mut runs = work.complete.0.lock().expect("no panic while held");
                    runs.push(run_of(&mut delta).into());
                    if step.2 % 4 == 0 {
                        *runs = vec![crate::merge(&std::mem::take(&mut *runs)).unwrap().into()];
                    }
                    let saved = runs.clone();
                    drop(runs);
                    // Who goes on has it all, in memory or not.
                    let mut restored = Work::new(&work.complete, usize::from(step.2) * 4);
                    structure::restore(&mut restored.slice, &saved).unwrap();
                    assert_eq!(restored.slice.len(), frozen.len());
                    assert_eq!(restored.looked_at(), frozen);
                    expired_most = expired_most.max(restored.expired());
                    assert_eq!(restored.contents(), frozen);
                } else {
                    under_way = Some((delta, frozen));
                }
            }
            (6, before) => {
                under_way = before;
                expire(&mut work.slice, &mut usize::from(step.1 % 16));
                expired_most = expired_most.max(work.expired());
            }
            (_, before) => {
                under_way = before;
                work.step(step);
            }
        }
    }
    assert_eq!(work.looked_at(), work.model);
    assert_eq!(work.contents(), work.model);
    let Work { slice, counts, .. } = work;
    drop(slice);
    assert_eq!(counts.expired.load(Ordering::Relaxed), 0, "nothing is away of what is not there");
    expired_most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_expires_is_part_of_the_state_as_before(
        steps in prop::collection::vec(any::<Step>(), 0..400),
    ) {
        check(&steps);
    }
}

/// A checkpoint of what changed is complete.
fn complete(work: &mut Work) {
    structure::freeze(&mut work.slice);
    let mut delta = Delta::default();
    assert!(structure::drain(&mut work.slice, &mut delta, usize::MAX));
    work.complete.0.lock().expect("no panic while held").push(run_of(&mut delta).into());
}

#[test]
fn what_is_not_used_leaves_and_what_is_stays() {
    let mut work = Work::new(&Arc::default(), usize::MAX);
    for key in 0..40 {
        work.slice.set(key, vec![key; 10_000]);
        work.model.insert(key, vec![key; 10_000]);
    }
    let full = structure::memory(&mut work.slice);
    begin_expiry(&mut work.slice);
    assert!(expire(&mut work.slice, &mut 100));
    assert_eq!(work.expired(), 0, "nothing of it is saved");
    complete(&mut work);
    // Changed the one, and only read the other.
    work.step((7, 3, 0));
    assert_eq!(work.slice.get(&5), work.model.get(&5));
    begin_expiry(&mut work.slice);
    assert!(!expire(&mut work.slice, &mut 30), "there are more");
    assert!(expire(&mut work.slice, &mut 30));
    assert_eq!(work.expired(), 38, "all but those that were used");
    assert!(structure::memory(&mut work.slice) < full / 3);
    assert_eq!(work.looked_at(), work.model);
    assert_eq!(work.counts.revived.load(Ordering::Relaxed), 0);
    // Each is read once, however often it is used.
    for _ in 0..3 {
        work.step((7, 7, 0));
        assert_eq!(work.slice.get(&9), work.model.get(&9));
    }
    assert_eq!(work.counts.revived.load(Ordering::Relaxed), 2);
    assert_eq!(work.slice.get(&200), None);
    assert_eq!(work.counts.revived.load(Ordering::Relaxed), 2, "nothing is read for nothing");
    assert_eq!(work.contents(), work.model);
}

#[test]
fn what_cannot_be_read_back_says_so() {
    let mut work = Work::new(&Arc::default(), usize::MAX);
    work.step((0, 1, 9));
    complete(&mut work);
    for _ in 0..2 {
        begin_expiry(&mut work.slice);
        expire(&mut work.slice, &mut 10);
    }
    assert_eq!(work.expired(), 1);
    work.complete.0.lock().expect("no panic while held").clear();
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.slice.delete(&1)));
    let panic = used.expect_err("it cannot be read");
    let not_read = panic.downcast_ref::<UnreadableState>().expect("and says so");
    assert!(not_read.0.contains("it is not there"), "{}", not_read.0);
    assert_eq!((work.slice.len(), work.expired()), (1, 1), "it is there still");
}
