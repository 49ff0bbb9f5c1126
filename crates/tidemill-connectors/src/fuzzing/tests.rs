//! Files to begin with are good ones: all of their records are read.

use super::*;
use crate::FileSource;
use tidemill_env::World;
use tidemill_flow::{Payload, Read, ReadRequest};
use tidemill_types::{Cycle, SliceId, job::FileSourceSpec};

#[test]
fn all_of_a_good_file_is_read() {
    let all = [
        (Format::Arrow, 15),
        (Format::Parquet, 15),
        (Format::Json, 15),
        (Format::Csv, 15),
        (Format::Influx, 2),
        (Format::Text, 4),
    ];
    for (format, expected) in all {
        let files = seeds(format);
        assert!(!files.is_empty());
        for bytes in files {
            let sim = World::simulated(1);
            sim.disk.put("f", &bytes);
            let spec = FileSourceSpec::new("f", format);
            let factory = FileSource::new(&sim.world, "f", &spec, None).unwrap();
            let mut source = factory.open(SliceId(0)).unwrap();
            let (mut rows, mut letters) = (0, Vec::new());
            let request =
                ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records: 1 << 20, until: None };
            while let Read::Rows { payload, .. } = source.read(&request, &mut letters).unwrap() {
                let Payload::Arrow(batch) = payload else { panic!("in columns") };
                rows += batch.num_rows();
            }
            assert_eq!((rows, letters.len()), (expected, 0), "{format:?}");
        }
    }
}
