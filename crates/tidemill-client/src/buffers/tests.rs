//! Used again, but never under somebody's hands.

use super::*;

#[test]
fn memory_is_used_again_unless_somebody_has_a_part_of_it() {
    let buffers = Buffers::default();
    let mut memory = Vec::with_capacity(1 << 20);
    memory.extend_from_slice(&[1; 1000]);
    let at = memory.as_ptr();
    let content = Bytes::from(memory);
    let part = content.slice(10..20);
    buffers.give_back(content.clone());
    assert!(buffers.take().is_none(), "somebody has it");
    drop(part);
    buffers.give_back(content);
    let again = buffers.take().unwrap();
    assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, 1 << 20));
}
