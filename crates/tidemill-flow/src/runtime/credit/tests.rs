//! A link closes at the high watermark, opens at the low one, and forgets nobody who waits.

use super::*;
use proptest::prelude::*;

#[test]
fn it_closes_high_and_opens_low() {
    let credit = Credit::new(100, 50);
    credit.add(99);
    assert!(credit.may_begin(|| 1));
    credit.add(1);
    assert!(!credit.may_begin(|| 2));
    assert!(credit.release(49).is_empty(), "still above the low watermark");
    assert!(!credit.is_open());
    assert_eq!(credit.release(1), vec![2]);
    assert!(credit.may_begin(|| 3));
}

#[test]
fn a_begun_cycle_may_be_finished() {
    let credit: Credit<()> = Credit::new(10, 5);
    credit.add(10);
    credit.add(1_000);
    assert_eq!(credit.waiting_bytes(), 1_010);
    assert!(credit.release(1_010).is_empty());
    assert!(credit.is_open());
}

proptest! {
    #[test]
    fn whoever_waits_is_woken_when_all_is_released(
        high in 1_u64..1_000,
        low in 0_u64..1_000,
        steps in prop::collection::vec((1_u64..500, any::<bool>()), 1..100),
    ) {
        let credit = Credit::new(high, low);
        let (mut held, mut waiting, mut woken, mut ticket) = (0, 0, 0, 0);
        for (bytes, add) in steps {
            if add {
                credit.add(bytes);
                held += bytes;
            } else {
                woken += credit.release(bytes.min(held)).len();
                held -= bytes.min(held);
            }
            if !credit.may_begin(|| ticket) {
                ticket += 1;
                waiting += 1;
            }
            prop_assert_eq!(credit.waiting_bytes(), held);
        }
        woken += credit.release(held).len();
        prop_assert_eq!(woken, waiting);
        prop_assert!(credit.is_open());
    }

    #[test]
    fn threads_lose_no_byte(rounds in 1_u64..200) {
        let credit: Credit<()> = Credit::new(64, 32);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..rounds).for_each(|bytes| {
                    credit.add(bytes);
                    credit.release(bytes);
                }));
            }
        });
        prop_assert_eq!(credit.waiting_bytes(), 0);
    }

    /// What waits never exceeds the high watermark and one cycle of each writer, however the
    /// threads meet: a release must not open a link that was filled meanwhile.
    #[test]
    fn no_writer_is_more_than_a_cycle_over(
        writers in 1_u64..4,
        high in 1_u64..40,
        low in 0_u64..40,
        bytes in 1_u64..20,
    ) {
        const CYCLES: u64 = 300;
        let credit: Credit<u64> = Credit::new(high, low);
        let most = AtomicU64::new(0);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (credit, most) = (&credit, &most);
                scope.spawn(move || for _ in 0..CYCLES {
                    while !credit.may_begin(|| writer) {
                        std::thread::yield_now();
                    }
                    credit.add(bytes);
                    most.fetch_max(credit.waiting_bytes(), Ordering::Relaxed);
                });
            }
            while taken.load(Ordering::Relaxed) < writers * CYCLES {
                if credit.waiting_bytes() >= bytes {
                    credit.release(bytes);
                    taken.fetch_add(1, Ordering::Relaxed);
                } else {
                    std::thread::yield_now();
                }
            }
        });
        prop_assert!(most.into_inner() <= high + writers * bytes);
        prop_assert!(credit.may_begin(|| 0), "what is drained takes a new cycle");
    }
}
