//! Connections within the machine, by whatever address, and what is none.

use super::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Both ends of a connection that was made to an address of this machine.
fn ends(address: IpAddr) -> io::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind((address, 0))?;
    let here = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(5))?;
    Ok([here, listener.accept()?.0])
}

/// The address that others would see, where the machine has one.
fn address_outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent: it only chooses a way.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[test]
fn connections_within_the_machine_are_not_paced() {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped().into();
    let v6 = Ipv6Addr::LOCALHOST.into();
    let always = ends(Ipv4Addr::LOCALHOST.into()).unwrap();
    let sometimes = [Some(mapped), Some(v6), address_outside()];
    let sometimes = sometimes.into_iter().flatten().filter_map(|it| ends(it).ok());
    for ends in [always].into_iter().chain(sometimes) {
        for end in ends {
            assert!(tune(&end), "{:?}", end.peer_addr());
            let name = sockopt::tcp_congestion(&end).unwrap();
            assert_eq!(name, UNPACED, "{:?}", end.peer_addr());
            assert!(end.nodelay().unwrap());
        }
    }
}

#[test]
fn what_is_no_connection_is_left_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = sockopt::tcp_congestion(&listener).unwrap();
    assert!(!tune(&listener));
    assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), before);
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(!tune(&datagrams));
}

#[test]
fn connections_of_the_world_are_tuned() {
    for end in ends(Ipv4Addr::LOCALHOST.into()).unwrap() {
        let same = end.try_clone().unwrap();
        assert!(connection(end).unwrap().is_within_machine);
        assert_eq!(sockopt::tcp_congestion(&same).unwrap(), UNPACED);
        assert!(same.nodelay().unwrap());
    }
}
