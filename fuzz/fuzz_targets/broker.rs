//! Any bytes as a request to a broker in memory: an answer, or a refusal.
//!
//! The bytes are a frame's content: which request, its version, and all that follows. A normal test
//! does the same with requests that it changes: `tidemill-broker/src/tests/hostile.rs`.

#![no_main]

use bytes::Bytes;
use std::{path::Path, sync::Arc, time::Duration};
use tidemill_broker::{Broker, BrokerSettings, Unwired};
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

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
        let mut client = Unwired::new(&broker);
        let asked = client.ask(Bytes::copy_from_slice(bytes));
        let _waits = tokio::time::timeout(Duration::from_millis(20), asked).await;
        broker.close();
        log.close();
    });
});
