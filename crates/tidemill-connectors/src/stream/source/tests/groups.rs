//! A job begins where a consumer group stands, and puts the group where its results are.

use super::*;
use crate::{StreamGroup, Transactions};
use std::{collections::BTreeMap, sync::mpsc};
use tidemill_log::StreamSpec;

type Offsets = BTreeMap<StreamletIx, Offset>;

/// A node with one group.
#[derive(Default)]
struct Group {
    committed: Mutex<Vec<Option<i64>>>,
    alive: bool,
    told: Mutex<Option<mpsc::Sender<Offsets>>>,
}

struct Node(Arc<Group>);

impl StreamNode for Node {
    fn transactions(&self, _: &Arc<Streamlet>) -> Option<Arc<dyn Transactions>> {
        panic!("uncommitted records are read");
    }

    fn group(&self, group: &str, stream: &Arc<Stream>) -> Arc<dyn StreamGroup> {
        assert_eq!((group, stream.name()), ("g", "s"));
        Arc::clone(&self.0) as _
    }
}

impl StreamGroup for Group {
    fn offsets(&self) -> Result<Offsets, String> {
        if self.alive {
            return Err("it has members".to_owned());
        }
        let committed = self.committed.lock().unwrap().clone();
        let committed = (0..).zip(committed).filter_map(|(it, offset)| Some((it, offset?)));
        Ok(committed.map(|(it, offset)| (StreamletIx(it), Offset(offset))).collect())
    }

    fn commit(&self, offsets: &Offsets) {
        if let Some(told) = &*self.told.lock().unwrap() {
            told.send(offsets.clone()).unwrap();
        }
    }
}

fn by_group() -> RecordSourceSpec {
    RecordSourceSpec {
        start: StartSpec::Group("g".to_owned()),
        until: UntilSpec::Never,
        isolation: Isolation::Uncommitted,
        ..spec(Format::Text)
    }
}

fn source(
    sim: &SimWorld,
    log: &Log,
    group: Group,
    spec: RecordSourceSpec,
) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
    let node: Arc<dyn StreamNode> = Arc::new(Node(Arc::new(group)));
    RecordSource::of_stream(&sim.world, log, Some(&node), "s", spec)
}

#[test]
fn a_job_begins_where_the_group_stands() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let stream = log.create("s", StreamSpec { streamlets: 3, ..StreamSpec::default() }).unwrap();
    for index in 0..3 {
        put(&stream.streamlet(index).unwrap(), Compression::NONE, &["a", "b", "c"]);
    }
    let committed =
        |it: &[Option<i64>]| Group { committed: Mutex::new(it.to_vec()), ..Group::default() };
    let at = |group, note: Option<&str>, resume| {
        let note = note.map(PathBuf::from);
        let source = source(&sim, &log, group, RecordSourceSpec { note, resume, ..by_group() })?;
        let starts = [0, 1, 2].map(|it| source.open(SliceId(it)).unwrap().position().0);
        source.begin().unwrap();
        Ok::<_, ConnectorError>(starts)
    };
    assert_eq!(at(committed(&[]), None, false).unwrap(), [0, 0, 0], "it has none");
    let note = Some("/job/source.json");
    assert_eq!(at(committed(&[Some(2), None, Some(3)]), note, false).unwrap(), [2, 0, 3]);
    // The job's own account counts when it resumes, whatever became of the group.
    assert_eq!(at(committed(&[Some(3), Some(3)]), note, true).unwrap(), [2, 0, 3]);
    let alive = || Group { alive: true, ..Group::default() };
    assert_eq!(at(alive(), note, true).unwrap(), [2, 0, 3]);
    let error = at(alive(), None, false).expect_err("it has members");
    assert!(error.message.contains("it has members"), "{error}");
    let error = at(committed(&[None, Some(4)]), None, false).expect_err("it is beyond the end");
    assert!(error.message.contains("offset 4 of streamlet 1, which ends at 3"), "{error}");
    let error = RecordSource::of_stream(&sim.world, &log, None, "s", by_group()).err().unwrap();
    assert!(error.message.contains("no consumer groups here"), "{error}");
}

#[test]
fn the_group_follows_and_has_all_when_the_source_is_gone() {
    let sim = World::simulated(1);
    let log = log(&sim);
    log.create("s", StreamSpec { streamlets: 2, ..StreamSpec::default() }).unwrap();
    let (told, hears) = mpsc::channel();
    let group = Group { told: Mutex::new(Some(told)), ..Group::default() };
    let source = source(&sim, &log, group, by_group()).unwrap();
    let follower = source.follower().expect("the group follows");
    follower.committed(SliceId(0), Position(4));
    assert_eq!(hears.recv().unwrap(), [(StreamletIx(0), Offset(4))].into());
    for offset in 1..100 {
        follower.committed(SliceId(0), Position(4 + offset));
        follower.committed(SliceId(1), Position(offset));
    }
    drop(source);
    let commits: Vec<Offsets> = hears.iter().collect();
    for (streamlet, last) in [(0, 103), (1, 99)] {
        let of = |it: &Offsets| it.get(&StreamletIx(streamlet)).copied();
        let offsets: Vec<Offset> = commits.iter().filter_map(of).collect();
        assert!(offsets.is_sorted(), "{offsets:?}");
        assert_eq!(offsets.last(), Some(&Offset(last)));
    }
}

#[test]
fn without_a_group_nothing_follows() {
    let sim = World::simulated(1);
    let log = log(&sim);
    log.create("s", StreamSpec::default()).unwrap();
    let source = RecordSource::of_stream(&sim.world, &log, None, "s", spec(Format::Text)).unwrap();
    assert!(source.follower().is_none());
}
