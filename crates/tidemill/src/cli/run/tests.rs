//! What is said at the end of a run.

use super::*;

#[test]
fn the_commands_to_go_on_with_call_the_program_as_it_was_called() {
    let said = what_next("target/release/tidemill", "examples/demo.yaml");
    let commands: Vec<_> = said.lines().skip(2).map(str::trim_start).collect();
    assert_eq!(commands.len(), 4);
    assert!(commands[0].starts_with("target/release/tidemill run examples/demo.yaml --threads 1 "));
    assert!(commands[2].starts_with("target/release/tidemill validate examples/demo.yaml "));
    assert!(commands.iter().all(|it| it.starts_with("target/release/tidemill ")), "{said}");
}

#[test]
fn what_a_shell_would_take_apart_is_quoted() {
    assert_eq!(shell_word("./jobs/ärger-2.yaml"), "./jobs/ärger-2.yaml");
    assert_eq!(shell_word("my jobs/it's.yaml"), r"'my jobs/it'\''s.yaml'");
    assert_eq!(shell_word(""), "''");
}
