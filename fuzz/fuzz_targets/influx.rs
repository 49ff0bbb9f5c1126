//! Any bytes as a file of the format `influx`.

#![no_main]

use tidemill_connectors::fuzzing::seeds;
use tidemill_types::job::Format;

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("influx", seeds(Format::Influx)),
    |bytes: &[u8]| tidemill_fuzz::read_file(Format::Influx, bytes)
);
