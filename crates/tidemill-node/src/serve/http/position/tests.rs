//! Places that can be said, and those that cannot.

use super::*;

fn at(positions: &[(u32, i64)]) -> Vec<ReadPosition> {
    let one = |(streamlet, offset): &(u32, i64)| ReadPosition {
        streamlet: StreamletIx(*streamlet),
        offset: Offset(*offset),
    };
    positions.iter().map(one).collect()
}

#[test]
fn what_is_answered_can_be_asked_for() {
    for positions in [&[(0, 0)][..], &[(2, 17), (0, 5), (1, i64::MAX)]] {
        let positions = at(positions);
        assert_eq!(From::parse(&text(&positions)), Ok(From::Each(positions)));
    }
    assert_eq!(From::parse("earliest"), Ok(From::Earliest));
    assert_eq!(From::parse("latest"), Ok(From::Latest));
    assert_eq!(From::parse("17"), Ok(From::Offset(Offset(17))));
    for bad in [
        "",
        "-1",
        "+1",
        "1.5",
        "a",
        "0:",
        ":1",
        "0:1,",
        "0:1,,1:2",
        "0:-1",
        "4294967296:0",
        "9223372036854775808",
        "0:1:2",
        " 1",
    ] {
        assert!(From::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn places_are_those_of_the_streamlets_that_are_read() {
    let ends = |streamlet: StreamletIx| {
        let start = i64::from(streamlet.0);
        Ok((Offset(start), Offset(10 + start)))
    };
    let of = |from: From, streamlets: &[u32]| {
        let streamlets: Vec<StreamletIx> = streamlets.iter().map(|it| StreamletIx(*it)).collect();
        from.positions(&streamlets, ends).ok()
    };
    assert_eq!(of(From::Earliest, &[0, 2]), Some(at(&[(0, 0), (2, 2)])));
    assert_eq!(of(From::Latest, &[0, 2]), Some(at(&[(0, 10), (2, 12)])));
    assert_eq!(of(From::Offset(Offset(7)), &[2]), Some(at(&[(2, 7)])));
    assert_eq!(of(From::Offset(Offset(7)), &[0, 2]), None);
    let each = From::Each(at(&[(2, 5), (0, 3)]));
    assert_eq!(of(each.clone(), &[0, 2]), Some(at(&[(2, 5), (0, 3)])), "in the order said");
    assert_eq!(of(each.clone(), &[0, 1, 2]), Some(at(&[(2, 5), (0, 3), (1, 1)])), "a new one");
    assert_eq!(of(each, &[0]), None);
    assert_eq!(of(From::Each(at(&[(0, 5), (0, 3)])), &[0]), None);
}
