//! Random requests against a second model of the second level: queues that are gone through cycle by cycle, where the
//! model reserves times ahead when a request is sent.

use std::collections::{BTreeMap, VecDeque};

use super::tests::{config, drain};
use loiter_types::ContextId;

use super::*;

/// One request of a random run.
#[derive(Clone, Copy, Debug)]
struct Asked {
    sent: u64,
    kind: RequestKind,
    line: u64,
}

/// A bank of the second model.
#[derive(Default)]
struct Bank {
    /// Requests that have arrived, oldest first.
    queue: VecDeque<usize>,
    free: u64,
    /// Requests that are being looked up, with the cycle in which that ends.
    looking_up: VecDeque<(u64, usize)>,
    /// Misses without a register.
    waiting: VecDeque<usize>,
    /// When each taken register is free again; unknown as long as its transfer has not begun.
    registers: Vec<Option<u64>>,
}

/// When a line is there: not known until its transfer begins.
type Lines = BTreeMap<u64, Option<u64>>;

/// When each request performs.
fn second_model(config: &MemoryConfig, asked: &[Asked]) -> Vec<u64> {
    let l2 = &config.l2;
    let access = l2.hit_latency_cycles - l2.request_cycles - l2.reply_cycles;
    let mut banks: Vec<Bank> = (0..l2.banks).map(|_| Bank::default()).collect();
    let mut channels = vec![(0, VecDeque::new()); config.memory.channels as usize];
    let mut lines = Lines::new();
    let mut performs: Vec<Option<u64>> = vec![None; asked.len()];
    let mut behind_line: Vec<usize> = Vec::new();
    let mut now = 0;
    while performs.contains(&None) {
        for (n, request) in asked.iter().enumerate() {
            if request.sent + l2.request_cycles == now {
                banks[(request.line % l2.banks) as usize].queue.push_back(n);
            }
        }
        let mut registered = Vec::new();
        for (number, bank) in banks.iter_mut().enumerate() {
            if bank.free <= now
                && let Some(n) = bank.queue.pop_front()
            {
                bank.free = now + l2.bank_busy_cycles;
                bank.looking_up.push_back((now + access, n));
            }
            while bank.looking_up.front().is_some_and(|(at, _)| *at == now) {
                let (_, n) = bank.looking_up.pop_front().unwrap();
                match lines.get(&asked[n].line) {
                    Some(&Some(ready)) => performs[n] = Some(ready.max(now)),
                    Some(None) => behind_line.push(n),
                    None => {
                        lines.insert(asked[n].line, None);
                        behind_line.push(n);
                        bank.waiting.push_back(n);
                    }
                }
            }
            bank.registers
                .retain(|free| free.is_none_or(|free| free > now));
            while (bank.registers.len() as u64) < l2.mshrs_per_bank
                && let Some(n) = bank.waiting.pop_front()
            {
                bank.registers.push(None);
                registered.push((n, number));
            }
        }
        // Of one cycle, the one that was sent first.
        registered.sort_unstable();
        for (n, bank) in registered {
            let channel = bank % channels.len();
            channels[channel].1.push_back((n, bank));
        }
        for (free, queue) in &mut channels {
            if *free <= now
                && let Some((n, bank)) = queue.pop_front()
            {
                *free = now + config.memory.line_transfer_cycles;
                let ready = now + l2.miss_latency_cycles - l2.hit_latency_cycles;
                lines.insert(asked[n].line, Some(ready));
                let register = banks[bank].registers.iter_mut().find(|free| free.is_none());
                *register.unwrap() = Some(ready);
            }
        }
        behind_line.retain(|&n| {
            let ready = lines[&asked[n].line];
            performs[n] = ready;
            ready.is_none()
        });
        now += 1;
    }
    performs.into_iter().flatten().collect()
}

/// A stream of requests, dense and sparse by turns, over few enough lines that many meet. With `apart`, no two are sent in
/// one cycle.
fn stream(seed: u64, lines: u64, apart: bool) -> Vec<Asked> {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut sent = 0;
    let mut requests = Vec::new();
    for n in 0..300 {
        sent += random(if n / 50 % 2 == 0 { 3 } else { 40 }) + u64::from(apart);
        let kind = match random(3) {
            0 => RequestKind::Walk,
            1 => RequestKind::Fetch,
            _ => RequestKind::Load,
        };
        let line = random(lines);
        requests.push(Asked { sent, kind, line });
    }
    requests
}

/// Every request performs when the second model says, and those of one cycle in the order in which they were sent.
fn compare(config: &MemoryConfig, asked: &[Asked]) {
    let mut system = MemorySystem::new(config.clone()).unwrap();
    let mut responses = Vec::new();
    for (n, request) in asked.iter().enumerate() {
        drain(&mut system, request.sent, &mut responses);
        system.send(
            Cycle(request.sent),
            Request {
                kind: request.kind,
                core: CoreId((n % 4) as u16),
                context: ContextId(n as u16),
                addr: PhysAddr(64 * request.line),
                tag: 0,
            },
        );
    }
    drain(&mut system, u64::MAX - 1, &mut responses);
    let got: Vec<(u64, usize)> = responses
        .iter()
        .map(|(at, response)| (*at, response.request.context.index()))
        .collect();
    let mut expected: Vec<(u64, usize)> = second_model(config, asked)
        .into_iter()
        .enumerate()
        .map(|(n, at)| (at, n))
        .collect();
    expected.sort_unstable();
    let differ = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(got, expected, "first at {differ:?}");
}

#[test]
fn random_requests_perform_when_a_queue_model_says() {
    let mut config = config();
    // Room for all lines: what is replaced is not this test's matter.
    config.l2.size_kib = 1024;
    for seed in 0..20 {
        for lines in [4, 40, 400] {
            compare(&config, &stream(seed, lines, false));
        }
    }
    config.l2.bank_busy_cycles = 2;
    config.l2.mshrs_per_bank = 3;
    for seed in 20..40 {
        compare(&config, &stream(seed, 400, false));
    }
}

/// Two banks on each channel. A channel serves its banks in the order of sending, which is that of looking up when no
/// request waits for its bank and no miss for a register.
#[test]
fn banks_that_share_a_channel_take_turns() {
    let mut config = config();
    config.l2.size_kib = 1024;
    config.l2.mshrs_per_bank = 1024;
    config.memory.channels = 2;
    for seed in 0..20 {
        compare(&config, &stream(seed, 400, true));
    }
}
