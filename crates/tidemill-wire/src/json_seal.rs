//! Small JSON files that a flipped bit must not change: an object whose last member is the CRC-32C
//! of the bytes before it.
//!
//! ```text
//! {"held":4,"offsets":[7]}  ─seal─▶  {"held":4,"offsets":[7],"crc32c":"89edb6bc"}
//! ```
//!
//! It is still JSON for people and their tools. A file without that member is of a program before
//! there was one, and is taken as it is.

use crate::chunk::crc32c;

/// The text between the object's members and their checksum.
const LABEL: &[u8] = b",\"crc32c\":\"";
/// Behind the checksum.
const END: &[u8] = b"\"}";
/// Digits of the checksum.
const DIGITS: usize = 8;

/// The file's checksum is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its checksum is not that of what it says")]
pub struct BrokenSeal;

/// A JSON object with its checksum. Other values and the empty object stay as they are.
#[must_use]
pub fn seal(json: &[u8]) -> Vec<u8> {
    let Some(body) = json.trim_ascii_end().strip_suffix(b"}") else { return json.to_vec() };
    if body.trim_ascii_end().ends_with(b"{") {
        return json.to_vec();
    }
    let checksum = format!("{:08x}", crc32c(body));
    [body, LABEL, checksum.as_bytes(), END].concat()
}

/// The object as it was, without its checksum.
///
/// # Errors
/// The checksum is that of something else.
pub fn unseal(bytes: &[u8]) -> Result<Vec<u8>, BrokenSeal> {
    let parts = bytes.strip_suffix(END).and_then(|it| it.split_last_chunk::<DIGITS>());
    let Some((body, digits)) =
        parts.and_then(|(it, digits)| Some((it.strip_suffix(LABEL)?, digits)))
    else {
        return Ok(bytes.to_vec());
    };
    let said = std::str::from_utf8(digits).ok().and_then(|it| u32::from_str_radix(it, 16).ok());
    if said != Some(crc32c(body)) {
        return Err(BrokenSeal);
    }
    Ok([body, b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_is_sealed_and_what_has_no_seal_is_taken_as_it_is() {
        let sealed = seal(br#"{"held":4,"offsets":[7]}"#);
        assert_eq!(sealed, br#"{"held":4,"offsets":[7],"crc32c":"89edb6bc"}"#);
        assert_eq!(unseal(&sealed).as_deref(), Ok(&br#"{"held":4,"offsets":[7]}"#[..]));
        for plain in [&b"{}"[..], b"{ }\n", b"[1]", b"", br#"{"a":1}"#] {
            assert_eq!(unseal(plain).as_deref(), Ok(plain));
        }
        assert_eq!((seal(b"{ }\n"), seal(b"[1]")), (b"{ }\n".to_vec(), b"[1]".to_vec()));
    }

    proptest! {
        /// A flipped bit, also one of the seal, is found or leaves the content as it was.
        #[test]
        fn a_flipped_bit_changes_nothing(text in "[a-z\"{}:, ]{0,40}", at: prop::sample::Index, bit in 0..8_u8) {
            let json = serde_json::to_vec_pretty(&serde_json::json!({ "text": text, "n": 4 })).expect("JSON");
            let mut bytes = seal(&json);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(read) = unseal(&bytes)
                && let Ok(mut read) = serde_json::from_slice::<serde_json::Value>(&read)
            {
                let expected: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
                read.as_object_mut().expect("an object").retain(|key, _| key == "text" || key == "n");
                prop_assert_eq!(read, expected);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _outcome = (unseal(&bytes), seal(&bytes));
        }
    }
}
