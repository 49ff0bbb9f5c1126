//! The rules of the network, by hand and by seed; and that it keeps the contract of the real one.

use super::*;
use crate::{Connection, Random, World};
use std::io::{self, ErrorKind, Read, Write};

const SECOND: Duration = Duration::from_secs(1);

/// A network of real threads with these hosts.
fn hosts<const COUNT: usize>(names: [&str; COUNT]) -> (SimNet, [Arc<dyn Net>; COUNT]) {
    let net = SimNet::new(1);
    let hosts = names.map(|name| net.host(name));
    (net, hosts)
}

/// Both ends of a connection, that of the connecting host first.
fn ends(from: &dyn Net, to: &dyn Net, address: &str) -> [Connection; 2] {
    let listener = to.listen(address).unwrap();
    let here = from.connect(&listener.address().unwrap(), SECOND).unwrap();
    [here, listener.accept().unwrap()]
}

/// The kind of a result's error.
fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// All bytes to the end of a connection.
fn read_all(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    connection.reader.read_to_end(&mut bytes).unwrap();
    bytes
}

/// The contract of every network.
fn net_contract(net: &dyn Net, address: &str) {
    let listener = net.listen(address).unwrap();
    let address = listener.address().unwrap();
    assert_eq!(kind(net.listen(&address)), Some(ErrorKind::AddrInUse));
    assert_eq!(kind(net.listen("no address")), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(net.connect("no address", SECOND)), Some(ErrorKind::InvalidInput));

    let mut client = net.connect(&address, SECOND).unwrap();
    client.writer.write_all(b"before it is accepted").unwrap();
    let mut server = listener.accept().unwrap();
    assert!(client.is_within_machine && server.is_within_machine);
    assert_eq!(client.peer, address.replace("0.0.0.0", "node"));
    let mut into = [0; 21];
    server.reader.read_exact(&mut into).unwrap();
    assert_eq!(&into, b"before it is accepted");
    server.writer.write_all(b"last words").unwrap();
    (server.closer)();
    assert_eq!(kind(server.writer.write(b"more")), Some(ErrorKind::BrokenPipe));
    assert_eq!(server.reader.read(&mut into).unwrap(), 0, "a closed end reads no more");
    assert_eq!(read_all(&mut client), b"last words");
    assert_eq!(client.reader.read(&mut into).unwrap(), 0, "the end stays the end");
    let error = loop {
        if let Err(error) = client.writer.write(b"to nobody") {
            break error.kind();
        }
    };
    assert!(matches!(error, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");

    let client = net.connect(&address, SECOND).unwrap();
    let mut waits = listener.accept().unwrap();
    drop(client);
    assert_eq!(waits.reader.read(&mut into).unwrap(), 0, "dropped handles close a socket");
    let mut client = net.connect(&address, SECOND).unwrap();
    client.writer.write_all(b"unread").unwrap();
    drop(listener);
    let error = kind(client.reader.read(&mut into));
    assert_eq!(error, Some(ErrorKind::ConnectionReset), "it was never accepted");
    assert_eq!(kind(net.connect(&address, SECOND)), Some(ErrorKind::ConnectionRefused));
    drop(net.listen(&address).expect("the address is free again"));
}

#[test]
fn both_networks_keep_the_contract() {
    net_contract(&*World::real().net, "127.0.0.1:0");
    let (_, [node]) = hosts(["node"]);
    net_contract(&*node, "node:0");
    net_contract(&*node, "0.0.0.0:7088");
}

#[test]
fn names_lead_to_hosts_and_loopback_to_oneself() {
    let (_, [a, b]) = hosts(["a", "b"]);
    let on_name = a.listen("a:1").unwrap();
    let on_loopback = a.listen("localhost:1").unwrap();
    assert_eq!(on_name.address().unwrap(), "a:1");
    assert_eq!(kind(a.listen("0.0.0.0:1")), Some(ErrorKind::AddrInUse));
    assert_eq!(kind(a.listen("b:2")), Some(ErrorKind::AddrNotAvailable));
    assert_eq!(kind(b.connect("c:1", SECOND)), Some(ErrorKind::NotFound));
    assert_eq!(kind(b.connect("localhost:1", SECOND)), Some(ErrorKind::ConnectionRefused));
    assert_eq!(kind(b.connect("a:2", SECOND)), Some(ErrorKind::ConnectionRefused));
    let remote = b.connect("a:1", SECOND).unwrap();
    let local = a.connect("127.0.0.1:1", SECOND).unwrap();
    assert!(!remote.is_within_machine && local.is_within_machine);
    assert_eq!(remote.peer, "a:1");
    let accepted = on_name.accept().unwrap();
    assert!(!accepted.is_within_machine);
    assert!(accepted.peer.starts_with("b:"), "{}", accepted.peer);
    assert!(on_loopback.accept().unwrap().is_within_machine);
    let all = b.listen("0.0.0.0:0").unwrap();
    let port = all.address().unwrap().strip_prefix("0.0.0.0:").unwrap().to_owned();
    assert!(a.connect(&format!("b:{port}"), SECOND).is_ok());
}

#[test]
fn a_way_that_is_cut_blocks_one_direction_and_loses_nothing() {
    let (net, [a, b]) = hosts(["a", "b"]);
    let [mut at_a, mut at_b] = ends(&*a, &*b, "b:1");
    net.partition("a", "b");
    at_a.writer.write_all(b"waits").unwrap();
    at_b.writer.write_all(b"arrives").unwrap();
    let mut into = [0; 7];
    at_a.reader.read_exact(&mut into).unwrap();
    assert_eq!(&into, b"arrives");
    assert_eq!(kind(a.connect("b:1", Duration::from_millis(1))), Some(ErrorKind::TimedOut));
    assert_eq!(kind(b.connect("a:1", Duration::from_millis(1))), Some(ErrorKind::TimedOut));
    net.set_link("a", "b", SimLink { resend_us: 0, ..SimLink::INSTANT });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut into = [0; 5];
            at_b.reader.read_exact(&mut into).unwrap();
            into
        });
        net.heal();
        assert_eq!(&reader.join().unwrap(), b"waits");
    });
}

