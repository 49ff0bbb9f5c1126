//! Which requests a node takes, in which versions.

use crate::error::CallError;
use bytes::Bytes;
use std::collections::BTreeMap;
use tidemill_wire::kafka::{ApiKey, ErrorCode, known_versions, message::ApiVersionsResponseData};

/// Requests that this client writes in no later version than this. From these versions on streams
/// are named by id alone, which the requests here do not have at hand.
const NEWEST: &[(ApiKey, i16)] = &[(ApiKey::OffsetCommit, 9), (ApiKey::OffsetFetch, 9)];

/// The versions that a node takes, by request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// Reads a node's answer.
    pub(super) fn read(content: &mut Bytes, version: i16) -> Result<Self, String> {
        let answer = ApiVersionsResponseData::read(content, version);
        let answer = <Result<_, _>>::map_err(answer, |error| error.to_string())?;
        match ErrorCode::from(answer.error_code) {
            ErrorCode::None => {}
            code => return Err(format!("{code:?}")),
        }
        let versions = answer.api_keys.iter();
        Ok(Self(versions.map(|it| (it.api_key, (it.min_version, it.max_version))).collect()))
    }

    /// The newest version that both sides know.
    pub(crate) fn pick(&self, api: ApiKey, address: &str) -> Result<i16, CallError> {
        let ours = known_versions(api);
        let newest =
            NEWEST.iter().find(|(it, _)| *it == api).map_or(i16::MAX, |(_, newest)| *newest);
        let newest = newest.min(*ours.end());
        let theirs = self.0.get(&(api as i16));
        let picked = theirs.and_then(|(oldest, newest_there)| {
            let version = newest.min(*newest_there);
            (version >= *ours.start() && version >= *oldest).then_some(version)
        });
        picked.ok_or_else(|| CallError::Unsupported {
            address: address.to_owned(),
            api,
            ours: format!("{} to {newest}", ours.start()),
            theirs: theirs.map_or("none".to_owned(), |(from, to)| format!("{from} to {to}")),
        })
    }
}

#[cfg(test)]
mod tests;
