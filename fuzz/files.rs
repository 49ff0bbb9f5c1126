//! A file of any bytes is read twice, in large and in small pieces, and both must give the same records
//! and dead letters.

use std::path::Path;
use tidemill_connectors::FileSource;
use tidemill_env::{SimDisk, World};
use tidemill_flow::{DeadLetter, Payload, Read, ReadRequest, SourceFactory};
use tidemill_types::{
    Cycle, SliceId,
    job::{FileSourceSpec, Format},
};

/// Reads the bytes as a file of this format. A damaged file may be refused; nothing may panic.
pub fn read_file(format: Format, bytes: &[u8]) {
    let disk = SimDisk::new(0);
    disk.put(Path::new("f"), bytes);
    let mut world = World::simulated(0).world;
    world.disk = std::sync::Arc::new(disk);
    let plain = FileSourceSpec { sample: Some(4), ..FileSourceSpec::new("f", format) };
    let other = FileSourceSpec { header: Some(false), delimiter: Some(';'), ..plain.clone() };
    let specs = [plain, other];
    let forms = if format == Format::Csv { &specs[..] } else { &specs[..1] };
    for spec in forms {
        if let Ok(source) = FileSource::new(&world, "f", spec, None) {
            let large = drain(&*source, 1 << 20, 1 << 20);
            let small = drain(&*source, 16, 2);
            assert_eq!(large, small);
        }
    }
}

fn drain(
    factory: &dyn SourceFactory,
    bytes: usize,
    records: usize,
) -> Option<(usize, Vec<DeadLetter>)> {
    let mut source = factory.open(SliceId(0)).ok()?;
    let request = ReadRequest { cycle: Cycle(1), bytes, records, until: None };
    let (mut rows, mut letters) = (0, Vec::new());
    loop {
        let before = source.position();
        match source.read(&request, &mut letters).ok()? {
            Read::Rows { payload: Payload::Arrow(batch), .. } => rows += batch.num_rows(),
            Read::End => return Some((rows, letters)),
            other => panic!("a file is never {other:?}"),
        }
        assert!(source.position() > before, "a read moves on");
    }
}
