//! Where a reader begins, and where it goes on: `earliest`, `latest`, `17`, or `2:17,0:5`.
//!
//! The last form has an offset for each streamlet, in the order in which they are read: an answer
//! that was full says the streamlets that had no turn first.

use super::problem::Problem;
use std::fmt::Write;
use tidemill_types::{Offset, StreamletIx};

#[cfg(test)]
mod tests;

/// The place of a reader in one streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadPosition {
    pub(super) streamlet: StreamletIx,
    /// The next record to read.
    pub(super) offset: Offset,
}

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Earliest,
    Latest,
    /// In the one streamlet that is read.
    Offset(Offset),
    /// In each of these streamlets.
    Each(Vec<ReadPosition>),
}

impl From {
    /// Reads the parameter `from`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected `earliest`, `latest`, an offset, or what the header \
                                `Tidemill-Next` of the last answer said";
        let offset = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
            plain.then(|| text.parse::<i64>().ok()).flatten().ok_or(EXPECTED)
        };
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            text if !text.contains(':') => offset(text).map(|it| Self::Offset(Offset(it))),
            text => {
                let one = |part: &str| {
                    let (streamlet, at) = part.split_once(':').ok_or(EXPECTED)?;
                    let streamlet = u32::try_from(offset(streamlet)?).map_err(|_| EXPECTED)?;
                    let (streamlet, offset) = (StreamletIx(streamlet), Offset(offset(at)?));
                    Ok(ReadPosition { streamlet, offset })
                };
                text.split(',').map(one).collect::<Result<_, _>>().map(Self::Each)
            }
        }
    }

    /// The offset in each streamlet of `streamlets`, in the order in which they are read. `ends`
    /// gives a streamlet's first offset and the one after its last.
    pub(super) fn positions(
        &self,
        streamlets: &[StreamletIx],
        ends: impl Fn(StreamletIx) -> Result<(Offset, Offset), Problem>,
    ) -> Result<Vec<ReadPosition>, Problem> {
        let each = |pick: &dyn Fn(StreamletIx) -> Result<Offset, Problem>| {
            let one = |it: &StreamletIx| Ok(ReadPosition { streamlet: *it, offset: pick(*it)? });
            streamlets.iter().map(one).collect()
        };
        match self {
            Self::Earliest => each(&|it| Ok(ends(it)?.0)),
            Self::Latest => each(&|it| Ok(ends(it)?.1)),
            Self::Offset(offset) if streamlets.len() == 1 => each(&|_| Ok(*offset)),
            Self::Offset(_) => Err(Problem::bad(
                "an offset is one of a streamlet, and the stream has several: say which with \
                 `streamlet`",
            )),
            Self::Each(positions) => {
                let mut said: Vec<StreamletIx> = positions.iter().map(|it| it.streamlet).collect();
                said.sort_unstable();
                if said.windows(2).any(|two| two[0] == two[1])
                    || said.iter().any(|it| streamlets.binary_search(it).is_err())
                {
                    return Err(Problem::bad(
                        "`from` names a streamlet twice, or one that is not read",
                    ));
                }
                // Streamlets that came since are read from their start.
                let new = streamlets.iter().filter(|it| said.binary_search(it).is_err());
                let new = new.map(|it| Ok(ReadPosition { streamlet: *it, offset: ends(*it)?.0 }));
                positions.iter().copied().map(Ok).chain(new).collect()
            }
        }
    }
}

/// As [`From::parse`] reads it.
pub(super) fn text(positions: &[ReadPosition]) -> String {
    let mut text = String::new();
    for ReadPosition { streamlet, offset } in positions {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{streamlet}:{offset}");
    }
    text
}
