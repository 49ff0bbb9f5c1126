//! Offsets of groups beside the protocol: durable, of one stream, and seen by clients.

use super::*;
use crate::BrokerSettings;
use std::sync::Arc;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

fn open(folder: &tempfile::TempDir) -> (Arc<Log>, Arc<Broker>) {
    let world = World::real();
    let log = Log::open(&world, &folder.path().join("log"), LogOptions::default()).unwrap();
    let log = Arc::new(log);
    let settings = BrokerSettings::default();
    let broker = Broker::open(&world, Arc::clone(&log), folder.path(), settings).unwrap();
    (log, broker)
}

fn offsets(of: &[(u32, i64)]) -> BTreeMap<StreamletIx, Offset> {
    of.iter().map(|(streamlet, offset)| (StreamletIx(*streamlet), Offset(*offset))).collect()
}

#[test]
fn offsets_are_those_of_the_group_and_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let (log, broker) = open(&folder);
    let spec = StreamSpec { streamlets: 2, ..StreamSpec::default() };
    let (one, other) =
        (log.create("one", spec.clone()).unwrap(), log.create("other", spec).unwrap());
    assert_eq!(broker.group_offsets("g", &one).unwrap(), BTreeMap::new());
    broker.commit_group_offsets("g", &one, &offsets(&[(0, 5)])).unwrap();
    broker.commit_group_offsets("g", &one, &offsets(&[(1, 7), (0, 6)])).unwrap();
    broker.commit_group_offsets("h", &one, &offsets(&[(0, 1)])).unwrap();
    let expected = offsets(&[(0, 6), (1, 7)]);
    assert_eq!(broker.group_offsets("g", &one).unwrap(), expected);
    assert_eq!(broker.group_offsets("g", &other).unwrap(), BTreeMap::new());
    broker.close();
    log.close();

    let (log, broker) = open(&folder);
    let one = log.get("one").unwrap();
    assert_eq!(broker.group_offsets("g", &one).unwrap(), expected, "they are durable");
    broker.delete_stream("one").unwrap();
    let again = log.create("one", StreamSpec::default()).unwrap();
    assert_eq!(broker.group_offsets("g", &again).unwrap(), BTreeMap::new(), "it is another stream");
    broker.close();
    let refused = broker.commit_group_offsets("g", &again, &offsets(&[(0, 1)]));
    assert!(matches!(refused, Err(GroupError::Refused(_))), "{refused:?}");
    log.close();
}
