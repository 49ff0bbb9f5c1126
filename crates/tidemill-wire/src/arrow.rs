//! Checks of Arrow IPC from outside, before its decoder sees it: compressed bodies are refused.
//!
//! The decoder allocates as much as a compressed body claims before it unpacks a byte, and a failed
//! allocation ends the process. The features of the build decide which compressions the decoder
//! knows, so the check reads the heads of messages.

use arrow_ipc::{CompressionType, Message, root_as_message};

const CONTINUATION: [u8; 4] = [0xff; 4];
/// The first bytes of a file, and, without the zeros, its last ones.
const MAGIC: &[u8; 8] = b"ARROW1\0\0";

/// Refuses a message with a compressed body.
///
/// # Errors
/// The body is compressed; the message names the compression.
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

/// Refuses an Arrow file in which a message has a compressed body. Gives back its messages, which
/// are a stream: a decoder of streams takes nothing for the lengths that the file's footer claims.
///
/// # Errors
/// One has, or a message is damaged, or the file is not whole; in words.
pub fn refuse_compressed_file(bytes: &[u8]) -> Result<&[u8], String> {
    let not_whole = || "it is no Arrow file that is whole".to_owned();
    let rest = bytes.strip_prefix(MAGIC).and_then(|rest| rest.strip_suffix(&MAGIC[..6]));
    let (rest, footer) = rest.and_then(|rest| rest.split_last_chunk()).ok_or_else(not_whole)?;
    let footer = u32::from_le_bytes(*footer) as usize;
    let end = rest.len().checked_sub(footer).ok_or_else(not_whole)?;
    // After the magic a writer may leave zeros, up to its alignment.
    let zeros = rest[..end].iter().take_while(|byte| **byte == 0).count();
    let messages = &rest[zeros / 8 * 8..end];
    refuse_compressed_stream(messages)?;
    Ok(messages)
}

#[cfg(test)]
mod tests;
