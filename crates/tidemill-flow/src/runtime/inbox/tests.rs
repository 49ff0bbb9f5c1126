//! Scripts: `i.c` is input i's end of cycle c, `i.c!` its last; what comes out is the cycles that
//! became ready, in brackets the inputs that had ended.

use super::*;
use proptest::prelude::*;

fn end(cycle: u64, ended: bool) -> CycleEnd {
    CycleEnd { cycle: Cycle(cycle), time: Micros(0), watermark: Micros(7), ended }
}

#[track_caller]
fn check(inputs: usize, script: &str, expected: &str) {
    let mut inbox = Inbox::new(inputs, Cycle::FIRST);
    let mut seen = Vec::new();
    for step in script.split(' ') {
        let (input, cycle) = step.split_once('.').expect("input.cycle");
        let ended = cycle.ends_with('!');
        let cycle = cycle.trim_end_matches('!').parse().expect("a number");
        let input = input.parse().expect("a number");
        if let Err(error) = inbox.receive(input, end(cycle, ended), &mut Vec::new()) {
            seen.push(error.to_string());
        }
        while inbox.is_ready() {
            let (cycle, slot) = inbox.begin();
            let ended: Vec<String> =
                (0..inputs).filter(|i| slot.ended[*i]).map(|i| i.to_string()).collect();
            seen.push(format!("{cycle}[{}]", ended.join(",")));
            inbox.recycle(slot);
        }
    }
    assert_eq!(seen.join(" "), expected);
}

#[test]
fn a_cycle_is_ready_when_every_input_has_ended_it() {
    check(2, "0.1 0.2 1.1 1.2", "1[] 2[]");
}

#[test]
fn an_input_that_ended_is_not_waited_for() {
    check(2, "0.1! 1.1 1.2 1.3!", "1[0] 2[0] 3[0,1]");
}

#[test]
fn a_processed_cycle_is_dropped_and_a_repeated_one_is_refused() {
    check(1, "0.1 0.1 0.2", "1[] 2[]");
    check(2, "0.1 0.1 1.1", "input 0 sent cycle 1 twice 1[]");
    check(2, "0.1! 0.2 1.1", "input 0 sent cycle 2 after its end 1[0]");
}

proptest! {
    #[test]
    fn cycles_come_out_once_and_in_order(
        ends in prop::collection::vec(1_u64..20, 1..6),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let inputs = ends.len();
        let mut inbox = Inbox::new(inputs, Cycle::FIRST);
        let mut sent = vec![0_u64; inputs];
        let mut out = Vec::new();
        let mut picks = picks.into_iter().cycle();
        while (0..inputs).any(|i| sent[i] < ends[i]) {
            let open: Vec<usize> = (0..inputs).filter(|i| sent[*i] < ends[*i]).collect();
            let input = *picks.next().expect("cycles for ever").get(&open);
            sent[input] += 1;
            let last = sent[input] == ends[input];
            inbox.receive(input, end(sent[input], last), &mut Vec::new()).expect("in order");
            while inbox.is_ready() {
                let (cycle, slot) = inbox.begin();
                for (i, end) in ends.iter().enumerate() {
                    prop_assert_eq!(slot.ended[i], *end <= cycle.0);
                }
                out.push(cycle.0);
            }
        }
        let last = *ends.iter().max().expect("an input");
        prop_assert_eq!(out, (1..=last).collect::<Vec<_>>());
    }
}
