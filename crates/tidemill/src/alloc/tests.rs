//! The allocator is that of this test program, so its settings can be checked.

use super::*;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Memory of this process that the system has given it, in MiB.
fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("as Linux has it");
    let pages: usize = statm.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a number");
    pages * 4 / 1_024
}

#[test]
fn freed_memory_is_kept_until_it_is_given_back() {
    set_up();
    let settings = [PURGE_DELAY, ARENA].map(setting);
    assert_eq!(
        settings,
        [NEVER_MS, SMALL_ARENA_KIB],
        "the allocator counts its settings in another way"
    );
    let parts: Vec<Vec<u8>> = (0..256).map(|_| vec![1; 1 << 20]).collect();
    let with = resident_mib();
    drop(parts);
    let kept = resident_mib();
    assert!(kept + 64 > with, "{kept} of {with} MiB are kept");
    give_back_freed();
    let left = resident_mib();
    assert!(left + 192 < with, "{left} of {with} MiB are left");
}

#[test]
fn what_a_process_has_first_is_in_small_pages() {
    let pages = begin_with_small_pages().expect("as Linux has it");
    assert_eq!(pages.len(), SMALL_PAGES_BYTES);
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("as Linux has it");
    let here = |line: &str| mapped(line).is_some_and(|it| it.contains(&pages.start));
    let mut lines = smaps.lines().skip_while(|line| !here(line));
    let flags = lines.find(|line| line.starts_with("VmFlags:")).expect("each has them");
    assert!(flags.split(' ').any(|flag| flag == "nh"), "{flags}");
}

#[test]
fn a_line_says_which_addresses_are_mapped() {
    let line = "51246400000-51286400000 rw-p 00000000 00:00 0 ";
    assert_eq!(mapped(line), Some(0x0512_4640_0000..0x0512_8640_0000));
    for other in ["", "Size:  4 kB", "51246400000-", "x-y rw-p"] {
        assert_eq!(mapped(other), None, "{other}");
    }
}
