//! What a reader without patience is told.

use super::*;
use crate::{jobs::Jobs, serve::settings::HttpSettings, streams::Streams};
use tidemill_broker::{Broker, BrokerSettings};
use tidemill_env::World;
use tidemill_log::{AppendOptions, Log, LogOptions, StreamSpec};
use tidemill_wire::records::{ChunkBuilder, Compression, Headers, Marker, Origin, control_marker};
use tokio::sync::watch;

/// A chunk with one value; of a producer's transaction, if there is a producer.
fn chunk(producer_id: Option<i64>, value: &[u8]) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    if let Some(producer_id) = producer_id {
        let (producer_epoch, base_sequence) = (0, 0);
        let origin = Origin { producer_id, producer_epoch, base_sequence, is_transactional: true };
        builder.set_origin(origin);
    }
    builder.append(5, None, Some(value), Headers::NONE).unwrap();
    builder.finish().unwrap()
}

#[test]
fn an_answer_without_records_says_that_there_are_none_behind_aborted_ones() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let log = Log::open(&world, &folder.path().join("log"), LogOptions::default()).unwrap();
    let log = Arc::new(log);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    let put = |chunk: &[u8]| {
        streamlet.append(chunk, AppendOptions::default()).unwrap().wait().unwrap();
    };
    (0..10).for_each(|_| put(&chunk(Some(1), &[b'a'; 200])));
    put(&control_marker(&Marker {
        producer_id: 1,
        producer_epoch: 0,
        is_commit: false,
        coordinator_epoch: 0,
        timestamp_ms: 5,
    }));
    put(&chunk(None, b"\"kept\""));
    (0..10).for_each(|_| put(&chunk(Some(1), &[b'a'; 200])));
    put(&control_marker(&Marker {
        producer_id: 1,
        producer_epoch: 0,
        is_commit: false,
        coordinator_epoch: 0,
        timestamp_ms: 5,
    }));
    let broker = Broker::open(&world, Arc::clone(&log), folder.path(), BrokerSettings::default());
    let broker = broker.unwrap();
    let jobs = Jobs::open(&world, Streams::of(&log, &broker), folder.path()).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let state =
        HttpState::new(&world, &log, &broker, &jobs, None, HttpSettings::default(), stopped);
    let state = Arc::new(state);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |from: &str| {
        let uri: Uri = format!("/?from={from}&max_bytes=300").parse().unwrap();
        let answer = read(Shared(Arc::clone(&state)), PathNames("s".to_owned()), uri);
        let answer = runtime.block_on(answer).map_err(|it| it.message).unwrap();
        let next = answer.headers()[&NEXT].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20);
        (String::from_utf8(runtime.block_on(body).unwrap().to_vec()).unwrap(), next)
    };
    let (text, next) = ask("earliest");
    assert!(text.contains("kept") && text.lines().count() == 1, "{text}");
    assert_eq!(ask(&next), (String::new(), "0:23".to_owned()));
    jobs.close();
    broker.close();
    log.close();
}
