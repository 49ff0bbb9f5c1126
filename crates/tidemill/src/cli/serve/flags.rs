//! The flags of `tidemill serve`, made of the table of settings.
//!
//! Values stay texts: the table gives them their meaning, with the same words whether
//! they come from a flag, a variable or a file.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use tidemill_node::serve::settings::{FLAG, GROUPS, Setting, SettingGroup, settings};

#[cfg(test)]
mod tests;

/// Flags that were given, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServeArguments(BTreeMap<&'static str, String>);

impl ServeArguments {
    /// The value that a flag was given.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

const AFTER: &str = "\
Each setting can be a flag (--kafka-listen), an environment variable (TIDEMILL_KAFKA_LISTEN) or a \
line of the config file (kafka_listen: …). Of a flag that is given twice the last counts. A flag counts before a variable, a variable before the \
file. Sizes are written as 64KiB, 4MiB or 1GiB, times as 10ms, 30s or 7d.

Codes: 0 stopped by SIGTERM or Ctrl-C, 2 not started.";

fn flag(group: &'static SettingGroup, setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .help_heading(group.title)
        .help(format!("{} [default: {}]", setting.about, setting.default()))
        .value_name(setting.value)
        .action(ArgAction::Set)
        .allow_hyphen_values(true);
    if setting.is_switch() {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        arg
    }
}

impl Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FLAG)
            .long(FLAG)
            .help_heading("Node")
            .help("A file of settings, YAML. [env: TIDEMILL_CONFIG]")
            .value_name("FILE");
        let of =
            |group: &'static SettingGroup| group.settings.iter().map(move |it| flag(group, it));
        let flags = GROUPS.iter().flat_map(of);
        let command = command.arg(file).args(flags).after_help(AFTER);
        command.args_override_self(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = settings().map(|it| it.name).chain([FLAG]);
        let given = |name| matches.get_one::<String>(name).map(|text| (name, text.clone()));
        Ok(Self(names.filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
