//! A producer and a node on a simulated network, under seeds: latency, loss, partitions, resets,
//! half-open connections. Each record is written once, in its order.

use super::*;
use tidemill_env::{SimLink, SimPace, SimReport, SimWorld, Simulation};

/// The world of a host of the simulation's network.
fn world(sim: &SimWorld, host: &str) -> World {
    World { net: sim.net.host(host), ..sim.world.clone() }
}

fn disturb(sim: &SimWorld, random: &mut Random) {
    for _ in 0..random.below(10) {
        sim.world.clock.sleep_micros(random.below(3_000_000));
        match random.below(7) {
            0 => sim.net.partition("client", "node"),
            1 => sim.net.partition("node", "client"),
            2 => sim.net.unplug("node"),
            3 => sim.net.reset("client", "node"),
            4 => sim.net.forget("node", "client"),
            5 => sim.net.forget("client", "node"),
            _ => sim.net.heal(),
        }
    }
    sim.net.heal();
    sim.net.set_links(SimLink::ROOM);
}

fn produce(sim: &SimWorld, random: &mut Random) -> usize {
    sim.net.set_links(SimLink { reset_one_in: 0, ..SimLink::of(random) });
    let log = FakeLog::start_in(&world(sim, "node"), "node:9092", &[("events", 1)]);
    let mut draws = random.clone();
    log.on_request(move |key| match (key, draws.below(12)) {
        (ApiKey::Produce, 0) => Fault::CloseBefore,
        (ApiKey::Produce, 1) => Fault::CloseAfter,
        _ => Fault::None,
    });
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        ..ClientOptions::at("node:9092")
    };
    let client = Client::new(&world(sim, "client"), options);
    let options = ProducerOptions {
        batch_bytes: 100 + random.below(2_000) as usize,
        in_flight: 1 + random.below(5) as usize,
        delivery_timeout: Duration::from_secs(600),
        block_timeout: Duration::from_secs(600),
        ..ProducerOptions::default()
    };
    let producer = client.producer(options);
    let (faults, mut draws) = (sim.clone(), random.clone());
    let faults = move || disturb(&faults, &mut draws);
    let faults = sim.world.spawn.spawn("faults", Box::new(faults));
    let events = loop {
        match producer.stream("events") {
            Ok(events) => break events,
            Err(_) => sim.world.clock.sleep_micros(500_000),
        }
    };
    let expected: Vec<Vec<u8>> =
        (0..20 + random.below(100)).map(|it| format!("value {it}").into_bytes()).collect();
    for record in &expected {
        events.send(&value(record)).unwrap();
        sim.world.clock.sleep_micros(random.below(2) * random.below(100_000));
    }
    producer.flush(Duration::from_secs(600)).unwrap();
    faults.join();
    assert_eq!(log.values("events", 0), expected);
    let stats = producer.stats();
    assert_eq!((stats.delivered_records, stats.failed_records), (expected.len() as u64, 0));
    stats.retries as usize
}

fn run_producer(seed: u64) -> (usize, SimReport) {
    let mut random = Random::new(seed);
    let pace = SimPace { micros_max: 3_600_000_000, ..SimPace::of(&mut random) };
    let simulation = Simulation { pace, ..Simulation::new(seed) };
    let ran = simulation.run(move |sim| produce(sim, &mut random));
    let (retries, report) = ran.unwrap_or_else(|it| panic!("seed {seed}: {}", it.message));
    assert!(report.panicked.is_empty(), "seed {seed}: {:?}", report.panicked);
    (retries.expect("it did not panic"), report)
}

#[test]
fn a_producer_writes_each_record_once_whatever_the_network_does() {
    let mut retries = 0;
    for seed in 0..40 {
        let [(count, report), (count_again, again)] = [0, 1].map(|_| run_producer(seed));
        assert_eq!((count, report.hash), (count_again, again.hash), "seed {seed}");
        retries += count;
    }
    assert!(retries > 40, "{retries} retries");
}
