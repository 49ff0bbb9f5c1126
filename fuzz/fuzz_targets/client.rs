//! Any bytes as a broker's answers to our own client: calls fail in time or return a possible result.

#![no_main]

use std::{path::Path, sync::Arc, time::Duration};
use tidemill_broker::{Broker, BrokerSettings, DirectClient};
use tidemill_client::fuzzing::{DEEDS, client, record};
use tidemill_env::World;
use tidemill_log::{AppendOptions, Log, LogOptions, StreamSpec, records};

/// The answers of a broker in memory, one for each request of the client.
fn seeds() -> Vec<Vec<u8>> {
    (0..DEEDS).map(seed).collect()
}

fn seed(deed: u8) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let sim = World::simulated(0);
    let log = Log::open(&sim.world, Path::new("/data/log"), LogOptions::default());
    let log = Arc::new(log.expect("an empty disk"));
    let settings = BrokerSettings::default();
    let broker = runtime.block_on(async {
        Broker::open(&sim.world, Arc::clone(&log), Path::new("/data"), settings)
    });
    let broker = broker.expect("an empty disk");
    let stream = log.create("t", StreamSpec::default()).expect("there is room");
    let mut chunk = records::ChunkBuilder::new(records::Compression::NONE);
    for number in 0..3_u8 {
        drop(chunk.append(7, Some(b"key"), Some(&[number; 20]), std::iter::empty()));
    }
    let chunk = chunk.finish().expect("it has records");
    let streamlet = stream.streamlet(0).expect("it has one");
    let append = streamlet.append(&chunk, AppendOptions::default());
    append.expect("there is room").wait().expect("there is room");
    let mut asked = DirectClient::new(&broker);
    record(deed, move |content| {
        let answer = asked.ask(content);
        let limit = Duration::from_secs(5);
        let answer = runtime.block_on(async { tokio::time::timeout(limit, answer).await });
        answer.ok()?.ok()?
    })
}

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("client", seeds()),
    // An answer, what it becomes, and records of a megabyte inflated for each of four chunks.
    |bytes: &[u8]| tidemill_fuzz::within((96 << 20) + 2000 * bytes.len(), || client(bytes))
);
