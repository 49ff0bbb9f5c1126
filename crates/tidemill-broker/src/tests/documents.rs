//! The tables of `docs/broker.md` and `docs/formats.md` are those of the code.

use crate::{
    BrokerSettings,
    broker_settings::BROKER_SETTINGS,
    requests::REQUESTS,
    store::StoreTable,
    topic_settings::{Defaults, SettingPlace, SettingType, TOPIC_SETTINGS, TopicSetting},
};
use std::collections::BTreeSet;

const BROKER: &str = include_str!("../../../../docs/broker.md");
const FORMATS: &str = include_str!("../../../../docs/formats.md");

/// The rows of the first table after a line, each as its cells.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let mut lines = page.lines().skip_while(|it| *it != heading);
    assert!(lines.next().is_some(), "the page has no `{heading}`");
    let rows = lines.skip_while(|it| !it.starts_with('|')).take_while(|it| it.starts_with('|'));
    let cells = |row: &'a str| row.trim_matches('|').split(" | ").map(str::trim).collect();
    // Without its head and the line below that.
    rows.skip(2).map(cells).collect()
}

fn kind(kind: SettingType) -> &'static str {
    match kind {
        SettingType::Boolean => "boolean",
        SettingType::String => "text",
        SettingType::Int => "int",
        SettingType::Long => "long",
        SettingType::Double => "double",
        SettingType::List => "list",
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn topic_row(setting: &TopicSetting) -> String {
    let counts = match setting.place {
        SettingPlace::Field { .. } | SettingPlace::Used { .. } => "yes".to_owned(),
        SettingPlace::Only { value, why } => format!("only `{value}`: {why}"),
        SettingPlace::Kept { .. } => "kept, no effect".to_owned(),
    };
    let default = match Defaults::built_in().value(setting).as_str() {
        "9223372036854775807" => "no limit (2⁶³ − 1)".to_owned(),
        other => code(other),
    };
    let of_broker = setting.of_broker.map_or_else(String::new, code);
    let (name, kind, doc) = (setting.name, kind(setting.kind), setting.doc);
    format!("| `{name}` | {kind} | {default} | {of_broker} | {counts} | {doc} |\n")
}

#[test]
fn the_page_has_the_requests_that_are_answered() {
    let said: Vec<_> = table(BROKER, "## Requests")
        .into_iter()
        .map(|row| (row[0].to_owned(), row[1].to_owned(), row[2].to_owned()))
        .collect();
    let known: Vec<_> = REQUESTS
        .iter()
        .map(|it| {
            let (key, (from, to)) = (it.key, it.versions());
            (format!("{key:?}"), (key as i16).to_string(), format!("{from} to {to}"))
        })
        .collect();
    let rows: Vec<_> = known.iter().map(|(a, b, c)| format!("| {a} | {b} | {c} |")).collect();
    assert_eq!(said, known, "docs/broker.md must have these requests:\n{}", rows.join("\n"));
}

#[test]
fn the_page_has_the_settings_of_topics() {
    let rows: String = TOPIC_SETTINGS.iter().map(topic_row).collect();
    let count = table(BROKER, "## Settings of topics").len();
    assert!(BROKER.contains(&rows), "docs/broker.md must hold this, word for word:\n\n{rows}");
    assert_eq!(count, TOPIC_SETTINGS.len(), "docs/broker.md has rows that are no settings");
}

#[test]
fn the_page_has_the_settings_of_the_broker() {
    let settings = BrokerSettings::default();
    let row = |it: &crate::broker_settings::BrokerSetting| {
        let default = code(&(it.get)(&settings));
        format!("| `{}` | {} | {default} | {} |\n", it.name, kind(it.kind), it.doc)
    };
    let rows: String = BROKER_SETTINGS.iter().map(row).collect();
    let count = table(BROKER, "## Settings of the broker").len();
    assert!(BROKER.contains(&rows), "docs/broker.md must hold this, word for word:\n\n{rows}");
    assert_eq!(count, BROKER_SETTINGS.len(), "docs/broker.md has rows that are no settings");
}

/// Names of tables are in the files of users: they never change.
#[test]
fn the_page_of_formats_has_the_tables_of_the_store() {
    let rows = table(FORMATS, "### Tables of the store");
    let named = rows.iter().map(|row| row[0].trim_matches('`')).filter(|it| !it.is_empty());
    let said: BTreeSet<&str> = named.collect();
    let known: BTreeSet<&str> = StoreTable::ALL.iter().map(|it| it.name()).collect();
    assert_eq!(said, known);
    assert_eq!(
        known.into_iter().collect::<Vec<_>>(),
        ["groups", "offsets", "pending-offsets", "producers", "settings", "transactions"]
    );
}
