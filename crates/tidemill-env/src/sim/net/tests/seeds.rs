//! The network under seeds: what was written is read in its order, or the connection fails.

use super::*;
use crate::{SimPace, SimReport, SimWorld, Simulation};

/// Runs code in a simulation whose pace is the seed's; its report is part of the result.
fn simulate<T: Send + 'static>(
    seed: u64,
    body: impl FnOnce(&SimWorld) -> T + Send + 'static,
) -> (T, SimReport) {
    let pace = SimPace::of(&mut Random::new(seed));
    let ran = Simulation { pace, ..Simulation::new(seed) }.run(body);
    let (value, report) = ran.unwrap_or_else(|it| panic!("seed {seed}: {}", it.message));
    assert!(report.panicked.is_empty(), "seed {seed}: {:?}", report.panicked);
    (value.expect("it did not panic"), report)
}

/// The byte at a place of the stream that all tests send.
fn byte_at(place: usize) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Disturbs the network between two hosts some times, and heals it in the end.
fn disturb(sim: &SimWorld, random: &mut Random, resets: bool) {
    for _ in 0..random.below(12) {
        sim.world.clock.sleep_micros(random.below(300_000));
        match random.below(if resets { 7 } else { 4 }) {
            0 => sim.net.partition("a", "b"),
            1 => sim.net.partition("b", "a"),
            2 => sim.net.unplug("b"),
            3 => sim.net.heal(),
            4 => sim.net.reset("a", "b"),
            5 => sim.net.forget("b", "a"),
            _ => sim.net.forget("a", "b"),
        }
    }
    sim.net.heal();
}

/// Sends a stream from one host to another while the network is disturbed. Returns the lengths of
/// what was written and read, and how the reading ended.
fn stream(seed: u64, resets: bool) -> ((usize, usize, Option<ErrorKind>), SimReport) {
    simulate(seed, move |sim| {
        let mut random = sim.world.random(1);
        let link = SimLink::of(&mut random);
        let calm = SimLink { reset_one_in: 0, refused_one_in: 0, ..link };
        sim.net.set_links(if resets { SimLink { refused_one_in: 0, ..link } } else { calm });
        let (a, b) = (sim.net.host("a"), sim.net.host("b"));
        let [writes, mut reads] = ends(&*a, &*b, "b:7088");
        let length = random.below(60_000) as usize;
        let written = Arc::new(Mutex::new(0));
        let tell = Arc::clone(&written);
        let writer = move || {
            let mut writes = writes;
            let bytes: Vec<u8> = (0..length).map(byte_at).collect();
            let mut sent = 0;
            while sent < length {
                match writes.writer.write(&bytes[sent..length.min(sent + 5_000)]) {
                    Ok(count) => sent += count,
                    Err(_) => break,
                }
            }
            *hold(&tell) = sent;
        };
        let thread = sim.world.spawn.spawn("writer", Box::new(writer));
        let (faults, mut draws) = (sim.clone(), random.clone());
        let mut answer = reads.writer;
        let is_told = Arc::new(Mutex::new(false));
        let tell = Arc::clone(&is_told);
        let faults = move || {
            disturb(&faults, &mut draws, resets);
            // A reader that is half-open learns of it by sending.
            if resets && answer.write(b"x").is_err() {
                *hold(&tell) = true;
            }
        };
        let faults = sim.world.spawn.spawn("faults", Box::new(faults));
        let (mut into, mut read) = (vec![0; 7_000], 0);
        let ending = loop {
            let most = 1 + random.below(7_000) as usize;
            match reads.reader.read(&mut into[..most]) {
                Ok(0) => break None,
                Ok(count) => {
                    let is_right = |(nth, byte): (usize, &u8)| *byte == byte_at(read + nth);
                    assert!(into[..count].iter().enumerate().all(is_right), "at {read}");
                    read += count;
                }
                Err(error) => break Some(error.kind()),
            }
        };
        drop((reads.reader, reads.closer));
        thread.join();
        faults.join();
        let ending = ending.or(hold(&is_told).then_some(ErrorKind::ConnectionReset));
        (*hold(&written), read, ending)
    })
}

#[test]
fn all_bytes_arrive_through_partitions_that_are_healed() {
    for seed in 0..150 {
        let ((written, read, ending), _) = stream(seed, false);
        assert_eq!((read, ending), (written, None), "seed {seed}");
    }
}

