//! The allocator is that of this test program too, so its counts can be checked.

use super::*;

#[test]
fn counts_allocations_of_every_thread() {
    let before = allocations();
    let sum = |_| (0..100_usize).map(Box::new).map(|it| *it).sum::<usize>();
    let sum: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..300).map(|n| scope.spawn(move || sum(n))).collect();
        threads.into_iter().map(|it| it.join().expect("no panic")).sum()
    });
    assert_eq!(sum, 300 * 4_950);
    let counted = allocations() - before;
    // Boxes may be optimised away, threads may not: each allocates its name, packet and stack guard.
    assert!(counted >= 300, "{counted}");
}

#[test]
fn counts_every_allocation_of_a_thread() {
    // Other tests run beside this one, so only a lower bound is certain.
    let before = allocations();
    let kept: Vec<Vec<u8>> = (0..1_000).map(|n| Vec::with_capacity(n % 7 + 1)).collect();
    let counted = allocations() - before;
    assert!(counted >= kept.len() as u64, "{counted}");
}
