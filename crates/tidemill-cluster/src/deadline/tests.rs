//! Deadlines that pass, that are moved, and that are taken away.

use super::*;
use tidemill_env::sync::atomic::AtomicU32;

fn counting() -> (Closer, Arc<AtomicU32>) {
    let closed = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&closed);
    let closer = move || {
        counter.fetch_add(1, Ordering::SeqCst);
    };
    (Arc::new(closer), closed)
}

#[test]
fn closes_what_is_late_once_and_nothing_else() {
    let world = World::real();
    let watch = DeadlineWatch::start(&world).expect("there is a thread");
    let (closer, closed) = counting();
    let late = watch.add(closer);
    let (closer, others) = counting();
    let (unarmed, disarmed, dropped, far) = (
        watch.add(Arc::clone(&closer)),
        watch.add(Arc::clone(&closer)),
        watch.add(Arc::clone(&closer)),
        watch.add(closer),
    );
    disarmed.arm(1_000_000_000);
    disarmed.disarm();
    dropped.arm(1_000_000_000);
    drop(dropped);
    far.arm(3_600_000_000);
    late.arm(1_000);
    while closed.load(Ordering::SeqCst) == 0 {
        world.clock.sleep_micros(1_000);
    }
    assert!(late.has_passed());
    // Another one that passes later shows that the first is not closed again.
    let (closer, second) = counting();
    let next = watch.add(closer);
    next.arm(1_000);
    while second.load(Ordering::SeqCst) == 0 {
        world.clock.sleep_micros(1_000);
    }
    assert_eq!(closed.load(Ordering::SeqCst), 1);
    assert_eq!(others.load(Ordering::SeqCst), 0);
    assert!(!unarmed.has_passed() && !disarmed.has_passed() && !far.has_passed());
}
