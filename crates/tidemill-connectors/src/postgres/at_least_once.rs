//! Each row once within a life of the job, which keeps no cycle's number: one that is started again
//! writes its rows again.
//!
//! A connection that breaks while a transaction is committed leaves the question whether it was; the
//! server knows the answer by the transaction's number.

use super::fault::database_error;
use super::load::{Load, PendingCycle};
use super::session::{BEGIN, Session};
use tidemill_flow::SinkError;
use tokio_postgres::Client;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AtLeastOnce {
    /// The transaction whose end is not known.
    in_doubt: Option<i64>,
}

impl AtLeastOnce {
    /// Commits the rows; returns when they are there.
    pub(super) fn commit(
        &mut self,
        session: &mut Session,
        load: &Load,
        ready: &[PendingCycle],
    ) -> Result<(), SinkError> {
        session.persist(async |client| self.try_commit(client, load, ready).await)
    }

    async fn try_commit(
        &mut self,
        client: &Client,
        load: &Load,
        ready: &[PendingCycle],
    ) -> Result<(), SinkError> {
        if let Some(number) = self.in_doubt {
            let row = client
                .query_one("SELECT txid_status($1)", &[&number])
                .await
                .map_err(database_error)?;
            match row.get::<_, Option<&str>>(0) {
                Some("committed") => {
                    self.in_doubt = None;
                    return Ok(());
                }
                Some("in progress") => {
                    let text = "a transaction whose connection broke is still under way";
                    return Err(SinkError::retry(text));
                }
                // Aborted, or so old that the server has forgotten it.
                _ => self.in_doubt = None,
            }
        }
        client.batch_execute(BEGIN).await.map_err(database_error)?;
        load.run(client, ready).await?;
        let number =
            client.query_one("SELECT txid_current()", &[]).await.map_err(database_error)?.get(0);
        self.in_doubt = Some(number);
        client.batch_execute("COMMIT").await.map_err(database_error)?;
        self.in_doubt = None;
        Ok(())
    }
}
