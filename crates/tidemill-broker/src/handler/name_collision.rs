//! Names that differ in `.` and `_` alone. Kafka's metrics have `_` for each `.`, so Kafka refuses
//! a topic whose name collides with another one in this way. Topics made here must fit there.
//!
//! Streams made without the Kafka protocol may collide, and so may two topics made at the same
//! moment. Nothing here fails for it.

use crate::{Broker, refusal::RequestRefusal};
use std::collections::BTreeMap;
use tidemill_wire::kafka::ErrorCode;

/// The names of topics, by their form in Kafka's metrics.
pub(crate) struct NameCollisions(BTreeMap<String, String>);

impl NameCollisions {
    /// All topics that one of these names could be a twin of.
    pub(crate) fn of<'a>(broker: &Broker, mut asked: impl Iterator<Item = &'a str>) -> Self {
        // Looking at all topics costs time, and most names have no twins.
        if !asked.any(has_twins) {
            return Self(BTreeMap::new());
        }
        let all = broker.log.list();
        let some = all.iter().map(|it| it.name()).filter(|it| has_twins(it));
        Self(some.map(|it| (plain(it), it.to_owned())).collect())
    }

    /// Refuses the name of a topic that has a twin.
    pub(crate) fn check(&self, name: &str) -> Result<(), RequestRefusal> {
        match self.0.get(&plain(name)).filter(|it| *it != name) {
            Some(twin) => {
                let why = format!("`{name}` collides with the topic `{twin}`: . and _ are one");
                Err(RequestRefusal::with(ErrorCode::InvalidTopicException, &why))
            }
            None => Ok(()),
        }
    }

    /// Notes a topic that will be made.
    pub(crate) fn add(&mut self, name: &str) {
        if has_twins(name) {
            self.0.insert(plain(name), name.to_owned());
        }
    }
}

fn has_twins(name: &str) -> bool {
    name.contains(['.', '_'])
}

fn plain(name: &str) -> String {
    name.replace('.', "_")
}
