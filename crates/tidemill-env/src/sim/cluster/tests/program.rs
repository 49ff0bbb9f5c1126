//! Five nodes that keep requests on their disks and answer them, under every fault at once.
//!
//! ```text
//! client, outside ─▶ node: appends the request to its file, syncs, answers with its life
//! node ─▶ node: asks for its life now and then
//! faults, outside: kills, power cuts, pauses, partitions, resets, clocks that jump
//! ```
//!
//! Invariants: a request that was answered is on the node's disk; a node's life, asked for after
//! it was told, is not smaller; after the last heal every node answers.

use super::*;
use crate::{Connection, DiskFile, SimLink, SimPace, SimReport, sync::mpsc::RecvTimeoutError};
use std::collections::BTreeSet;

const NODES: usize = 5;
const PORT: u16 = 7088;
const FOLDER: &str = "/data";

type History = Arc<lock::Mutex<BTreeSet<(NodeId, u64)>>>;

/// Counts a life of a node in a file that is replaced as a whole.
fn next_life(world: &World) -> io::Result<u64> {
    let (folder, path) = (Path::new(FOLDER), Path::new("/data/life"));
    world.disk.create_dir_all(folder)?;
    let before = world.disk.read(path).ok().and_then(|it| it.try_into().ok());
    let life = before.map_or(0, u64::from_le_bytes) + 1;
    let new = Path::new("/data/life.new");
    let mut file = world.disk.create(new)?;
    file.append(&life.to_le_bytes())?;
    file.sync()?;
    world.disk.rename(new, path)?;
    world.disk.sync_dir(folder)?;
    Ok(life)
}

/// Answers the requests of one connection. Each is on the disk before.
fn answer(mut connection: Connection, life: u64, file: &lock::Mutex<Box<dyn DiskFile>>) {
    let mut request = [0; 8];
    while connection.reader.read_exact(&mut request).is_ok() {
        let kept = {
            let mut file = file.lock();
            file.append(&request).and_then(|()| file.sync())
        };
        let answer = [request, life.to_le_bytes()].concat();
        if kept.and_then(|()| connection.writer.write_all(&answer)).is_err() {
            break;
        }
    }
}

/// Asks a node, for a second at most. Returns its life.
fn ask(world: &World, address: &str, request: u64) -> Option<u64> {
    let second = Duration::from_secs(1);
    let connection = world.net.connect(address, second).ok()?;
    let Connection { mut reader, mut writer, closer, .. } = connection;
    writer.write_all(&request.to_le_bytes()).ok()?;
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut answer = [0; 16];
        let answer = reader.read_exact(&mut answer).ok().map(|()| answer);
        let _its_asker_is_gone = sender.send(answer);
    };
    let thread = world.spawn.spawn("answer", Box::new(read));
    let answer = receiver.recv_timeout(second);
    if answer == Err(RecvTimeoutError::Timeout) {
        closer();
    }
    thread.join();
    let answer = answer.ok()??;
    let (request_again, life) = answer.split_at(8);
    assert_eq!(request_again, request.to_le_bytes());
    Some(u64::from_le_bytes(life.try_into().ok()?))
}

/// A node's process.
fn serve(world: &World, node: NodeId) -> io::Result<()> {
    let life = next_life(world)?;
    let path = Path::new("/data/requests");
    let mut file = match world.disk.exists(path)? {
        true => world.disk.open_append(path)?,
        false => world.disk.create(path)?,
    };
    // A power cut may leave a part of the last request.
    let length = file.length()?;
    file.truncate(length - length % 8)?;
    world.disk.sync_dir(Path::new(FOLDER))?;
    let file = Arc::new(lock::Mutex::new(file));
    let listener = world.net.listen(&format!("0.0.0.0:{PORT}"))?;
    let asks = world.clone();
    let gossip = move || {
        let mut random = asks.random(2);
        loop {
            asks.clock.sleep_micros(random.below(2_000_000));
            let peer = 1 + random.below(NODES as u64);
            ask(&asks, &format!("node-{peer}:{PORT}"), u64::MAX);
        }
    };
    world.spawn.spawn(&format!("gossip {node}"), Box::new(gossip));
    loop {
        let connection = listener.accept()?;
        let file = Arc::clone(&file);
        world.spawn.spawn("server", Box::new(move || answer(connection, life, &file)));
    }
}

fn start(cluster: &SimCluster, node: NodeId) {
    let world = cluster.node(node);
    let (of, spawn) = (world.clone(), world.spawn);
    let body = move || {
        let ended = serve(&of, node);
        panic!("node {node} ended by itself: {ended:?}");
    };
    spawn.spawn(&format!("node {node}"), Box::new(body));
}

