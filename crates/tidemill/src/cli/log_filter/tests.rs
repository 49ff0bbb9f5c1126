//! What the variable may say, and what it is told where it may not.

use super::*;
use tracing::Level;

/// What is wrong with a text.
fn wrong(text: &str) -> Vec<String> {
    let shown = |it: &Problem| match &it.nearest {
        Some(nearest) => format!("{} -> {nearest}", it.message),
        None => it.message.clone(),
    };
    LogFilter::read(text).expect_err(text).iter().map(shown).collect()
}

#[test]
fn a_level_for_one_part_leaves_the_others_theirs() {
    let filter = LogFilter::read("tidemill_flow=debug").unwrap().or(LevelFilter::WARN);
    assert!(filter.would_enable("tidemill_flow::engine", &Level::DEBUG));
    assert!(!filter.would_enable("tidemill_flow::engine", &Level::TRACE));
    assert!(filter.would_enable("tidemill_node::plan", &Level::WARN));
    assert!(!filter.would_enable("tidemill_node::plan", &Level::INFO));
    let both = LogFilter::read(" INFO, tidemill_log::commit = off ,").unwrap();
    let both = both.or(LevelFilter::WARN);
    assert!(both.would_enable("tidemill_node", &Level::INFO));
    assert!(!both.would_enable("tidemill_log::commit", &Level::ERROR));
    assert!(both.would_enable("tidemill_log", &Level::INFO));
    assert!(LogFilter::read("").unwrap().or(LevelFilter::INFO).would_enable("x", &Level::INFO));
}

#[test]
fn what_cannot_be_read_is_said_all_of_it() {
    assert_eq!(wrong("debg"), ["`debg` is no level -> debug"]);
    assert_eq!(
        wrong("inof,tidemill_node=zzz,foo=debug,tidemill_nod::plan=info,tidemill_node="),
        [
            "`inof` is no level -> info",
            "`zzz` is no level",
            "there is no part `foo` that logs",
            "there is no part `tidemill_nod::plan` that logs -> tidemill_node",
            "`` is no level",
        ]
    );
    // Numbers and empty words are levels to others.
    for text in ["3", "=", "=info", "tidemill_flow", "tidemill_flow=debug=info", "\u{1b}[31m"] {
        assert_eq!(wrong(text).len(), 1, "{text}");
    }
    assert!(!wrong("\u{1b}[31m")[0].contains('\u{1b}'));
}

#[test]
fn every_crate_is_a_part() {
    let layers = include_str!("../../../../../layers.txt");
    let rows = layers.lines().filter(|it| !it.starts_with('#') && !it.is_empty());
    let mut crates: Vec<String> =
        rows.map(|it| it.split(':').next().unwrap_or_default().replace('-', "_")).collect();
    let mut parts = PARTS.map(str::to_owned).to_vec();
    crates.sort();
    parts.sort();
    assert_eq!(parts, crates);
}
