//! The beginning of a connection: a socket, then the versions that the node speaks.
//!
//! The request for the versions is an ordinary one; until its answer has come the connection is not
//! ready. A node that does not know our version of it answers in the oldest one, and gets a second
//! request in that (KIP-511).

use super::connection_core::{ConnectionCore, ConnectionPhase, RequestOptions};
use super::versions::Versions;
use super::{reader, writer};
use crate::{
    error::CallError,
    options::{Security, micros},
};
use bytes::Bytes;
use std::sync::Arc;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode, message::ApiVersionsRequestData, request_frame, text,
};

/// The first version to try, known from Kafka 2.4 on.
const VERSION: i16 = 3;

/// The body of the writer thread.
pub(super) fn run(shared: &Arc<ConnectionCore>) {
    let connected = shared.world.net.connect(&shared.address, shared.options.connect_timeout);
    let tidemill_env::Connection { reader, writer, closer, .. } = match connected {
        Ok(connection) => connection,
        Err(error) => {
            let reason = error.to_string();
            return shared.end(CallError::Unreachable { address: shared.address.clone(), reason });
        }
    };
    match shared.options.security {
        Security::Plain => {}
    }
    let mut state = shared.lock();
    if matches!(state.phase, ConnectionPhase::Ended(_)) {
        drop(state);
        return closer();
    }
    state.closer = Some(closer);
    drop(state);
    *shared.writer.lock() = Some(writer);
    let thread = Arc::clone(shared);
    let body = Box::new(move || reader::run(&thread, reader));
    drop(shared.world.spawn.spawn("client-read", body));
    ask_versions(shared, VERSION);
    writer::run(shared);
}

fn ask_versions(shared: &Arc<ConnectionCore>, version: i16) {
    let request = ApiVersionsRequestData::default()
        .with_client_software_name(text("tidemill"))
        .with_client_software_version(text(env!("CARGO_PKG_VERSION")));
    let now_us = shared.world.clock.monotonic_micros();
    let deadline_us = now_us.saturating_add(micros(shared.options.connect_timeout));
    let answered = Arc::clone(shared);
    shared.send(
        ApiKey::ApiVersions,
        &RequestOptions::answered(version, deadline_us),
        |version, id, client| Ok(vec![request_frame(&request, version, id, client)?.freeze()]),
        Box::new(move |answer| take_versions(&answered, version, answer)),
    );
}

fn take_versions(shared: &Arc<ConnectionCore>, version: i16, answer: Result<Bytes, CallError>) {
    let Ok(mut content) = answer else {
        return; // The connection has ended, and whoever ended it has said why.
    };
    let code = content.first_chunk().map(|it| ErrorCode::from(i16::from_be_bytes(*it)));
    if version > 0 && code == Some(ErrorCode::UnsupportedVersion) {
        return ask_versions(shared, 0);
    }
    match Versions::read(&mut content, version) {
        Ok(versions) => {
            let mut state = shared.lock();
            if matches!(state.phase, ConnectionPhase::Connecting) {
                state.phase = ConnectionPhase::Ready(Arc::new(versions));
            }
            drop(state);
            (shared.changed)();
        }
        Err(reason) => shared.end(shared.bad_answer(format!("ApiVersions: {reason}"))),
    }
}