#[test]
fn a_connection_that_is_reset_has_delivered_a_prefix() {
    let mut broken = 0;
    for seed in 0..150 {
        let ((written, read, ending), _) = stream(seed, true);
        assert!(read <= written, "seed {seed}: {read} of {written}");
        assert!(ending.is_some() || read == written, "seed {seed}: an end without an error");
        broken += u64::from(ending.is_some());
    }
    assert!((20..140).contains(&broken), "{broken} of 150");
}

#[test]
fn a_seed_gives_the_same_network_again() {
    for seed in 0..40 {
        let [(ending, report), (ending_again, again)] = [0, 1].map(|_| stream(seed, true));
        assert_eq!((ending, report.hash), (ending_again, again.hash), "seed {seed}");
        assert_eq!((report.points, report.micros), (again.points, again.micros), "seed {seed}");
    }
}

/// The simulated time that something takes.
fn micros(sim: &SimWorld, of: impl FnOnce()) -> u64 {
    let before_us = sim.world.clock.monotonic_micros();
    of();
    sim.world.clock.monotonic_micros() - before_us
}

#[test]
fn durations_are_those_of_the_links() {
    let even = Simulation::new(1).run(|sim| {
        let link = SimLink { latency_us_min: 10_000, latency_us_max: 12_000, ..SimLink::INSTANT };
        sim.net.set_links(SimLink { bytes_per_second: 1_000_000, ..link });
        let (a, b) = (sim.net.host("a"), sim.net.host("b"));
        let listener = b.listen("b:1").unwrap();
        let mut at_a = None;
        let took = micros(sim, || at_a = Some(a.connect("b:1", SECOND).unwrap()));
        assert!((20_000..25_000).contains(&took), "there and back: {took}");
        let took = micros(sim, || assert!(a.connect("b:2", SECOND).is_err()));
        assert!((20_000..25_000).contains(&took), "so does a refusal: {took}");
        let (mut at_a, mut at_b) = (at_a.unwrap(), listener.accept().unwrap());
        let took = micros(sim, || {
            at_a.writer.write_all(&[0; 200_000]).unwrap();
            at_b.reader.read_exact(&mut [0; 200_000]).unwrap();
        });
        assert!((210_000..215_000).contains(&took), "200 kB at 1 MB/s: {took}");

        sim.net.partition("b", "a");
        let took = micros(sim, || assert!(a.connect("b:1", SECOND).is_err()));
        assert!((1_000_000..1_001_000).contains(&took), "no answer: {took}");
        let (net, clock) = (sim.net.clone(), Arc::clone(&sim.world.clock));
        let healer = move || {
            clock.sleep_micros(500_000);
            net.heal();
        };
        let healer = sim.world.spawn.spawn("healer", Box::new(healer));
        let took = micros(sim, || assert!(a.connect("b:1", SECOND * 10).is_ok()));
        assert!((520_000..1_600_000).contains(&took), "after it is healed: {took}");
        healer.join();

        sim.net.set_links(SimLink { give_up_us: 5_000_000, ..link });
        sim.net.unplug("b");
        at_a.writer.write_all(b"to nobody").unwrap();
        let took = micros(sim, || {
            assert_eq!(kind(at_a.reader.read(&mut [0])), Some(ErrorKind::TimedOut));
        });
        assert!((4_990_000..5_001_000).contains(&took), "given up: {took}");
        assert_eq!(at_a.reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(kind(at_a.writer.write(b"x")), Some(ErrorKind::BrokenPipe));
        let counts = sim.net.counts();
        assert_eq!((counts.given_up, counts.timeouts, counts.refusals), (1, 1, 1));
        assert_eq!((counts.sent_bytes, counts.received_bytes), (200_009, 200_000));
    });
    assert!(even.unwrap().0.is_some(), "it did not panic");
}

#[test]
fn a_full_backlog_makes_others_wait() {
    let even = Simulation::new(1).run(|sim| {
        let (a, b) = (sim.net.host("a"), sim.net.host("b"));
        let listener = b.listen("b:1").unwrap();
        let connect = || a.connect("b:1", SECOND);
        let taken: Vec<_> = (0..state::BACKLOG_MAX).map(|_| connect().unwrap()).collect();
        assert_eq!(kind(connect()), Some(ErrorKind::TimedOut));
        drop(taken);
        assert_eq!(listener.accept().unwrap().reader.read(&mut [0]).unwrap(), 0);
        assert!(connect().is_ok());
    });
    assert!(even.unwrap().0.is_some(), "it did not panic");
}
