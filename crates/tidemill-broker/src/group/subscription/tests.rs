//! Lists of protocols before and after a restart of their member.

use super::*;

/// A consumer's metadata of version 3.
#[derive(Clone, Copy)]
pub(crate) struct Metadata<'a> {
    pub(crate) topics: &'a [&'a str],
    pub(crate) user_data: Option<&'a str>,
    /// Partitions of `orders` that the consumer owned, and their generation.
    pub(crate) owned: &'a [i32],
    pub(crate) generation: i32,
    pub(crate) rack: Option<&'a str>,
}

impl Metadata<'_> {
    pub(crate) fn bytes(self) -> Bytes {
        let mut bytes = 3i16.to_be_bytes().to_vec();
        let count = |it: usize| i32::try_from(it).unwrap().to_be_bytes();
        let text = |bytes: &mut Vec<u8>, it: &str| {
            bytes.extend(i16::try_from(it.len()).unwrap().to_be_bytes());
            bytes.extend(it.as_bytes());
        };
        bytes.extend(count(self.topics.len()));
        self.topics.iter().for_each(|it| text(&mut bytes, it));
        match self.user_data {
            None => bytes.extend((-1i32).to_be_bytes()),
            Some(data) => {
                bytes.extend(count(data.len()));
                bytes.extend(data.as_bytes());
            }
        }
        bytes.extend(count(1));
        text(&mut bytes, "orders");
        bytes.extend(count(self.owned.len()));
        self.owned.iter().for_each(|it| bytes.extend(it.to_be_bytes()));
        bytes.extend(self.generation.to_be_bytes());
        match self.rack {
            None => bytes.extend((-1i16).to_be_bytes()),
            Some(rack) => text(&mut bytes, rack),
        }
        bytes.into()
    }
}

pub(crate) const BEFORE: Metadata<'static> = Metadata {
    topics: &["orders", "bills"],
    user_data: Some("weight=2"),
    owned: &[0, 1],
    generation: 7,
    rack: Some("west"),
};

/// The same subscription, as a consumer that was just started has it.
const RESTARTED: Metadata<'static> = Metadata { owned: &[], generation: -1, ..BEFORE };

fn same(protocol: &str, before: Metadata<'_>, after: Metadata<'_>) -> bool {
    let list = |it: Metadata<'_>| vec![(protocol.to_owned(), it.bytes())];
    same_protocols(CONSUMER, &list(before), &list(after))
}

#[test]
fn a_restart_alone_changes_nothing() {
    for protocol in ["range", "roundrobin", "sticky", "cooperative-sticky"] {
        assert!(same(protocol, BEFORE, RESTARTED), "{protocol}");
        let other_order = Metadata { topics: &["bills", "orders"], ..RESTARTED };
        assert!(same(protocol, BEFORE, other_order), "{protocol}");
    }
}

#[test]
fn each_part_of_a_subscription_counts() {
    for protocol in ["range", "roundrobin", "sticky", "cooperative-sticky"] {
        for after in [
            Metadata { topics: &["orders"], ..RESTARTED },
            Metadata { topics: &["orders", "bills", "refunds"], ..RESTARTED },
            Metadata { topics: &["orders", "refunds"], ..RESTARTED },
            Metadata { topics: &[], ..RESTARTED },
            Metadata { rack: Some("east"), ..RESTARTED },
            Metadata { rack: None, ..RESTARTED },
        ] {
            assert!(!same(protocol, BEFORE, after), "{protocol}");
        }
    }
}

#[test]
fn user_data_counts_unless_it_tells_of_the_past() {
    for user_data in [None, Some(""), Some("weight=3")] {
        let after = Metadata { user_data, ..RESTARTED };
        assert!(!same("range", BEFORE, after));
        assert!(!same("of our own", BEFORE, after));
        assert!(same("sticky", BEFORE, after));
        assert!(same("cooperative-sticky", BEFORE, after));
    }
}

#[test]
fn the_list_of_protocols_counts() {
    let list = |names: &[&str]| -> Vec<(String, Bytes)> {
        names.iter().map(|it| ((*it).to_owned(), RESTARTED.bytes())).collect()
    };
    let before = list(&["range", "roundrobin"]);
    assert!(same_protocols(CONSUMER, &before, &before));
    for after in [
        list(&["range"]),
        list(&["roundrobin", "range"]),
        list(&["range", "roundrobin", "sticky"]),
        list(&["range", "sticky"]),
    ] {
        assert!(!same_protocols(CONSUMER, &before, &after));
    }
}

#[test]
fn metadata_of_other_members_is_compared_byte_for_byte() {
    let list = |it: Bytes| vec![("default".to_owned(), it)];
    let (before, after) = (list(BEFORE.bytes()), list(RESTARTED.bytes()));
    assert!(!same_protocols("connect", &before, &after));
    assert!(same_protocols("connect", &before, &before));
    // Nor can anybody say what these are.
    let (before, after) = (list(Bytes::from_static(b"a")), list(Bytes::from_static(b"b")));
    assert!(!same_protocols(CONSUMER, &before, &after));
}
