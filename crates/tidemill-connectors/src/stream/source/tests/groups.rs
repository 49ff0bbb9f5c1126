//! A job begins where a consumer group stands, and puts the group where its results are.

use super::*;
use crate::{StreamGroup, Transactions};
use std::sync::mpsc;
use tidemill_log::StreamSpec;

type Offsets = Vec<(u32, i64)>;

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
    fn offsets(&self, streamlets: u32) -> Result<Vec<Option<i64>>, String> {
        if self.alive {
            return Err("it has members".to_owned());
        }
        let mut committed = self.committed.lock().unwrap().clone();
        committed.resize(streamlets as usize, None);
        Ok(committed)
    }

    fn commit(&self, offsets: &[(u32, i64)]) {
        if let Some(told) = &*self.told.lock().unwrap() {
            told.send(offsets.to_vec()).unwrap();
        }
    }
}

fn by_group() -> StreamSourceSpec {
    StreamSourceSpec {
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
    spec: StreamSourceSpec,
) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
    let node: Arc<dyn StreamNode> = Arc::new(Node(Arc::new(group)));
    StreamSource::new(&sim.world, log, Some(&node), "s", spec)
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
        let source = source(&sim, &log, group, StreamSourceSpec { note, resume, ..by_group() })?;
        let starts = [0, 1, 2].map(|it| source.open(it).unwrap().position().0);
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
    let error = StreamSource::new(&sim.world, &log, None, "s", by_group()).err().unwrap();
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
    assert!(source.follows());
    source.committed(0, Position(4));
    assert_eq!(hears.recv().unwrap(), [(0, 4)]);
    for offset in 1..100 {
        source.committed(0, Position(4 + offset));
        source.committed(1, Position(offset));
    }
    drop(source);
    let commits: Vec<Offsets> = hears.iter().collect();
    let last = |streamlet| commits.iter().flatten().rfind(|it| it.0 == streamlet).unwrap().1;
    assert_eq!((last(0), last(1)), (103, 99));
    for streamlet in [0, 1] {
        let offsets: Vec<i64> =
            commits.iter().flatten().filter(|it| it.0 == streamlet).map(|it| it.1).collect();
        assert!(offsets.is_sorted(), "{offsets:?}");
    }
}

#[test]
fn without_a_group_nothing_follows() {
    let sim = World::simulated(1);
    let log = log(&sim);
    log.create("s", StreamSpec::default()).unwrap();
    let source = StreamSource::new(&sim.world, &log, None, "s", spec(Format::Text)).unwrap();
    assert!(!source.follows());
}
