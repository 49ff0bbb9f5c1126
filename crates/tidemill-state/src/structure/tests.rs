//! Every structure against a plain model, across the phases of checkpoints.

use super::*;
use crate::testing::run_of;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use tidemill_types::Micros;

/// One step: what to do, and with what.
type Step = (u8, u8, u8);

/// A structure with a model of it.
trait Modelled: State + Default {
    type Model: Clone + Default + PartialEq + Debug;
    /// Does the same to both; what they answer must be the same.
    fn step(&mut self, model: &mut Self::Model, step: Step);
    /// What it holds, in its order.
    fn contents(&self) -> Self::Model;
}

impl Modelled for Map<Vec<u8>, u64> {
    // Values by key; the order is looked at elsewhere.
    type Model = BTreeMap<Vec<u8>, u64>;

    fn step(&mut self, model: &mut Self::Model, (what, which, value): Step) {
        let (key, value) = (vec![which % 40], u64::from(value));
        match what % 10 {
            0..4 => assert_eq!(self.set(key.clone(), value), model.insert(key, value)),
            4..6 => assert_eq!(self.delete(&key), model.remove(&key)),
            6 => {
                *self.get_or_default(key.clone()) += value;
                *model.entry(key).or_default() += value;
            }
            7 => {
                self.retain(|_, held| held % 7 != value % 7);
                model.retain(|_, held| *held % 7 != value % 7);
            }
            8 if which == 0 => {
                self.clear();
                model.clear();
            }
            _ => {
                let (held, of_model) = (self.get_mut(&key), model.get_mut(&key));
                assert_eq!(held, of_model);
                held.into_iter().chain(of_model).for_each(|it| *it = value);
            }
        }
        assert_eq!((self.len(), self.is_empty()), (model.len(), model.is_empty()));
    }

    fn contents(&self) -> Self::Model {
        for (key, value) in self.iter() {
            assert_eq!(self.get(key), Some(value));
        }
        self.iter().map(|(key, value)| (key.clone(), *value)).collect()
    }
}

impl Modelled for Queue<String> {
    type Model = VecDeque<String>;

    fn step(&mut self, model: &mut Self::Model, (what, which, value): Step) {
        match what % 5 {
            0..3 => {
                self.push(value.to_string());
                model.push_back(value.to_string());
            }
            3 if which == 0 => {
                self.clear();
                model.clear();
            }
            _ => assert_eq!(self.pop(), model.pop_front()),
        }
        assert_eq!((self.first(), self.last()), (model.front(), model.back()));
        assert_eq!((self.len(), self.is_empty()), (model.len(), model.is_empty()));
    }

    fn contents(&self) -> Self::Model {
        self.iter().cloned().collect()
    }
}

impl Modelled for Window<u8> {
    type Model = Vec<(Micros, u8)>;

    fn step(&mut self, model: &mut Self::Model, (what, which, value): Step) {
        let time = Micros(i64::from(which) - 100);
        match what % 4 {
            0..3 => {
                self.push(time, value);
                model.push((time, value));
                model.sort_by_key(|(time, _)| *time);
            }
            _ => {
                let first = model.first().copied().filter(|(it, _)| *it < time);
                assert_eq!(self.pop_before(time), first);
                self.evict(time);
                model.retain(|(it, _)| *it >= time);
            }
        }
        assert_eq!((self.len(), self.is_empty()), (model.len(), model.is_empty()));
    }

    fn contents(&self) -> Self::Model {
        self.iter().map(|(time, value)| (time, *value)).collect()
    }
}

impl Modelled for List<i32> {
    type Model = Vec<i32>;

    fn step(&mut self, model: &mut Self::Model, (what, which, value): Step) {
        let (at, value) = (usize::from(which), i32::from(value));
        match what % 8 {
            0..4 => {
                self.push(value);
                model.push(value);
            }
            4..6 => {
                let before = model.get_mut(at).map(|it| std::mem::replace(it, value));
                assert_eq!(self.set(at, value), before);
            }
            6 if which == 0 => {
                self.clear();
                model.clear();
            }
            _ => assert_eq!(self.pop(), model.pop()),
        }
        assert_eq!(self.get(at), model.get(at));
        assert_eq!((self.len(), self.is_empty()), (model.len(), model.is_empty()));
    }

    fn contents(&self) -> Self::Model {
        self.iter().copied().collect()
    }
}

impl Modelled for Value<BTreeMap<u8, u8>> {
    type Model = BTreeMap<u8, u8>;

    fn step(&mut self, model: &mut Self::Model, (what, which, value): Step) {
        match what % 4 {
            0 => assert_eq!(self.set(BTreeMap::new()), std::mem::take(model)),
            _ => assert_eq!(self.get_mut().insert(which, value), model.insert(which, value)),
        }
    }

    fn contents(&self) -> Self::Model {
        self.get().clone()
    }
}

