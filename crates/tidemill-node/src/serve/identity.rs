//! The cluster's id: made once, kept in `DATA/cluster.json`.
//!
//! ```text
//! {"version":1,"cluster_id":"q1pXk0mBT7Wc3nRzVw5uYg","crc32c":"33801705"}
//! ```
//!
//! Invariant: an id that was told is never replaced. A file that does not read is an error, not a
//! reason for a new id.

use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::World;
use tidemill_types::ClusterId;
use tidemill_wire::json_seal::{seal, unseal};

#[cfg(test)]
mod tests;

const FILE: &str = "cluster.json";
const VERSION: u32 = 1;
/// Which of the world's random numbers the id is made of.
const PURPOSE: u64 = 0x636c_7573_7465_7200;
/// Digits of an id, as in Kafka: base 64 for addresses.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters that 128 bits take.
const ID_CHARS: usize = 22;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeIdentity {
    version: u32,
    cluster_id: String,
}

/// Where the id of a data folder is.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

/// The cluster that a data folder is of; none for a new folder.
///
/// # Errors
/// As [`cluster_id`].
pub(super) fn known_cluster(world: &World, data: &Path) -> io::Result<Option<ClusterId>> {
    if !world.disk.exists(&path(data))? {
        return Ok(None);
    }
    let id = cluster_id(world, data, None)?;
    let known = id.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some(known))
}

/// The cluster's id in a data folder; `wanted`, or a new one, if there is none.
///
/// # Errors
/// The disk's; [`io::ErrorKind::InvalidData`] if the file is damaged, or has another id than
/// `wanted`.
pub(super) fn cluster_id(world: &World, data: &Path, wanted: Option<&str>) -> io::Result<String> {
    let disk = &*world.disk;
    let path = path(data);
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let damaged = |why: &dyn std::fmt::Display| {
        bad(format!("it is damaged: {why}. Nothing was changed; bring it back from a copy"))
    };
    match disk.read(&path) {
        Ok(bytes) => {
            let json = unseal(&bytes).map_err(|error| damaged(&error))?;
            let identity: NodeIdentity =
                serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
            if identity.version != VERSION {
                return Err(bad(format!("version {} is not known", identity.version)));
            }
            match wanted {
                Some(wanted) if wanted != identity.cluster_id => Err(bad(format!(
                    "the data are those of cluster `{}`, not of `{wanted}`",
                    identity.cluster_id
                ))),
                _ => Ok(identity.cluster_id),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let cluster_id = wanted.map_or_else(|| new_id(world), str::to_owned);
            let identity = NodeIdentity { version: VERSION, cluster_id };
            let bytes = seal(&serde_json::to_vec(&identity)?);
            let new = data.join(format!("{FILE}.new"));
            let mut file = disk.create(&new)?;
            file.append(&bytes)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_dir(data)?;
            Ok(identity.cluster_id)
        }
        Err(error) => Err(error),
    }
}

fn new_id(world: &World) -> String {
    let mut random = world.random(PURPOSE);
    let bits = u128::from(random.next()) << 64 | u128::from(random.next());
    // Two bits are left over at the end, as in Kafka's ids: zero.
    let digit = |index: usize| {
        let end = 6 * (index + 1);
        let value = if end <= 128 { bits >> (128 - end) } else { bits << (end - 128) };
        char::from(DIGITS[(value & 63) as usize])
    };
    (0..ID_CHARS).map(digit).collect()
}