/// One fault, and the repair of another now and then.
fn disturb(cluster: &SimCluster, random: &mut Random) {
    let [one, other] = [0, 1].map(|_| NodeId(1 + random.below(NODES as u64) as i32));
    match random.below(12) {
        0 => cluster.kill(one),
        1 => cluster.power_cut(one),
        2 => cluster.kill_after(one, random.below(20)),
        3 => cluster.pause(one),
        4 => cluster.resume(one),
        5 => cluster.partition(one, other, SimPartition::OneWay),
        6 => cluster.partition(one, other, SimPartition::BothWays),
        7 => cluster.isolate(one),
        8 => cluster.heal(),
        9 => cluster.net().reset(&format!("node-{one}"), "client"),
        10 => cluster.net().forget(&format!("node-{one}"), &format!("node-{other}")),
        _ => cluster.jump_wall(one, random.below(20_000_000_000) as i64 - 10_000_000_000),
    }
    if random.below(3) == 0 {
        restart_dead(cluster);
    }
}

fn restart_dead(cluster: &SimCluster) {
    for node in cluster.nodes().filter(|it| !cluster.is_alive(*it)).collect::<Vec<_>>() {
        cluster.restart(node);
        start(cluster, node);
    }
}

/// Sends requests to random nodes; the history has those that were answered.
fn request(world: &World, cluster: &SimCluster, count: u64, history: &History) {
    let mut random = world.random(3);
    let mut lives = [0; NODES + 1];
    for number in 0..count {
        let node = NodeId(1 + random.below(NODES as u64) as i32);
        if let Some(life) = ask(world, &cluster.address(node, PORT), number) {
            let known = &mut lives[node.0 as usize];
            assert!(life >= *known, "node {node} was in life {known}, and is in {life}");
            *known = life;
            history.lock().insert((node, number));
        }
        world.clock.sleep_micros(random.below(200_000));
    }
}

/// Returns the life of a node that answers in the end.
fn ask_until_answered(client: &World, address: &str) -> u64 {
    loop {
        if let Some(life) = ask(client, address, u64::MAX) {
            return life;
        }
        client.clock.sleep_micros(100_000);
    }
}

/// The program itself: returns how many requests were answered, and the sum of all nodes' lives.
fn program(sim: &SimWorld, random: &mut Random) -> (usize, u64) {
    let cluster = SimCluster::new(sim, NODES);
    cluster.net().set_links(SimLink::of(random));
    cluster.nodes().for_each(|it| start(&cluster, it));
    let history = History::default();
    let client = cluster.outside("client");
    let requests = 3 + random.below(15);
    let (asks, asked, told) = (client.clone(), cluster.clone(), Arc::clone(&history));
    let body = move || request(&asks, &asked, requests, &told);
    let thread = sim.world.spawn.spawn("client", Box::new(body));
    for _ in 0..random.below(15) {
        sim.world.clock.sleep_micros(random.below(1_500_000));
        disturb(&cluster, random);
    }
    thread.join();
    cluster.heal();
    cluster.net().set_links(SimLink::ROOM);
    // Nodes that are paused, without power or to be killed later are not so any more.
    cluster.nodes().for_each(|it| cluster.kill(it));
    restart_dead(&cluster);
    let mut lives = 0;
    for node in cluster.nodes() {
        lives += ask_until_answered(&client, &cluster.address(node, PORT));
        let kept = cluster.node(node).disk.read(Path::new("/data/requests")).unwrap();
        let kept = kept.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap()));
        let kept: BTreeSet<u64> = kept.collect();
        let history = history.lock();
        let mut answered = history.iter().filter(|(of, _)| *of == node);
        assert!(answered.all(|(_, it)| kept.contains(it)), "node {node} lost an answered request");
    }
    let answered = history.lock().len();
    (answered, lives)
}

fn run_program(seed: u64) -> ((usize, u64), SimReport) {
    let mut random = Random::new(seed);
    let pace = SimPace { micros_max: 600_000_000, ..SimPace::of(&mut random) };
    let simulation = Simulation { pace, ..Simulation::new(seed) };
    let ran = simulation.run(move |sim| program(sim, &mut random));
    let (value, report) = ran.unwrap_or_else(|it| panic!("seed {seed}: {}", it.message));
    assert!(report.panicked.is_empty(), "seed {seed}: {:?}", report.panicked);
    assert!(report.stuck.is_empty(), "seed {seed}: {:?}", report.stuck);
    (value.expect("it did not panic"), report)
}

#[test]
fn five_nodes_keep_what_they_answer_and_a_seed_gives_the_same_again() {
    let (mut answered, mut lives) = (0, 0);
    for seed in 0..60 {
        let [(found, report), (found_again, again)] = [0, 1].map(|_| run_program(seed));
        assert_eq!((found, report.hash), (found_again, again.hash), "seed {seed}");
        assert_eq!((report.points, report.micros), (again.points, again.micros), "seed {seed}");
        answered += found.0;
        lives += found.1;
    }
    assert!(answered > 200, "{answered} answers");
    assert!(lives > 60 * 5 * 2 + 20, "{lives} lives: nodes were killed before the end");
}

#[test]
fn five_nodes_keep_what_they_answer_under_many_seeds() {
    let points: u64 = (1_000..1_250).map(|seed| run_program(seed).1.points).sum();
    assert!(points > 250 * 300, "{points} points: the nodes did little");
}
