//! What is left out, and what is not.

use super::*;

#[test]
fn what_is_named_again_is_left_out() {
    let mut names = vec!["b", "a", "b", "c", "a", "b"];
    remove_repeated(&mut names, |it| *it);
    assert_eq!(names, ["b", "a", "c"]);
}

#[test]
fn partitions_that_are_named_again_are_left_out() {
    let mut topics = vec![
        ("a", vec![1, 2, 1]),
        ("b", vec![]),
        ("a", vec![2, 3]),
        ("b", vec![]),
        ("a", vec![3, 2, 1]),
        ("c", vec![1]),
    ];
    remove_repeated_partitions(&mut topics, |it| it.0, |it| &mut it.1);
    let left = [("a", vec![1, 2]), ("b", vec![]), ("a", vec![3]), ("c", vec![1])];
    assert_eq!(topics, left);
}

#[test]
fn what_is_named_again_is_merged() {
    let mut groups =
        vec![("b", vec![1]), ("a", vec![2]), ("b", vec![3]), ("a", vec![]), ("b", vec![1])];
    merge_repeated(&mut groups, |it| it.0, |first, again| first.1.extend(again.1));
    assert_eq!(groups, [("b", vec![1, 3, 1]), ("a", vec![2])]);
}
