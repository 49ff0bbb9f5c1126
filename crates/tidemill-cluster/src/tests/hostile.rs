//! Strangers and broken networks: garbage, silence, floods, relays that replay or cut.

use super::*;
use crate::CallError;
use std::io::{Read, Write};
use tidemill_env::sync::atomic::{AtomicBool, Ordering};
use tidemill_env::{Clock, Connection, Listener};

fn connect(node: &TestNode) -> Connection {
    node.world.net.connect(node.port.address(), PATIENCE).expect("the port listens")
}

/// All bytes of the port until it closes the connection.
fn read_to_end(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    drop(connection.reader.read_to_end(&mut bytes));
    bytes
}

#[test]
fn row_34_other_protocols_are_closed_at_once_and_counted() {
    let node = TestSettings::of(1).start();
    let tls: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0];
    let kafka: &[u8] = &[0, 0, 0, 20, 0, 18, 0, 3, 0, 0, 0, 1, 0, 4, b't', b'e', b's', b't'];
    let garbage: Vec<u8> = (0..10_000_u32).map(|it| ((it * 7_919) >> 3) as u8).collect();
    let all: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", tls, kafka, &garbage, b"TMCP\x02\0\0\0"];
    for bytes in all {
        let mut connection = connect(&node);
        drop(connection.writer.write_all(bytes));
        assert!(read_to_end(&mut connection).is_empty(), "{bytes:02x?}");
    }
    node.until(|| node.options.metrics.handshakes_failed.get() == all.len() as u64);
    assert_eq!(node.options.metrics.accepted.get(), 0);
    // The port is as good as before.
    let other = TestSettings::of(2).start();
    assert!(other.call(&node, ECHO, b"x").is_ok());
}

#[test]
fn row_34_a_slow_handshake_is_closed_in_its_time() {
    let limits =
        ClusterLimits { handshake: Duration::from_millis(200), ..TestSettings::of(1).limits };
    let node = TestSettings { limits, ..TestSettings::of(1) }.start();
    let mut silent = connect(&node);
    let mut slow = connect(&node);
    // A byte of a record now and then moves no deadline.
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let world = node.world.clone();
    let trickle = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut hello = b"TMCP\x01\0\xff\x03".to_vec();
            hello.resize(1_000, 1);
            let sent = hello.iter().take_while(|byte| {
                world.clock.sleep_micros(5_000);
                !over.load(Ordering::SeqCst) && slow.writer.write_all(&[**byte]).is_ok()
            });
            sent.count()
        });
        assert!(read_to_end(&mut silent).is_empty());
        node.until(|| node.options.metrics.silent.get() == 2);
        is_over.store(true, Ordering::SeqCst);
        writer.join().expect("it ends")
    });
    assert!(trickle < 1_000);
    assert_eq!(node.options.metrics.handshakes_failed.get(), 2);
}

#[test]
fn a_flood_of_strangers_does_not_keep_a_node_out() {
    let limits = ClusterLimits { unproven_max: 4, ..TestSettings::of(1).limits };
    let node = TestSettings { limits, ..TestSettings::of(1) }.start();
    let strangers: Vec<_> = (0..100).map(|_| connect(&node)).collect();
    node.until(|| node.options.metrics.unproven_closed.get() == 96);
    let other = TestSettings::of(2).start();
    assert!(other.call(&node, ECHO, b"x").is_ok());
    drop(strangers);
}

#[test]
fn a_node_has_few_connections_and_its_newest_counts() {
    let node = TestSettings::of(1).start();
    let others: Vec<_> = (0..6).map(|_| TestSettings::of(2).start()).collect();
    for other in &others {
        assert!(other.call(&node, ECHO, b"x").is_ok());
    }
    node.until(|| node.options.metrics.connections.get() == 2);
    assert!(others[5].call(&node, ECHO, b"x").is_ok());
    assert_eq!(others[5].options.metrics.connects.get(), 1);
}

