//! A disk without room costs nothing: what was refused is asked for again, and the file is as if there
//! had been room all the time.

use super::*;
use tidemill_env::Random;

/// Does something until it is done. While there is no room, some is made, or the job ends.
fn persist<T>(
    sim: &SimWorld,
    random: &mut Random,
    refused: &mut u64,
    mut attempt: impl FnMut() -> Result<T, SinkError>,
) -> Option<T> {
    for tries in 0.. {
        match attempt() {
            Ok(done) => return Some(done),
            Err(error) if error.is_retry() => {
                *refused += 1;
                match random.below(40) {
                    0 => return None,
                    1..4 => {}
                    _ => sim.disk.set_capacity(sim.disk.used() + random.below(50 << tries.min(20))),
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("there is room in the end")
}

/// One life, which ends before its time if none is made; whether it came to its end.
fn live_while_full(
    sim: &SimWorld,
    format: Format,
    random: &mut Random,
    refused: &mut u64,
) -> Option<()> {
    let mut sink = number_sink(sim, format);
    let held = persist(sim, random, refused, || sink.open(true))?.0;
    let together = 1 + random.below(3);
    for cycle in held + 1..=CYCLES {
        sink.write(Cycle(cycle), &[number_block(&rows_of(cycle))]).unwrap();
        if random.below(4) == 0 {
            sim.disk.report_full_late(random.below(2) == 0);
            sim.disk.set_capacity(sim.disk.used() + random.below(30));
        }
        if cycle % together == 0 || cycle == CYCLES {
            persist(sim, random, refused, || sink.commit(Cycle(cycle)))?;
        }
        if random.below(8) == 0 {
            persist(sim, random, refused, || sink.sync())?;
        }
        sim.clock.advance(random.below(600));
    }
    persist(sim, random, refused, || sink.close())
}

#[test]
fn row_14_a_file_is_the_same_byte_for_byte_whenever_its_disk_was_full() {
    let left = |sim: &SimWorld| sim.disk.read(Path::new("f")).unwrap();
    for format in [Format::Json, Format::Csv, Format::Text, Format::Arrow, Format::Parquet] {
        let calm = World::simulated(1);
        let mut sink = number_sink(&calm, format);
        sink.open(true).unwrap();
        for cycle in 1..=CYCLES {
            sink.write(Cycle(cycle), &[number_block(&rows_of(cycle))]).unwrap();
            sink.commit(Cycle(cycle)).unwrap();
        }
        sink.close().unwrap();
        let mut refused = 0;
        for seed in 0..60 {
            let (sim, mut random) = (World::simulated(seed), Random::new(seed));
            while live_while_full(&sim, format, &mut random, &mut refused).is_none() {
                // It gave up while there was no room.
                if random.below(2) == 0 {
                    sim.disk.kill()
                } else {
                    sim.disk.power_cut()
                }
                sim.disk.set_capacity(u64::MAX);
            }
            assert_eq!(left(&sim), left(&calm), "{format:?}, seed {seed}");
            sim.disk.power_cut();
            assert_eq!(left(&sim), left(&calm), "{format:?}, seed {seed}: what is durable");
        }
        assert!(refused > 60, "{refused}");
    }
}

/// A sync without room may drop what was written; it is believed only after it was written again.
#[test]
fn row_14_what_a_sync_without_room_dropped_is_written_again() {
    for seed in 0..20 {
        let sim = World::simulated(seed);
        let mut sink = number_sink(&sim, Format::Text);
        sink.open(false).unwrap();
        sink.write(Cycle(1), &[number_block(&(0..1_000).collect::<Vec<_>>())]).unwrap();
        sim.disk.report_full_late(true);
        sim.disk.set_capacity(sim.disk.used());
        sink.commit(Cycle(1)).unwrap();
        assert!(sink.sync().unwrap_err().is_retry());
        sim.disk.set_capacity(u64::MAX);
        assert!(sink.sync().unwrap());
        let written = sim.disk.read(Path::new("f")).unwrap();
        sim.disk.power_cut();
        assert_eq!(sim.disk.read(Path::new("f")).unwrap(), written);
        assert_eq!(number_sink(&sim, Format::Text).open(true).unwrap(), Cycle(1));
    }
}

/// Of any other error of a sync nothing is tried again: it does not pass.
#[test]
fn row_15_a_sync_that_fails_otherwise_does_not_pass() {
    for format in [Format::Text, Format::Parquet] {
        let sim = World::simulated(1);
        let mut sink = number_sink(&sim, format);
        sink.open(false).unwrap();
        sink.write(Cycle(1), &[number_block(&[1])]).unwrap();
        sink.commit(Cycle(1)).unwrap();
        sim.disk.fail_sync_after(0);
        assert!(!sink.close().unwrap_err().is_retry(), "{format:?}");
    }
}
