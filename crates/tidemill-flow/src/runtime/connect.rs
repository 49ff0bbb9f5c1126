//! Connections between the processes of a job: each listens, and the higher number connects.

use super::peer::Peer;
use crate::engine::Processes;
use crate::error::StartError;
use std::{io, sync::Arc, time::Duration};
use tidemill_env::{Connection, World};
use tidemill_types::{Cycle, ProcessIx};
use tidemill_wire::link::{FrameHead, FrameKind, HEAD_BYTES};

/// The time that a process waits for another one to listen.
const CONNECT_TIMEOUT_US: u64 = 10_000_000;
/// Pause between two attempts to connect.
const RETRY_US: u64 = 20_000;

/// A process and the connection to it.
type Reached = (Arc<Peer>, Connection);

/// Connects to all other processes; by number, none for this one.
pub(crate) fn all(
    world: &World,
    processes: &Processes,
    job: &str,
) -> Result<Vec<Option<Reached>>, StartError> {
    let (me, count) = (processes.me.index(), processes.addresses.len());
    let mut peers: Vec<Option<Reached>> = (0..count).map(|_| None).collect();
    let fail = |name: &str, error: io::Error| StartError::Open {
        name: name.to_owned(),
        message: error.to_string(),
    };
    if me + 1 < count {
        let address = &processes.addresses[me];
        let listener = world.net.listen(address).map_err(|error| fail(address, error))?;
        for _ in me + 1..count {
            let mut connection = listener.accept().map_err(|error| fail(address, error))?;
            let number = read_hello(&mut connection, job).map_err(|error| fail(address, error))?;
            match peers.get_mut(number.index()) {
                Some(slot @ None) if number > processes.me => {
                    *slot = Some((Peer::new(format!("process {number}")), connection));
                }
                _ => {
                    let message = format!("process {number} is not expected here");
                    return Err(fail(address, io::Error::other(message)));
                }
            }
        }
    }
    for (number, address) in processes.addresses.iter().enumerate().take(me) {
        let mut connection = reach(world, address).map_err(|error| fail(address, error))?;
        write_hello(&mut connection, processes.me, job).map_err(|error| fail(address, error))?;
        peers[number] = Some((Peer::new(format!("process {number}")), connection));
    }
    Ok(peers)
}

fn reach(world: &World, address: &str) -> io::Result<Connection> {
    let give_up = world.clock.monotonic_micros() + CONNECT_TIMEOUT_US;
    loop {
        match world.net.connect(address, Duration::from_secs(1)) {
            Ok(connection) => return Ok(connection),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            Err(error) if world.clock.monotonic_micros() >= give_up => return Err(error),
            Err(_) => world.clock.sleep_micros(RETRY_US),
        }
    }
}

/// A hello names its process (`link`) and the job (checksum of its name).
fn hello(me: ProcessIx, job: &str) -> FrameHead {
    let job = tidemill_wire::link::checksum(&[job.as_bytes()]);
    let cycle = Cycle::NONE;
    FrameHead { link: me.0, lane: job, cycle, ..FrameHead::bare(FrameKind::Hello) }
}

fn write_hello(connection: &mut Connection, me: ProcessIx, job: &str) -> io::Result<()> {
    connection.writer.write_all(&hello(me, job).encode())
}

fn read_hello(connection: &mut Connection, job: &str) -> io::Result<ProcessIx> {
    let mut head = [0; HEAD_BYTES];
    connection.reader.read_exact(&mut head)?;
    let head = FrameHead::decode(&head).map_err(io::Error::other)?;
    let number = ProcessIx(head.link);
    if head == hello(number, job) {
        Ok(number)
    } else {
        Err(io::Error::other("the process that connected runs another job"))
    }
}