/// A relay between two nodes that keeps what the caller sends, and can stop relaying.
struct Relay {
    address: String,
    /// All bytes of the caller.
    sent: Arc<Mutex<Vec<u8>>>,
    /// The port's end of the newest connection.
    to_port: Arc<Mutex<Option<Box<dyn Write + Send>>>>,
    is_cut: Arc<AtomicBool>,
}

/// Relays one direction until it ends. Bytes that come while it is cut disappear.
fn pump(mut from: Box<dyn Read + Send>, is_cut: &AtomicBool, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !is_cut.load(Ordering::SeqCst) && !take(&buffer[..read]) {
            break;
        }
    }
}

/// The end of a connection does not get past a cut either.
fn wait_while(clock: &Arc<dyn Clock>, is_cut: &AtomicBool) {
    while is_cut.load(Ordering::SeqCst) {
        clock.sleep_micros(1_000);
    }
}

impl Relay {
    fn start(world: &World, target: &str) -> Self {
        let listener = world.net.listen("127.0.0.1:0").expect("there is a free port");
        let relay = Self {
            address: listener.address().expect("it listens"),
            sent: Arc::default(),
            to_port: Arc::default(),
            is_cut: Arc::default(),
        };
        let (world, target) = (world.clone(), target.to_owned());
        let (sent, to_port) = (Arc::clone(&relay.sent), Arc::clone(&relay.to_port));
        let is_cut = Arc::clone(&relay.is_cut);
        let spawn = Arc::clone(&world.spawn);
        let accepting = move || Self::accept(&world, &*listener, &target, &sent, &to_port, &is_cut);
        drop(spawn.spawn("relay", Box::new(accepting)));
        relay
    }

    fn accept(
        world: &World,
        listener: &dyn Listener,
        target: &str,
        sent: &Arc<Mutex<Vec<u8>>>,
        to_port: &Arc<Mutex<Option<Box<dyn Write + Send>>>>,
        is_cut: &Arc<AtomicBool>,
    ) {
        while let Ok(caller) = listener.accept() {
            let Ok(port) = world.net.connect(target, PATIENCE) else { return };
            *to_port.lock() = Some(port.writer);
            let (clock, back_clock) = (Arc::clone(&world.clock), Arc::clone(&world.clock));
            let (sent, writer, cut) = (Arc::clone(sent), Arc::clone(to_port), Arc::clone(is_cut));
            let forth = move || {
                pump(caller.reader, &cut, |bytes| {
                    sent.lock().extend_from_slice(bytes);
                    writer.lock().as_mut().is_some_and(|it| it.write_all(bytes).is_ok())
                });
                wait_while(&clock, &cut);
                (port.closer)();
            };
            let (mut back_to, cut) = (caller.writer, Arc::clone(is_cut));
            let back = move || {
                pump(port.reader, &cut, |bytes| back_to.write_all(bytes).is_ok());
                wait_while(&back_clock, &cut);
                (caller.closer)();
            };
            drop(world.spawn.spawn("relay", Box::new(forth)));
            drop(world.spawn.spawn("relay", Box::new(back)));
        }
    }

    fn inject(&self, bytes: &[u8]) {
        let mut writer = self.to_port.lock();
        writer.as_mut().expect("it is connected").write_all(bytes).expect("it is connected");
    }
}

/// Two nodes and a relay between, with heartbeats that are too rare to matter.
fn relayed(limits: ClusterLimits) -> (TestNode, TestNode, Relay) {
    let one = TestSettings { limits, ..TestSettings::of(1) }.start();
    let two = TestSettings { limits, ..TestSettings::of(2) }.start();
    let relay = Relay::start(&one.world, two.port.address());
    (one, two, relay)
}

