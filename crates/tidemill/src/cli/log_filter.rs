//! `TIDEMILL_LOG`: log levels, by part.
//!
//! ```text
//! warn,tidemill_log=debug
//! ^    ^------------^----  one part: a crate, or a module of one
//! '----------------------  all the others
//! ```
//!
//! Invariant: an unreadable value is refused. A level that is misspelt would turn lines off that
//! somebody counts on.

use tidemill_node::{Diagnostic, Problem, Refused, diagnostic::one_of};
use tracing_subscriber::filter::{LevelFilter, Targets};

#[cfg(test)]
mod tests;

const VARIABLE: &str = "TIDEMILL_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The crates; `tidemill` is all of them.
const PARTS: [&str; 22] = [
    "tidemill",
    "tidemill_bench",
    "tidemill_types",
    "tidemill_wire",
    "tidemill_env",
    "tidemill_log",
    "tidemill_state",
    "tidemill_checkpoints",
    "tidemill_backends",
    "tidemill_client",
    "tidemill_cluster",
    "tidemill_coord",
    "tidemill_raft",
    "tidemill_replica",
    "tidemill_models",
    "tidemill_flow",
    "tidemill_broker",
    "tidemill_sql",
    "tidemill_operators",
    "tidemill_sim",
    "tidemill_connectors",
    "tidemill_node",
];

/// The levels of the variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogFilter {
    /// Of whatever is not said by part; none: not said either.
    rest: Option<LevelFilter>,
    parts: Vec<(String, LevelFilter)>,
}

impl LogFilter {
    /// As the environment has it; an empty variable says nothing.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn from_env() -> Result<Self, Refused> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Self::default()) };
        Self::read(&text.to_string_lossy()).map_err(|wrong| {
            let problem = |problem| Diagnostic {
                file: VARIABLE.to_owned(),
                place: None,
                line: None,
                problem,
            };
            Refused(wrong.into_iter().map(problem).collect())
        })
    }

    fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let (mut filter, mut wrong) = (Self::default(), Vec::new());
        for word in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let said = match word.split_once('=') {
                None => level(word).map(|level| filter.rest = Some(level)),
                Some((part, name)) => known(part.trim()).and_then(|part| {
                    filter.parts.push((part.to_owned(), level(name.trim())?));
                    Ok(())
                }),
            };
            wrong.extend(said.err());
        }
        if wrong.is_empty() { Ok(filter) } else { Err(wrong) }
    }

    /// With the level of parts that the variable does not name.
    pub(super) fn or(&self, rest: LevelFilter) -> Targets {
        let targets = Targets::new().with_default(self.rest.unwrap_or(rest));
        targets.with_targets(self.parts.clone())
    }
}

fn level(name: &str) -> Result<LevelFilter, Problem> {
    let is_one = LEVELS.iter().any(|it| it.eq_ignore_ascii_case(name));
    if let Some(level) = name.parse().ok().filter(|_| is_one) {
        return Ok(level);
    }
    let message = format!("`{}` is no level", shown(name));
    let problem = Problem::new::<String>([], message).one_of(name, LEVELS);
    Err(problem.expected(format!("{}, or PART=LEVEL", one_of(&LEVELS))))
}

/// A part that there is, as far as its crate tells.
fn known(part: &str) -> Result<&str, Problem> {
    let name = part.split("::").next().unwrap_or_default();
    if PARTS.contains(&name) {
        return Ok(part);
    }
    let message = format!("there is no part `{}` that logs", shown(part));
    Err(Problem::new::<String>([], message).one_of(name, PARTS))
}

/// The beginning of a word: the variable may hold anything.
fn shown(word: &str) -> String {
    word.chars().take(60).map(|it| if it.is_control() { ' ' } else { it }).collect()
}
