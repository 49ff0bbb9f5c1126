//! The tables of settings in `docs/serve.md`.

use super::GROUPS;
use std::fmt::Write;

/// The tables of all settings, as they stand in `docs/serve.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    for group in GROUPS {
        // Writing to a string cannot fail.
        let _ = write!(text, "### {}\n\n| flag | default | Kafka | meaning |\n", group.title);
        text.push_str("| --- | --- | --- | --- |\n");
        for setting in group.settings {
            let kafka = match setting.kafka {
                "" => String::new(),
                name => format!("`{name}`"),
            };
            let (name, default, about) = (setting.name, setting.default(), setting.about);
            let _ = writeln!(text, "| `--{name}` | `{default}` | {kafka} | {about} |");
        }
        text.push('\n');
    }
    text
}