#[test]
fn an_end_that_was_reset_behind_a_cut_can_be_closed_by_its_owner() {
    let (net, [a, b]) = hosts(["a", "b"]);
    let [mut at_a, _at_b] = ends(&*a, &*b, "b:1");
    net.unplug("a");
    net.reset("a", "b");
    let closer = Arc::clone(&at_a.closer);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || at_a.reader.read(&mut [0; 5]).ok());
        closer();
        assert_eq!(reader.join().unwrap(), Some(0));
    });
}

#[test]
fn a_writer_waits_for_room_and_for_acknowledgements() {
    let (net, [a, b]) = hosts(["a", "b"]);
    net.set_links(SimLink { buffer_bytes: 10, resend_us: 0, ..SimLink::INSTANT });
    let [mut at_a, mut at_b] = ends(&*a, &*b, "b:1");
    assert_eq!(at_a.writer.write(&[1; 100]).unwrap(), 10);
    let mut into = [0; 4];
    at_b.reader.read_exact(&mut into).unwrap();
    assert_eq!(at_a.writer.write(&[1; 100]).unwrap(), 4);
    // Acknowledgements take the way back.
    net.partition("b", "a");
    at_b.reader.read_exact(&mut [0; 10]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| at_a.writer.write(&[1; 100]).unwrap());
        net.heal_way("b", "a");
        assert_eq!(writer.join().unwrap(), 10);
    });
    drop(at_a);
    assert_eq!(read_all(&mut at_b).len(), 10);
}

