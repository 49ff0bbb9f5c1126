//! The newest snapshot of the table in a file.
//!
//! ```text
//! raft-snapshot     one record: (version, last entry, membership, id, table)
//! ```
//!
//! It is written beside the old one and renamed over it, so that one of the two is always whole.

use crate::voter::{TableRaft, Voter};
use openraft::{Snapshot, SnapshotMeta};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::World;
use tidemill_wire::journal;

/// The version of the file.
pub(crate) const RAFT_SNAPSHOT_VERSION: u8 = 1;
const FILE: &str = "raft-snapshot";

#[derive(Serialize, Deserialize)]
struct SnapshotFile {
    version: u8,
    meta: SnapshotMeta<u64, Voter>,
    table: Vec<u8>,
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Writes a snapshot in the place of the one before.
pub(crate) fn write(
    world: &World,
    folder: &Path,
    meta: &SnapshotMeta<u64, Voter>,
    table: &[u8],
) -> io::Result<()> {
    let file =
        SnapshotFile { version: RAFT_SNAPSHOT_VERSION, meta: meta.clone(), table: table.to_vec() };
    let mut bytes = Vec::new();
    journal::append(&mut bytes, &postcard::to_stdvec(&file).expect("every field has an encoding"));
    let target = path(folder);
    let draft = target.with_extension("new");
    let mut file = world.disk.create(&draft)?;
    file.append(&bytes)?;
    file.sync()?;
    drop(file);
    world.disk.rename(&draft, &target)?;
    world.disk.sync_dir(folder)
}

/// The snapshot of a folder; none if none was made.
///
/// # Errors
/// The disk's; [`io::ErrorKind::InvalidData`] for a damaged file.
pub(crate) fn read(world: &World, folder: &Path) -> io::Result<Option<Snapshot<TableRaft>>> {
    let path = path(folder);
    let bytes = match world.disk.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let damaged = |why: &str| {
        let why = format!("{}: {why}; nothing was changed", path.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    let record = journal::first(&bytes).ok_or_else(|| damaged("it is damaged"))?;
    if record.first() != Some(&RAFT_SNAPSHOT_VERSION) {
        return Err(damaged("its version is not known to this program"));
    }
    let file: SnapshotFile =
        postcard::from_bytes(record).map_err(|error| damaged(&error.to_string()))?;
    Ok(Some(Snapshot { meta: file.meta, snapshot: Box::new(file.table) }))
}
