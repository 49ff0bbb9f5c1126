//! Each setting is a flag, and help says all of them.

use super::*;

fn command() -> Command {
    ServeArguments::augment_args(Command::new("serve"))
}

fn parse(line: &[&str]) -> ServeArguments {
    let matches = command().try_get_matches_from([&["serve"], line].concat()).unwrap();
    ServeArguments::from_arg_matches(&matches).unwrap()
}

#[test]
fn every_setting_is_a_flag_and_is_in_help() {
    command().debug_assert();
    let help = command().render_long_help().to_string();
    for group in GROUPS {
        assert!(help.contains(&format!("{}:", group.title)), "{help}");
    }
    for setting in settings() {
        let given = parse(&[&format!("--{}={}", setting.name, setting.default())]);
        assert_eq!(given.value(setting.name), Some(setting.default()));
        assert_eq!(given.0.len(), 1, "nothing else is given");
        assert!(help.contains(&format!("--{} ", setting.name)) || setting.is_switch());
    }
    assert!(parse(&[]).0.is_empty(), "no default hides a variable or a file");
}

#[test]
fn a_switch_alone_means_yes_and_takes_nothing_that_follows() {
    let given = parse(&["--insecure", "--data", "d"]);
    assert_eq!(given.value("insecure").as_deref(), Some("true"));
    assert_eq!(given.value("data").as_deref(), Some("d"));
    assert_eq!(parse(&["--auto-create=false"]).value("auto-create").as_deref(), Some("false"));
    assert_eq!(parse(&["--data", "a", "--data", "b"]).value("data").as_deref(), Some("b"));
    assert!(command().try_get_matches_from(["serve", "--nonsense"]).is_err());
}
