//! A connection and its driver. All of it runs within [`PostgresConnection::wait`], so it can be given up
//! whatever the server does.

use super::fault::database_error;
use std::{pin::pin, time::Duration};
use tidemill_flow::SinkError;
use tokio::{
    runtime::{self, Runtime},
    time::timeout,
};
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// After so much of a wait it is asked whether to give up.
const LOOK: Duration = Duration::from_millis(50);

/// See the module.
pub(super) struct PostgresConnection {
    client: Client,
    runtime: Runtime,
}

impl PostgresConnection {
    /// Connects, and does something first.
    pub(super) fn new<T>(
        config: &Config,
        tls: Option<&MakeRustlsConnect>,
        first: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<(Self, T), SinkError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SinkError::retry(error.to_string()))?;
        let connected = runtime.block_on(async {
            let client = match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    drop(tokio::spawn(connection));
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    drop(tokio::spawn(connection));
                    client
                }
            };
            let found = first(&client).await?;
            Ok::<_, Error>((client, found))
        });
        let (client, found) = connected.map_err(database_error)?;
        Ok((Self { client, runtime }, found))
    }

    /// Does something, and asks all the while whether to give that up; none if so.
    pub(super) fn wait<T>(
        &self,
        attempt: &mut impl AsyncFnMut(&Client) -> T,
        mut gives_up: impl FnMut() -> bool,
    ) -> Option<T> {
        self.runtime.block_on(async {
            let mut attempt = pin!(attempt(&self.client));
            loop {
                match timeout(LOOK, attempt.as_mut()).await {
                    Ok(done) => return Some(done),
                    Err(_) if gives_up() => return None,
                    Err(_) => {}
                }
            }
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}
