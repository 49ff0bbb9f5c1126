//! What fuzz targets share: seeds, bounds of memory; and, for those of file formats, that a file of any
//! bytes is read twice, in large and in small pieces, and both must give the same records and dead
//! letters.
//!
//! Run one with `cargo +nightly fuzz run json`.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, path::Path};
use tidemill_connectors::FileSource;
use tidemill_env::{SimDisk, World};
use tidemill_flow::{DeadLetter, Payload, Read, ReadRequest, SourceFactory};
use tidemill_types::{
    Cycle,
    job::{FileSourceSpec, Format},
};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Libraries that trust their input in places. What calls them catches their panics, and says that
/// its input is damaged.
const CAUGHT: [&str; 3] = ["/arrow-", "/parquet-", "/datafusion-"];

/// Before the first input: puts seeds into the corpus of a target, and lets panics of [`CAUGHT`] be
/// caught, while all others end the process.
pub fn begin(target: &str, seeds: Vec<Vec<u8>>) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&corpus).expect("the corpus can be written to");
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{number}")), seed).expect("as said");
    }
    let ends = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |at| at.file());
        if !CAUGHT.iter().any(|it| file.contains(it)) {
            ends(panic);
        }
    }));
}

/// Runs this, and checks that all the memory that was asked for meanwhile, given back or not, was at
/// most so many bytes.
pub fn within<T>(bytes_max: usize, run: impl FnOnce() -> T) -> T {
    let region = Region::new(MEMORY);
    let result = run();
    let bytes = region.change().bytes_allocated;
    assert!(bytes <= bytes_max, "{bytes} bytes were asked for, {bytes_max} are possible");
    result
}

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
    let mut source = factory.open(0).ok()?;
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
