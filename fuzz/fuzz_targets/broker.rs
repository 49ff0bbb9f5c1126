//! Any bytes as requests to a broker in memory: each is answered or refused.
//!
//! The bytes are frames, each after its length (2 bytes, big endian): which request, its version,
//! and all that follows. `fuzz/seeds.py` writes good ones to begin with. A normal test does the same
//! with requests that it changes: `tidemill-broker/src/tests/hostile.rs`.

#![no_main]

use bytes::Bytes;
use std::{path::Path, sync::Arc, time::Duration};
use tidemill_broker::{Broker, BrokerSettings, DirectClient};
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

/// A broker is made for each input: more frames than this are left out.
const FRAMES_MAX: usize = 16;

/// The frames; the last one may be cut short.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        bytes = rest;
        Some(frame)
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let sim = World::simulated(0);
        let options = LogOptions { streamlets_max: 64, ..LogOptions::default() };
        let log = Log::open(&sim.world, Path::new("/data/log"), options);
        let log = Arc::new(log.expect("an empty disk"));
        let settings = BrokerSettings::default();
        let broker = Broker::open(&sim.world, Arc::clone(&log), Path::new("/data"), settings);
        let broker = broker.expect("an empty disk");
        log.create("t", StreamSpec::default()).expect("there is room");
        let mut client = DirectClient::new(&broker);
        for frame in frames(bytes).take(FRAMES_MAX) {
            let asked = client.ask(Bytes::copy_from_slice(frame));
            let _waits = tokio::time::timeout(Duration::from_millis(5), asked).await;
        }
        broker.close();
        log.close();
    });
});