#[test]
fn replayed_and_forged_frames_end_the_connection_and_reach_no_handler() {
    let limits = ClusterLimits { heartbeat: PATIENCE, ..TestSettings::of(1).limits };
    let (one, two, relay) = relayed(limits);
    let call =
        |body: &[u8]| one.peers.call(&relay.address, NodeId(2), ECHO, body.to_vec(), PATIENCE);
    assert!(call(b"first").is_ok());
    let before = relay.sent.lock().len();
    assert!(call(b"transfer one coin").is_ok());
    let frame = relay.sent.lock()[before..].to_vec();
    let damaged = || two.options.metrics.damaged_frames.get();
    // The same frame again.
    relay.inject(&frame);
    two.until(|| damaged() == 1);
    one.until(|| one.options.metrics.connections.get() == 0);
    // The next connection has other keys: the old frame is worth nothing there either.
    assert!(call(b"second").is_ok());
    relay.inject(&frame);
    two.until(|| damaged() == 2);
    one.until(|| one.options.metrics.connections.get() == 0);
    assert!(call(b"third").is_ok());
    relay.inject(&[0; 64]);
    two.until(|| damaged() == 3);
    let seen: Vec<Vec<u8>> = two.handler.seen.lock().iter().map(|it| it.2.clone()).collect();
    assert_eq!(seen, [&b"first"[..], b"transfer one coin", b"second", b"third"]);
}

#[test]
fn a_half_open_connection_is_given_up_by_both_sides() {
    let limits = ClusterLimits {
        heartbeat: Duration::from_millis(100),
        silence_max: Duration::from_secs(1),
        ..TestSettings::of(1).limits
    };
    let (one, two, relay) = relayed(limits);
    let call = |timeout| one.peers.call(&relay.address, NodeId(2), ECHO, b"x".to_vec(), timeout);
    assert!(call(PATIENCE).is_ok());
    relay.is_cut.store(true, Ordering::SeqCst);
    // No reset, no end: bytes just disappear. Both sides see it by the silence.
    let error = call(PATIENCE).expect_err("nobody answers");
    assert!(matches!(error, CallError::Lost { .. }), "{error}");
    two.until(|| two.options.metrics.connections.get() == 0);
    one.until(|| two.options.metrics.silent.get() == 1);
    assert_eq!(one.options.metrics.silent.get(), 1);
    relay.is_cut.store(false, Ordering::SeqCst);
    one.until(|| call(PATIENCE).is_ok());
}

#[test]
fn a_peer_that_takes_no_bytes_is_given_up() {
    let limits = ClusterLimits {
        write_max: Duration::from_millis(300),
        handshake: Duration::from_millis(500),
        ..TestSettings::of(1).limits
    };
    let one = TestSettings { limits, ..TestSettings::of(1) }.start();
    // A listener that accepts and never says a word.
    let mute = one.world.net.listen("127.0.0.1:0").expect("there is a free port");
    let address = mute.address().expect("it listens");
    let error = one.peers.call(&address, NodeId(2), ECHO, Vec::new(), PATIENCE);
    let error = error.expect_err("there is no handshake");
    assert!(matches!(&error, CallError::Unreachable { reason, .. } if reason.contains("too long")));
    assert!(!error.may_have_been_handled());
}

#[test]
fn a_port_of_another_protocol_is_told_apart() {
    let one = TestSettings::of(1).start();
    let other = one.world.net.listen("127.0.0.1:0").expect("there is a free port");
    let address = other.address().expect("it listens");
    let answering = move || {
        for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
            let Ok(mut connection) = other.accept() else { return };
            drop(connection.reader.read(&mut [0; 512]));
            drop(connection.writer.write_all(answer));
            (connection.closer)();
        }
    };
    let server = one.world.spawn.spawn("other server", Box::new(answering));
    let call = || one.peers.call(&address, NodeId(2), ECHO, Vec::new(), PATIENCE);
    let text = call().expect_err("it is no node").to_string();
    assert!(text.contains("is it a cluster port?"), "{text}");
    one.until(|| {
        let text = call().expect_err("it is no node").to_string();
        text.contains("does not speak the cluster protocol")
    });
    server.join();
}
