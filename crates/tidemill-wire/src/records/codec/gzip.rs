//! gzip (RFC 1952), by `flate2`.

use super::{Unfit, damaged};
use crate::records::inflate::Output;
use flate2::bufread::MultiGzDecoder;
use std::io::Read;

/// Bytes asked for at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Inflates members until the bytes end.
pub(crate) fn inflate(packed: &[u8], output: &mut Output<'_>) -> Result<(), Unfit> {
    let mut members = MultiGzDecoder::new(packed);
    loop {
        let length = members.read(output.room(PIECE_BYTES)).map_err(damaged)?;
        if length == 0 {
            return Ok(());
        }
        output.wrote(length)?;
    }
}
