//! `tidemill serve`: a node in the foreground.
//!
//! Flags are made of the table of settings ([`tidemill_node::serve::settings`]): there is no
//! second list of them here.

mod flags;
mod logging;

use super::{DONE, REFUSED, log_filter::LogFilter};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    fs::File,
    io::{self, Read, Write},
};
use tidemill_env::World;
use tidemill_node::serve::{
    self, Ready, ServeSettings, Stop,
    settings::{self, Given},
};
use tidemill_types::limits::JOB_FILE_BYTES_MAX;

pub(super) use flags::ServeArguments;

/// Serves until SIGTERM or SIGINT.
pub(super) fn serve(arguments: &ServeArguments) -> u8 {
    let (settings, filter) = match gather(arguments) {
        Ok(gathered) => gathered,
        Err(error) => {
            say!("{error}");
            return REFUSED;
        }
    };
    let world = World::real();
    logging::log_as(&world, &settings, &filter);
    warn_of_misspelt_variables();
    let stop = match listen(&world) {
        Ok(stop) => stop,
        Err(error) => {
            say!("error: signals cannot be heard: {error}");
            return REFUSED;
        }
    };
    match serve::run(&world, settings, &stop, announce) {
        Ok(()) => DONE,
        Err(error) => {
            say!("error: {error}");
            REFUSED
        }
    }
}

/// The settings, with log levels by part; or all problems in them.
fn gather(arguments: &ServeArguments) -> Result<(ServeSettings, LogFilter), String> {
    let variable = |name: &str| std::env::var(name).ok();
    let named = arguments.value(settings::FLAG).or_else(|| variable("TIDEMILL_CONFIG"));
    let file = match &named {
        None => None,
        Some(path) => Some((path.as_str(), read(path)?)),
    };
    let given = Given {
        flag: &|name| arguments.value(name),
        variable: &variable,
        file: file.as_ref().map(|(name, text)| (*name, text.as_str())),
    };
    match (settings::resolve(given), LogFilter::from_env()) {
        (Ok(settings), Ok(filter)) => Ok((settings, filter)),
        (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
        (Err(refused), _) | (_, Err(refused)) => Err(refused.to_string()),
    }
}

/// A variable that is not known may be anybody's, and is no reason to refuse.
fn warn_of_misspelt_variables() {
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if let Some(meant) = settings::misspelt_variable(&name) {
            tracing::warn!(variable = name, meant, "no setting has this variable");
        }
    }
}

/// One byte more than is allowed is enough to know that a file is too long.
fn read(path: &str) -> Result<String, String> {
    let whole = || {
        let mut text = String::new();
        File::open(path)?.take(JOB_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    whole().map_err(|error: io::Error| format!("{path}: error: the config file: {error}"))
}

/// Prints the addresses of the node: one line on standard output, for the process that waits for it.
fn announce(ready: &Ready) {
    let mut out = io::stdout().lock();
    let cluster = ready.cluster.as_ref().map_or_else(String::new, |it| format!(" cluster={it}"));
    let said = writeln!(out, "ready kafka={} http={}{cluster}", ready.kafka, ready.http);
    if let Err(error) = said.and_then(|()| out.flush()) {
        tracing::warn!(%error, "nobody reads where this node answers");
    }
}

/// The first signal stops the node, the second ends the process.
fn listen(world: &World) -> io::Result<Stop> {
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
