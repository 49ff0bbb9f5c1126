//! `tidemill serve`: a node in the foreground.

use super::{DONE, REFUSED};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{io::Write, net::SocketAddr, path::PathBuf};
use tidemill_env::World;
use tidemill_log::Fsync;
use tidemill_node::serve::{self, Ready, ServeSettings, Stop};
use tidemill_types::Span;

/// What `serve` is told.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    /// The data folder.
    #[arg(long, value_name = "DIR", default_value = "tidemill-data")]
    data: PathBuf,
    /// Where the Kafka protocol is spoken; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092")]
    kafka_listen: SocketAddr,
    /// Where HTTP is spoken; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    http_listen: SocketAddr,
    /// When an append counts: `always` on disk, `os` written, or synced every so often (`10ms`).
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = fsync)]
    fsync: Fsync,
    /// Listens on addresses that other machines reach, though there is no authentication.
    #[arg(long)]
    insecure: bool,
}

fn fsync(text: &str) -> Result<Fsync, String> {
    match text {
        "always" => Ok(Fsync::Always),
        "os" => Ok(Fsync::Os),
        span => match span.parse() {
            Ok(span @ Span(1..)) => Ok(Fsync::Every(span)),
            _ => Err("`always`, `os` or a duration such as `10ms` is possible".to_owned()),
        },
    }
}

/// Serves until SIGTERM or SIGINT.
pub(super) fn serve(arguments: &ServeArguments) -> u8 {
    let world = World::real();
    let mut settings = ServeSettings {
        data: arguments.data.clone(),
        http_listen: arguments.http_listen,
        insecure: arguments.insecure,
        ..ServeSettings::default()
    };
    settings.broker.listen = arguments.kafka_listen;
    settings.log.fsync = arguments.fsync;
    let stop = match listen(&world) {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("error: signals cannot be heard: {error}");
            return REFUSED;
        }
    };
    match serve::run(&world, settings, &stop, announce) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("error: {error}");
            REFUSED
        }
    }
}

/// Says where the node answers: one line on standard output, for whoever waits for it.
fn announce(ready: &Ready) {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "ready kafka={} http={}", ready.kafka, ready.http);
    if let Err(error) = said.and_then(|()| out.flush()) {
        tracing::warn!(%error, "nobody reads where this node answers");
    }
}

/// The first signal stops the node, the second ends the process.
fn listen(world: &World) -> std::io::Result<Stop> {
    let stop = Stop::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let told = stop.clone();
    let body = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(128 + signal);
            }
            told.now();
        }
    };
    drop(world.spawn.spawn("signals", Box::new(body)));
    Ok(stop)
}