/// Works, with checkpoints that are written out while work goes on, and restores each of them.
fn check<S: Modelled>(steps: &[Step]) {
    let (mut state, mut model) = (S::default(), S::Model::default());
    track(&mut state);
    let mut runs: Vec<Vec<u8>> = Vec::new();
    let mut under_way: Option<(Delta, S::Model)> = None;
    for (number, step) in steps.iter().copied().enumerate() {
        if step.0 % 16 == 15 {
            match under_way.take() {
                None => {
                    freeze(&mut state);
                    under_way = Some((Delta::default(), model.clone()));
                }
                Some((mut delta, frozen)) => {
                    if !drain(&mut state, &mut delta, usize::from(step.1 % 8)) {
                        // In pieces: a run of its own for what is there so far.
                        if step.2 % 2 == 0 && !delta.is_empty() {
                            runs.push(run_of(&mut delta));
                        }
                        under_way = Some((delta, frozen));
                        continue;
                    }
                    runs.push(run_of(&mut delta));
                    let mut restored = S::default();
                    track(&mut restored);
                    restore(&mut restored, &runs).unwrap();
                    assert_eq!(restored.contents(), frozen);
                    if step.2 % 4 == 0 {
                        runs = vec![crate::merge(&std::mem::take(&mut runs)).unwrap()];
                    }
                    // The restored one goes on as the first one does.
                    let mut model = frozen;
                    for step in steps[number..].iter().filter(|step| step.0 % 16 != 15) {
                        restored.step(&mut model, *step);
                        assert_eq!(restored.contents(), model);
                    }
                }
            }
        } else {
            state.step(&mut model, step);
            assert_eq!(state.contents(), model);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_checkpoint_has_what_was_there_when_it_began(
        steps in prop::collection::vec(any::<Step>(), 0..250),
    ) {
        check::<Map<Vec<u8>, u64>>(&steps);
        check::<Queue<String>>(&steps);
        check::<Window<u8>>(&steps);
        check::<List<i32>>(&steps);
        check::<Value<BTreeMap<u8, u8>>>(&steps);
    }

    #[test]
    fn bytes_that_are_no_run_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut state = Map::<u64, String>::default();
        // Any of it may fail, nothing may panic, and nothing may take more memory than it is long.
        drop(restore(&mut state, &[&bytes]));
        drop(crate::merge(&[bytes]));
    }
}

/// Two structures with entries under the same keys.
#[derive(Default)]
struct Two {
    first: Map<u32, u32>,
    second: List<u32>,
}

impl State for Two {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.first, &mut self.second]
    }
}

#[test]
fn structures_of_a_state_do_not_mix() {
    let mut two = Two::default();
    track(&mut two);
    for number in 0..100 {
        two.first.set(number, number);
        two.second.push(number * 2);
    }
    freeze(&mut two);
    let mut delta = Delta::default();
    let mut times = 0;
    while !drain(&mut two, &mut delta, 7) {
        // The list is put aside when it is cleared.
        let aside = if times > 0 { 100 } else { 0 };
        assert!(delta.len() <= 7 * (times + 1) + aside, "no more than was asked for");
        times += 1;
        two.second.clear();
        two.first.delete(&(times as u32));
    }
    assert!(times >= 14, "{times}");
    let mut restored = Two::default();
    restore(&mut restored, &[run_of(&mut delta)]).unwrap();
    assert!(
        restored.first.iter().map(|(key, value)| (*key, *value)).eq((0..100).map(|it| (it, it)))
    );
    assert!(restored.second.iter().copied().eq((0..100).map(|it| it * 2)));
}

#[test]
fn the_bytes_follow_the_changes() {
    let mut map = Map::<u64, [u8; 16]>::default();
    track(&mut map);
    let run = |map: &mut Map<u64, [u8; 16]>| {
        freeze(map);
        let mut delta = Delta::default();
        assert!(drain(map, &mut delta, usize::MAX));
        run_of(&mut delta).len()
    };
    (0..10_000).for_each(|key| assert_eq!(map.set(key, [1; 16]), None));
    let all = run(&mut map);
    (0..10).for_each(|key| assert_eq!(map.set(key * 31, [2; 16]), Some([1; 16])));
    let some = run(&mut map);
    // A thousandth of the rows, and what a run says before the first of them.
    assert!(some <= all / 1_000 + 40, "{some} of {all} bytes");
    assert_eq!(run(&mut map), 8, "nothing has changed");
}

/// A value that says itself what it is, which nothing that is saved does.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
}

/// One that is saved with what it has.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Skipped {
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    second: u64,
}

/// One that cannot say how much it has.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Flattened {
    #[serde(flatten)]
    all: BTreeMap<String, u64>,
}

/// What a state with such a value says when it is saved.
fn refused<T: Plain>(value: T) -> String {
    let mut state = Map::<u64, T>::default();
    track(&mut state);
    state.set(1, value);
    freeze(&mut state);
    let saves = std::panic::AssertUnwindSafe(|| drain(&mut state, &mut Delta::default(), 10));
    let unwound = std::panic::catch_unwind(saves).expect_err("it cannot be saved");
    unwound.downcast::<UnreadableState>().expect("an error, and no panic").0
}

#[test]
fn what_could_not_be_read_again_is_refused_when_it_is_saved() {
    let skipped = Skipped { first: None, second: 7 };
    let flattened = Flattened { all: BTreeMap::new() };
    for message in [refused(Untagged::Number(5)), refused(skipped), refused(flattened)] {
        assert!(message.starts_with("a value of the type `(u64, tidemill_state::"), "{message}");
        assert!(message.contains("cannot be saved and read again"), "{message}");
    }
}
