//! When many files are synced at once.

use super::*;

struct Fails(Mutex<u32>);

impl FileSystem for Fails {
    fn sync(&self) -> io::Result<()> {
        *self.0.lock() += 1;
        Err(io::Error::other("gone"))
    }
}

#[test]
fn the_faster_way_is_taken_and_a_slow_one_is_tried_again() {
    let mut costs = SyncCosts::default();
    assert!(costs.choose(4, 2), "nothing is known yet");
    SyncCosts::learn(&mut costs.one_us, 100);
    SyncCosts::learn(&mut costs.together_us, 1000);
    assert!(!costs.choose(8, 2));
    assert!(costs.choose(80, 2));
    let tries = (0..1000).take_while(|_| !costs.choose(8, 2)).count();
    assert!((10..200).contains(&tries), "{tries}");
    for _ in 0..100 {
        SyncCosts::learn(&mut costs.together_us, 50);
    }
    assert!(costs.choose(2, 2) && costs.together_us < 100);
}

#[test]
fn a_file_system_that_failed_is_not_asked_again() {
    let asked = Arc::new(Fails(Mutex::new(0)));
    let file_system_sync =
        FileSystemSync::new(Some(Arc::clone(&asked) as Arc<dyn FileSystem>), 4, 2);
    assert!(!file_system_sync.is_better_for(3) && file_system_sync.is_better_for(4));
    assert!(file_system_sync.sync().is_some_and(|it| it.is_err()));
    assert!(file_system_sync.sync().is_none());
    assert!(!file_system_sync.is_better_for(99), "the files are for all threads");
    assert_eq!(*asked.0.lock(), 1);
    for never in [FileSystemSync::new(Some(asked), 0, 2), FileSystemSync::new(None, 4, 2)] {
        assert!(!never.is_better_for(99) && never.sync().is_none());
    }
}
