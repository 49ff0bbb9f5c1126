//! Sources of a node read what a consumer of committed records reads.

use super::*;
use tidemill_connectors::{RecordSource, RecordSourceSpec};
use tidemill_flow::{Payload, Read, ReadRequest, Source};
use tidemill_log::{AppendOptions, StreamSpec};
use tidemill_types::job::{Format, Isolation, MetaSpec, Named, StartSpec, UntilSpec};
use tidemill_types::{Cycle, SliceId};
use tidemill_wire::records::{ChunkBuilder, Compression, Header, Marker, Origin, control_marker};

fn put(streamlet: &Arc<Streamlet>, chunk: &[u8]) {
    streamlet.append(chunk, AppendOptions::default()).unwrap().wait().unwrap();
}

/// A chunk with one value; of a producer's transaction, if there is a producer.
fn chunk(producer_id: Option<i64>, value: &str) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    if let Some(producer_id) = producer_id {
        let (producer_epoch, base_sequence) = (0, 0);
        let origin = Origin { producer_id, producer_epoch, base_sequence, is_transactional: true };
        builder.set_origin(origin);
    }
    let none: [Header<'_>; 0] = [];
    builder.append(5, None, Some(value.as_bytes()), none.into_iter()).unwrap();
    builder.finish().unwrap()
}

fn rows(world: &World, streams: &Streams, isolation: Isolation) -> usize {
    let spec = RecordSourceSpec {
        format: Format::Text,
        schema: Named::new(),
        sample: None,
        start: StartSpec::Earliest,
        until: UntilSpec::Latest,
        isolation,
        meta: MetaSpec::default(),
        time: None,
        note: None,
        resume: false,
        from_checkpoint: false,
    };
    let node = streams.node();
    let source = RecordSource::of_stream(world, streams.log(), node.as_ref(), "s", spec).unwrap();
    let mut slice: Box<dyn Source> = source.open(SliceId(0)).unwrap();
    let request = ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records: 100, until: None };
    let (mut rows, mut letters) = (0, Vec::new());
    loop {
        match slice.read(&request, &mut letters).unwrap() {
            Read::Rows { payload: Payload::Arrow(batch), .. } => rows += batch.num_rows(),
            Read::End => return rows,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn jobs_read_committed_records_in_a_node_and_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let streams = Streams::open(&world, folder.path(), false).unwrap();
    assert!(streams.node().is_none(), "no broker was ever here");
    let streamlet = streams.log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, &chunk(None, "plain"));
    put(&streamlet, &chunk(Some(1), "aborted"));
    put(&streamlet, &chunk(Some(2), "committed"));
    put(
        &streamlet,
        &control_marker(&Marker {
            producer_id: 1,
            producer_epoch: 0,
            is_commit: false,
            coordinator_epoch: 0,
            timestamp_ms: 5,
        }),
    );
    put(
        &streamlet,
        &control_marker(&Marker {
            producer_id: 2,
            producer_epoch: 0,
            is_commit: true,
            coordinator_epoch: 0,
            timestamp_ms: 5,
        }),
    );
    put(&streamlet, &chunk(Some(1), "committed"));
    put(
        &streamlet,
        &control_marker(&Marker {
            producer_id: 1,
            producer_epoch: 0,
            is_commit: true,
            coordinator_epoch: 0,
            timestamp_ms: 5,
        }),
    );
    assert_eq!(rows(&world, &streams, Isolation::Committed), 4, "nothing is known here");
    let log = Arc::clone(&streams.log);
    let settings = BrokerSettings::default();
    let broker = Broker::open(&world, log, folder.path(), settings).unwrap();
    let served = Streams::of(&streams.log, &broker);
    assert_eq!(rows(&world, &served, Isolation::Committed), 3);
    assert_eq!(rows(&world, &served, Isolation::Uncommitted), 4);
    served.close();

    let again = Streams::open(&world, folder.path(), false).unwrap();
    assert_eq!(rows(&world, &again, Isolation::Committed), 3);
    let error = Streams::open(&world, folder.path(), false).expect_err("it is open");
    assert!(matches!(error, StreamsError::Log(LogError::InUse(_))), "{error}");
    again.close();
}

#[test]
fn a_streamlet_of_a_deleted_stream_is_not_that_of_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let log =
        Arc::new(Log::open(&world, &folder.path().join("log"), LogOptions::default()).unwrap());
    let settings = BrokerSettings::default();
    let broker = Broker::open(&world, Arc::clone(&log), folder.path(), settings).unwrap();
    let streams = Streams::of(&log, &broker);
    let node = streams.node().unwrap();
    let before = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    assert!(node.transactions(&before).is_some());
    broker.delete_stream("s").unwrap();
    assert!(node.transactions(&before).is_none());
    let after = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    assert!(node.transactions(&after).is_some() && node.transactions(&before).is_none());
    streams.close();
}
