//! Arrow IPC from outside: what is refused before its decoder sees it.
//!
//! The decoder takes memory for as much as a compressed body says that it has, before it unpacks a
//! byte, and memory that is not there ends the process. Whether the decoder knows a compression at
//! all depends on how the program was built, so it is the heads of messages that are looked at.

use arrow_ipc::{CompressionType, Message, root_as_message};

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Refuses a message with a compressed body.
///
/// # Errors
/// It has one; by what it is compressed, in words.
pub fn refuse_compressed(message: Message<'_>) -> Result<(), String> {
    let dictionary = message.header_as_dictionary_batch().and_then(|it| it.data());
    let batch = message.header_as_record_batch().or(dictionary);
    let Some(compression) = batch.and_then(|batch| batch.compression()) else { return Ok(()) };
    let codec = match compression.codec() {
        CompressionType::LZ4_FRAME => "LZ4",
        CompressionType::ZSTD => "ZSTD",
        _ => "something unknown",
    };
    Err(format!("it is compressed by {codec}"))
}

/// Refuses an Arrow stream in which a message has a compressed body.
///
/// # Errors
/// One has, or a message is damaged; in words.
pub fn refuse_compressed_stream(mut bytes: &[u8]) -> Result<(), String> {
    let cut_off = || "a message is cut off".to_owned();
    while !bytes.is_empty() {
        // Before Arrow 0.15 a message began with its length.
        bytes = bytes.strip_prefix(&CONTINUATION).unwrap_or(bytes);
        let (length, rest) = bytes.split_first_chunk().ok_or_else(cut_off)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return Ok(());
        }
        let (head, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        let message =
            root_as_message(head).map_err(|error| format!("a message is damaged: {error}"))?;
        refuse_compressed(message)?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| cut_off())?;
        bytes = rest.split_at_checked(body).ok_or_else(cut_off)?.1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