#[test]
fn a_killed_process_is_closed_by_its_system() {
    let (net, [a, b]) = hosts(["a", "b"]);
    let listener = b.listen("b:1").unwrap();
    let [mut read_a, mut read_b] = ends(&*a, &*b, "b:2");
    let [mut unread_a, unread_b] = ends(&*a, &*b, "b:3");
    read_b.writer.write_all(b"last words").unwrap();
    unread_a.writer.write_all(b"unread").unwrap();
    net.kill("b");
    assert_eq!(read_all(&mut read_a), b"last words");
    assert_eq!(kind(unread_a.reader.read(&mut [0])), Some(ErrorKind::ConnectionReset));
    assert_eq!(kind(a.connect("b:1", SECOND)), Some(ErrorKind::ConnectionRefused));
    // Nothing of the dead process does anything.
    assert!(listener.accept().is_err() && listener.address().is_err());
    assert!(read_b.writer.write(b"x").is_err() && read_b.reader.read(&mut [0]).is_err());
    assert!(b.listen("b:9").is_err() && b.connect("a:1", SECOND).is_err());
    let restarted = net.host("b");
    let listener_again = restarted.listen("b:1").expect("the address is free");
    drop((listener, unread_b, read_b));
    let _connection = a.connect("b:1", SECOND).expect("the old handle closes nothing");
    assert!(listener_again.accept().is_ok());
}

#[test]
fn a_host_without_power_is_silent_until_it_is_back() {
    let (net, [a, b]) = hosts(["a", "b"]);
    net.set_links(SimLink { resend_us: 0, ..SimLink::INSTANT });
    let [mut speaks, _at_b] = ends(&*a, &*b, "b:1");
    let [mut listens, mut other] = ends(&*a, &*b, "b:2");
    other.writer.write_all(b"on the wire").unwrap();
    net.power_cut("b");
    speaks.writer.write_all(b"to nobody").unwrap();
    listens.reader.read_exact(&mut [0; 11]).unwrap();
    assert_eq!(kind(a.connect("b:1", Duration::from_millis(1))), Some(ErrorKind::TimedOut));
    assert!(other.writer.write(b"x").is_err());
    net.power_on("b");
    assert_eq!(kind(a.connect("b:1", SECOND)), Some(ErrorKind::ConnectionRefused));
    assert_eq!(kind(speaks.reader.read(&mut [0])), Some(ErrorKind::ConnectionReset));
    // It only listens, so it is half-open until it sends.
    let before = net.counts().resets;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| kind(listens.reader.read(&mut [0])));
        listens.writer.write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), Some(ErrorKind::ConnectionReset));
    });
    assert_eq!(net.counts().resets, before + 1);
}

#[test]
fn an_end_that_was_forgotten_is_found_out_by_sending() {
    let (net, [a, b]) = hosts(["a", "b"]);
    let [mut at_a, mut at_b] = ends(&*a, &*b, "b:1");
    net.forget("b", "a");
    assert_eq!(kind(at_b.reader.read(&mut [0])), Some(ErrorKind::ConnectionReset));
    assert_eq!(at_b.reader.read(&mut [0]).unwrap(), 0, "it is told once");
    assert_eq!(at_a.writer.write(b"first").unwrap(), 5, "it knows nothing");
    assert_eq!(kind(at_a.writer.write(b"second")), Some(ErrorKind::ConnectionReset));
    assert_eq!(kind(at_a.writer.write(b"third")), Some(ErrorKind::BrokenPipe));
    let [mut at_a, mut at_b] = ends(&*a, &*b, "b:1");
    at_b.writer.write_all(b"arrived").unwrap();
    net.reset("a", "b");
    assert_eq!(kind(at_b.writer.write(b"x")), Some(ErrorKind::ConnectionReset));
    at_a.reader.read_exact(&mut [0; 7]).expect("it had arrived");
    assert_eq!(kind(at_a.reader.read(&mut [0])), Some(ErrorKind::ConnectionReset));
}

#[cfg(debug_assertions)]
mod seeds;
