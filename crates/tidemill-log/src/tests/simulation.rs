//! The log with all its threads, under seeds: some append, one reads, and the process is killed or
//! loses power at any moment.

use super::*;
use tidemill_env::{Random, SimCluster, SimPace, SimReport, Simulation, lock};
use tidemill_types::NodeId;

const NODE: NodeId = NodeId(1);
const APPENDERS: u64 = 3;

/// An appender in its life, and the number of its append there.
type Name = (u64, u64, u64);

/// The acknowledgements and readings that outlive the process.
#[derive(Default)]
struct History {
    /// Appends that were acknowledged, with their offsets.
    acknowledged: Vec<(i64, Name)>,
    /// The records that readers saw.
    seen: Vec<(i64, Name)>,
}

fn text((life, appender, number): Name) -> Vec<u8> {
    format!("{life} {appender} {number} {}", "-".repeat((number % 7 * 500) as usize)).into_bytes()
}

fn parse(value: &[u8]) -> Name {
    let text = std::str::from_utf8(value).expect("it was text");
    let mut numbers = text.split(' ').map_while(|it| it.parse().ok());
    let mut next = || numbers.next().expect("a number");
    (next(), next(), next())
}

/// All visible values with their offsets. More may become visible meanwhile.
fn visible(streamlet: &Streamlet) -> Result<Vec<(i64, Name)>, ReadError> {
    let (mut cursor, mut offset) = (ReadCursor::default(), streamlet.start_offset());
    let mut all = Vec::new();
    loop {
        let found = streamlet.read(&mut cursor, offset, ReadLimit::default())?;
        if found.chunks.is_empty() {
            return Ok(all);
        }
        for chunk in &found.chunks {
            let head = ChunkHead::check(chunk).expect("served chunks are whole");
            assert_eq!(head.base_offset, offset, "no gap");
            offset = head.last_offset() + 1;
            all.push((head.base_offset, parse(value(chunk))));
        }
    }
}

fn open_threaded(world: &World) -> Result<(Log, Arc<Streamlet>), LogError> {
    let options = LogOptions { sync_threads: 2, ..by_hand() };
    let log = Log::open(world, Path::new(FOLDER), options)?;
    let stream = match log.get("s") {
        Some(stream) => stream,
        None => log.create("s", spec())?,
    };
    let streamlet = stream.streamlet(0).expect("it has one");
    Ok((log, streamlet))
}

/// One life of the process.
fn live(world: &World, life: u64, history: &Arc<lock::Mutex<History>>) {
    let Ok((_log, streamlet)) = open_threaded(world) else { return };
    let appenders: Vec<_> = (0..APPENDERS)
        .map(|appender| {
            let (streamlet, history) = (Arc::clone(&streamlet), Arc::clone(history));
            let (clock, mut random) = (Arc::clone(&world.clock), world.random(appender));
            let body = move || {
                for number in 0..40 {
                    let name = (life, appender, number);
                    let Ok(append) = put(&streamlet, &text(name)) else { return };
                    let offset = append.base_offset;
                    if append.wait().is_err() {
                        return;
                    }
                    history.lock().acknowledged.push((offset, name));
                    clock.sleep_micros(random.below(3) * random.below(2_000));
                }
            };
            world.spawn.spawn("appender", Box::new(body))
        })
        .collect();
    for _ in 0..20 {
        if let Ok(seen) = visible(&streamlet) {
            history.lock().seen.extend(seen);
        }
        world.clock.sleep_micros(2_000);
    }
    appenders.into_iter().for_each(|it| it.join());
}

/// Runs some lives, and returns the number of appends acknowledged.
fn lives(sim: &SimWorld, random: &mut Random) -> usize {
    let cluster = SimCluster::new(sim, 1);
    let history = Arc::<lock::Mutex<History>>::default();
    for life in 0..1 + random.below(4) {
        let world = cluster.restart(NODE);
        let (of, told, spawn) = (world.clone(), Arc::clone(&history), world.spawn);
        if random.below(3) == 0 {
            cluster.kill_after(NODE, random.below(200));
        }
        let thread = spawn.spawn("process", Box::new(move || live(&of, life, &told)));
        match random.below(4) {
            0 => thread.join(),
            1 => {
                sim.world.clock.sleep_micros(random.below(60_000));
                cluster.kill(NODE);
            }
            _ => {
                sim.world.clock.sleep_micros(random.below(60_000));
                cluster.power_cut(NODE);
            }
        }
    }
    let (log, streamlet) = open_threaded(&cluster.restart(NODE)).expect("it opens");
    let stored = visible(&streamlet).expect("it can be read");
    drop(log);
    let history = history.lock();
    for known in history.acknowledged.iter().chain(&history.seen) {
        let at = usize::try_from(known.0).expect("an offset");
        assert_eq!(stored.get(at), Some(known), "what was told is there");
    }
    for (life, appender) in (0..4).flat_map(|life| (0..APPENDERS).map(move |it| (life, it))) {
        let of = stored.iter().filter(|(_, it)| (it.0, it.1) == (life, appender));
        let numbers: Vec<u64> = of.map(|(_, it)| it.2).collect();
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "appender {appender} of life {life}: once, and in order");
    }
    history.acknowledged.len()
}

fn run_lives(seed: u64) -> (usize, SimReport) {
    let mut random = Random::new(seed);
    let pace = SimPace { micros_max: 600_000_000, ..SimPace::of(&mut random) };
    let simulation = Simulation { pace, ..Simulation::new(seed) };
    let ran = simulation.run(move |sim| lives(sim, &mut random));
    let (count, report) = ran.unwrap_or_else(|it| panic!("seed {seed}: {}", it.message));
    assert!(report.panicked.is_empty(), "seed {seed}: {:?}", report.panicked);
    assert!(report.stuck.is_empty(), "seed {seed}: {:?}", report.stuck);
    (count.expect("it did not panic"), report)
}

#[test]
fn a_log_whose_threads_are_killed_anywhere_keeps_what_it_acknowledged() {
    let mut acknowledged = 0;
    for seed in 0..40 {
        let [(count, report), (count_again, again)] = [0, 1].map(|_| run_lives(seed));
        assert_eq!((count, report.hash), (count_again, again.hash), "seed {seed}");
        acknowledged += count;
    }
    assert!(acknowledged > 700, "{acknowledged} appends");
}
