//! The writer thread of a connection: everything that waits goes out with few calls to the system.

use super::connection_core::{ConnectionCore, OutgoingRequest};
use std::{
    io::{self, IoSlice, Write},
    sync::Arc,
};

/// Pieces that go out with one call.
const PIECES_MAX: usize = 64;

/// The body of the writer thread, once the connection stands.
pub(super) fn run(shared: &Arc<ConnectionCore>) {
    let mut taken: Vec<OutgoingRequest> = Vec::new();
    while shared.take_queue(&mut taken) {
        shared.write(&mut taken);
    }
}

/// Writes all requests.
///
/// # Errors
/// The socket's.
pub(super) fn write_all(out: &mut dyn Write, requests: &[OutgoingRequest]) -> io::Result<()> {
    let pieces = requests.iter().flat_map(|it| &it.pieces);
    let mut pieces = pieces.filter(|it| !it.is_empty()).peekable();
    while pieces.peek().is_some() {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces.by_ref()) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        let mut rest = &mut slices[..count];
        while !rest.is_empty() {
            match out.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
