//! Checkpoints in a table of HBase, through its REST gateway.
//!
//! ```text
//! row JOB.owner        t:v  whose it is
//! row JOB.value.HEX    t:v  the value of a key, sealed
//! ```
//!
//! Puts go out in parallel, many in a request, then rows are deleted. A row that was put is in the
//! log of its region server. The owner is checked before each batch, and written by a
//! check-and-put.
//!
//! A deletion hides a put to the same row in the same millisecond, so a batch with deletions takes
//! a moment longer. The clocks of region servers must not go back by more, which HBase itself
//! demands.

mod gateway;
mod message;

use crate::{
    remote::{hex, unhex},
    runtime::Runtime,
    seal::seal,
    store::{Changes, OwnerCheck, Store},
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use gateway::Gateway;
use message::{CellSet, scanner};
use std::time::Duration;
use tidemill_checkpoints::BackendError;
use tidemill_types::job::HbaseSpec;

/// The requests in flight at once.
const REQUESTS: usize = 8;
/// The bytes of values in one request, unless a single one is longer.
const REQUEST_BYTES: usize = 2 << 20;
/// The values in one request.
const REQUEST_VALUES: usize = 1_000;
/// The keys listed at once.
const PAGE_KEYS: u32 = 1_000;
/// The longest cell that HBase takes by default (`hbase.client.keyvalue.maxsize`), less the bytes
/// around the value.
const VALUE_BYTES_MAX: usize = (10 << 20) - (64 << 10);
/// A pause longer than the unit of HBase's time.
const AFTER_DELETING: Duration = Duration::from_millis(2);

/// The place of a job in a table of HBase.
pub(crate) struct HbaseTable {
    gateway: Gateway,
    job: String,
    runtime: Runtime,
}

impl HbaseTable {
    /// Parses the address. Sends no request.
    pub(crate) fn new(spec: &HbaseSpec, job: &str) -> Result<Self, BackendError> {
        let gateway = Gateway::new(spec, job)?;
        let runtime = Runtime::new().map_err(|error| {
            let why = format!("there is no room for its client: {error}");
            BackendError::Refused { place: gateway.place().to_owned(), why }
        })?;
        Ok(Self { gateway, job: job.to_owned(), runtime })
    }

    fn owner_row(&self) -> String {
        format!("{}.owner", self.job)
    }

    /// A name's last point stands before the key: a job's name has none.
    fn row(&self, key: &[u8]) -> String {
        format!("{}.value.{}", self.job, hex(key))
    }

    fn key_of(&self, row: &str) -> Option<Vec<u8>> {
        unhex(row.strip_prefix(&self.job)?.strip_prefix(".value.")?)
    }

    async fn put_all(&self, puts: &[(&[u8], &[u8])]) -> Result<(), BackendError> {
        let send = |part: &[(&[u8], &[u8])]| {
            let mut cells = CellSet::default();
            for (key, value) in part {
                cells.put(&self.row(key), &[&seal(key, value)]);
            }
            async move { self.gateway.put(cells).await }
        };
        let requests = stream::iter(parts(puts).map(send));
        requests.buffer_unordered(REQUESTS).try_collect().await
    }

    async fn delete_all(&self, deletes: &[&[u8]]) -> Result<(), BackendError> {
        if deletes.is_empty() {
            return Ok(());
        }
        let delete = |key: &&[u8]| {
            let row = self.row(key);
            async move { self.gateway.delete(&row).await }
        };
        let requests = stream::iter(deletes.iter().map(delete));
        requests.buffer_unordered(REQUESTS).try_collect::<()>().await?;
        tokio::time::sleep(AFTER_DELETING).await;
        Ok(())
    }
}

/// Splits changes into requests.
fn parts<'a>(
    mut puts: &'a [(&'a [u8], &'a [u8])],
) -> impl Iterator<Item = &'a [(&'a [u8], &'a [u8])]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, value): &&(&[u8], &[u8])| {
            bytes += value.len();
            bytes <= REQUEST_BYTES
        };
        let count = puts.iter().take(REQUEST_VALUES).take_while(fits).count();
        let (part, rest) = puts.split_at(count.max(1).min(puts.len()));
        puts = rest;
        (!part.is_empty()).then_some(part)
    })
}

impl Store for HbaseTable {
    fn place(&self) -> &str {
        self.gateway.place()
    }

    fn how_to_free(&self) -> String {
        let (table, row) = (self.gateway.table(), self.owner_row());
        format!("delete its record: `deleteall '{table}', '{row}'` in `hbase shell`")
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn owner(&self) -> Result<Option<Bytes>, BackendError> {
        self.runtime.run(async {
            // A row of a table that is not there is not there either.
            self.gateway.check_table().await?;
            self.gateway.get(&self.owner_row()).await
        })
    }

    fn claim(&self, record: &[u8]) -> Result<(), BackendError> {
        let row = self.owner_row();
        let mut cells = CellSet::default();
        // What is put, then what is there before: nothing.
        cells.put(&row, &[record, b""]);
        self.runtime.run(self.gateway.put_checked(&row, cells))
    }

    fn free(&self, owner: &OwnerCheck<'_>) -> Result<(), BackendError> {
        let row = self.owner_row();
        self.runtime.run(async {
            owner(self.gateway.get(&row).await?.as_deref())?;
            self.gateway.delete(&row).await?;
            // What is put next is not hidden by it.
            tokio::time::sleep(AFTER_DELETING).await;
            Ok(())
        })
    }

    fn apply(&self, owner: &OwnerCheck<'_>, changes: &Changes<'_>) -> Result<(), BackendError> {
        self.runtime.run(async {
            owner(self.gateway.get(&self.owner_row()).await?.as_deref())?;
            self.put_all(&changes.puts).await?;
            self.delete_all(&changes.deletes).await
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.runtime.run(self.gateway.get(&self.row(key)))
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let from = self.row(prefix);
        // Digits and letters come before it.
        let scan = scanner(&from, &format!("{from}~"), PAGE_KEYS);
        let rows = self.runtime.run(self.gateway.rows(scan))?;
        Ok(rows.iter().filter_map(|row| self.key_of(row)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_dealt_out_to_requests() {
        let value = vec![0; REQUEST_BYTES / 2];
        let long = vec![0; 3 * REQUEST_BYTES];
        let puts: Vec<(&[u8], &[u8])> =
            vec![(b"1", &value), (b"2", &value), (b"3", &value), (b"4", &long), (b"5", b"")];
        let counts: Vec<_> = parts(&puts).map(<[_]>::len).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
        let many = vec![(&b"key"[..], &b""[..]); 2 * REQUEST_VALUES + 1];
        let counts: Vec<_> = parts(&many).map(<[_]>::len).collect();
        assert_eq!(counts, [REQUEST_VALUES, REQUEST_VALUES, 1]);
        assert_eq!(parts(&[]).count(), 0);
    }
}
