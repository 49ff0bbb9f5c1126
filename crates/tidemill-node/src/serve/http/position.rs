//! Where a reader begins, and where it goes on: `earliest`, `latest`, `17`, or `2:17,0:5`.
//!
//! The last form has an offset for each streamlet, in the order in which they are read: an answer
//! that was full says the streamlets that had no turn first.

use super::problem::Problem;
use std::fmt::Write;

#[cfg(test)]
mod tests;

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Earliest,
    Latest,
    /// In the one streamlet that is read.
    Offset(i64),
    /// Streamlets and offsets.
    Each(Vec<(u32, i64)>),
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
            text if !text.contains(':') => offset(text).map(Self::Offset),
            text => {
                let one = |part: &str| {
                    let (streamlet, at) = part.split_once(':').ok_or(EXPECTED)?;
                    let streamlet = u32::try_from(offset(streamlet)?).map_err(|_| EXPECTED)?;
                    Ok((streamlet, offset(at)?))
                };
                text.split(',').map(one).collect::<Result<_, _>>().map(Self::Each)
            }
        }
    }

    /// The offset in each streamlet of `streamlets`, in the order in which they are read. `ends`
    /// gives a streamlet's first offset and the one after its last.
    pub(super) fn positions(
        &self,
        streamlets: &[u32],
        ends: impl Fn(u32) -> Result<(i64, i64), Problem>,
    ) -> Result<Vec<(u32, i64)>, Problem> {
        let each = |pick: &dyn Fn(u32) -> Result<i64, Problem>| {
            streamlets.iter().map(|it| Ok((*it, pick(*it)?))).collect()
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
                let mut said: Vec<u32> = positions.iter().map(|(it, _)| *it).collect();
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
                let new = new.map(|it| Ok((*it, ends(*it)?.0)));
                positions.iter().copied().map(Ok).chain(new).collect()
            }
        }
    }
}

/// As [`From::parse`] reads it.
pub(super) fn text(positions: &[(u32, i64)]) -> String {
    let mut text = String::new();
    for (streamlet, offset) in positions {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{streamlet}:{offset}");
    }
    text
}
