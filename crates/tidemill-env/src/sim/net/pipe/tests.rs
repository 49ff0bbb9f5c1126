//! The pipe beside a plain model: a list of bytes, and how many of them have arrived.

use super::*;
use crate::Random;

#[test]
fn a_pipe_is_a_queue_whatever_happens_to_its_segments() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let mut pipe = BytePipe::default();
        // The bytes written and not read, those lost by the end of the pipe excepted.
        let mut model: VecDeque<u8> = VecDeque::new();
        let (mut now_us, mut written, mut cut, mut unacknowledged) = (0, 0_u8, false, 0);
        for _ in 0..60 {
            now_us += random.below(30);
            match random.below(8) {
                0..=2 => {
                    let length = 1 + random.below(20) as usize;
                    let bytes: Vec<u8> = (0..length).map(|it| written + it as u8).collect();
                    written = written.wrapping_add(length as u8) % 200;
                    model.extend(&bytes);
                    let arrival_us = (!cut).then(|| now_us + random.below(40));
                    pipe.push(Payload::Bytes(bytes), arrival_us);
                }
                3 | 4 => {
                    let mut into = vec![0; 1 + random.below(25) as usize];
                    let acknowledges = random.below(3) > 0;
                    match pipe.read(&mut into, now_us, acknowledges) {
                        Arrival::Bytes(count) => {
                            let expected: Vec<u8> = model.drain(..count).collect();
                            assert_eq!(into[..count], expected, "seed {seed}");
                            unacknowledged += if acknowledges { 0 } else { count };
                        }
                        Arrival::Nothing(next_us) => {
                            assert!(next_us.is_none_or(|it| it > now_us), "seed {seed}");
                            assert!(next_us.is_some() || cut || model.is_empty(), "seed {seed}");
                        }
                        other => panic!("seed {seed}: {other:?}"),
                    }
                }
                5 => {
                    pipe.stall(now_us);
                    cut = true;
                    assert_eq!(pipe.in_flight_us(now_us), None, "seed {seed}");
                }
                6 => {
                    pipe.resume(now_us + random.below(20));
                    cut = false;
                    assert!(!pipe.has_waiting(), "seed {seed}");
                }
                _ => {
                    pipe.acknowledge();
                    unacknowledged = 0;
                }
            }
            let room = 100_usize.saturating_sub(model.len() + unacknowledged);
            assert_eq!(pipe.room(100), room, "seed {seed}");
        }
        pipe.resume(now_us);
        pipe.push(Payload::End, Some(now_us));
        let mut rest = vec![0; 2_000];
        let left = model.len();
        if left > 0 {
            assert_eq!(pipe.read(&mut rest, u64::MAX, true), Arrival::Bytes(left), "seed {seed}");
            assert_eq!(rest[..left], model.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
        assert_eq!(pipe.read(&mut rest, u64::MAX, true), Arrival::End, "seed {seed}");
    }
}

#[test]
fn what_is_lost_is_a_part_of_the_pipe_and_frees_its_room() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut pipe = BytePipe::default();
        let arrivals = [Some(1), Some(5), Some(9), None];
        for (nth, arrival_us) in arrivals.into_iter().enumerate() {
            pipe.push(Payload::Bytes(vec![nth as u8; 10]), arrival_us);
        }
        let mut into = vec![0; random.below(15) as usize];
        let count = into.len();
        if count > 0 {
            assert_eq!(pipe.read(&mut into, 6, true), Arrival::Bytes(count));
        }
        let (waiting, unarrived, arrived) = (10, 20, 20 - count);
        let lost = match random.below(3) {
            0 => {
                pipe.lose_waiting();
                waiting
            }
            1 => {
                pipe.lose_unarrived(6);
                unarrived
            }
            _ => {
                pipe.lose_arrived(6);
                arrived
            }
        };
        assert_eq!(pipe.room(100), 100 - (40 - count - lost), "seed {seed}");
        let mut left = vec![0; 100];
        pipe.resume(20);
        pipe.push(Payload::Reset, Some(20));
        let before = 40 - count - lost;
        if before > 0 {
            assert_eq!(pipe.read(&mut left, 30, true), Arrival::Bytes(before), "seed {seed}");
        }
        assert_eq!(pipe.read(&mut left, 30, true), Arrival::Reset, "seed {seed}");
        assert_eq!(pipe.room(100), 100, "seed {seed}");
    }
}
