use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use crate::testing::{GLOBAL, OBJECT, TestElf, machine, ram, symbol};
use crate::{AccessFault, Ended, EndedBy, Ending, Machine, RAM_BASE};

const TOHOST: u64 = 0x800;
const FROMHOST: u64 = 0x840;
const BLOCK: u64 = 0x900;
const BY: HartId = HartId(0);

/// A machine whose program has both words, in lines of their own.
fn htif() -> Machine {
    let symbols = vec![
        symbol("tohost", RAM_BASE + TOHOST, 8, OBJECT | GLOBAL),
        symbol("fromhost", RAM_BASE + FROMHOST, 8, OBJECT | GLOBAL),
    ];
    let mut machine = machine();
    machine
        .load_elf(
            &TestElf {
                symbols,
                ..TestElf::default()
            }
            .image(),
        )
        .unwrap();
    machine
}

fn store(machine: &mut Machine, offset: u64, width: Width, value: u64) -> Result<(), AccessFault> {
    machine.store(BY, ram(offset), width, value)
}

fn ended(code: u32) -> Option<Ended> {
    Some(Ended {
        by: EndedBy::Htif,
        ending: match code {
            0 => Ending::PowerOff,
            code => Ending::Failure(code),
        },
    })
}

fn call(machine: &mut Machine, words: [u64; 4]) -> Result<(), AccessFault> {
    for (offset, word) in (BLOCK..).step_by(8).zip(words) {
        store(machine, offset, Width::D, word)?;
    }
    store(machine, TOHOST, Width::D, RAM_BASE + BLOCK)
}

#[test]
fn exit_codes() {
    for (value, code) in [(1, 0), (3, 1), (255, 127), (1 | (1 << 33), u32::MAX)] {
        let mut machine = htif();
        store(&mut machine, TOHOST, Width::D, value).unwrap();
        assert_eq!(machine.ended(), ended(code), "{value:#x}");
        assert_eq!(
            machine.load(ram(TOHOST), Width::D),
            Ok(0),
            "the host has taken it"
        );
    }
}

#[test]
fn zero_is_no_command() {
    let mut machine = htif();
    store(&mut machine, TOHOST, Width::D, 0).unwrap();
    assert_eq!(machine.ended(), None);
}

#[test]
fn an_exit_in_four_bytes() {
    let mut machine = htif();
    store(&mut machine, TOHOST, Width::W, 5).unwrap();
    assert_eq!(machine.ended(), ended(2));
    store(&mut machine, TOHOST + 4, Width::W, 0).unwrap();
    assert_eq!(machine.ended(), ended(2));
}

#[test]
fn the_first_exit_stays() {
    let mut machine = htif();
    store(&mut machine, TOHOST, Width::D, 9).unwrap();
    store(&mut machine, TOHOST, Width::D, 1).unwrap();
    assert_eq!(machine.ended(), ended(4));
}

#[test]
fn characters_whole_and_in_halves() {
    let mut machine = htif();
    store(
        &mut machine,
        TOHOST,
        Width::D,
        (0x0101 << 48) | u64::from(b'h'),
    )
    .unwrap();
    store(&mut machine, TOHOST, Width::W, u64::from(b'j')).unwrap();
    store(&mut machine, TOHOST + 8, Width::D, 1).unwrap();
    store(&mut machine, TOHOST - 8, Width::D, 1).unwrap();
    assert_eq!(
        machine.take_output(0),
        b"h",
        "half a command, whatever its neighbours get"
    );
    store(&mut machine, TOHOST + 4, Width::W, 0x0101 << 16).unwrap();
    assert_eq!(machine.take_output(0), b"j");
    assert_eq!(machine.ended(), None);
    assert_eq!(
        machine.load(ram(FROMHOST), Width::D),
        Ok(0),
        "a character has no answer"
    );
}

#[test]
fn console_output_keeps_the_order_of_both_ways() {
    let mut machine = htif();
    for byte in *b"abcd" {
        let value = u64::from(byte);
        if byte % 2 == 0 {
            store(&mut machine, TOHOST, Width::D, (0x0101 << 48) | value).unwrap();
        } else {
            machine
                .store(BY, PhysAddr(0x1000_0000), Width::B, value)
                .unwrap();
        }
    }
    assert_eq!(machine.take_output(0), b"abcd");
}

#[test]
fn the_write_call() {
    let mut machine = htif();
    machine
        .ram
        .slice_mut(ram(0xa00), 5)
        .unwrap()
        .copy_from_slice(b"hello");
    call(&mut machine, [64, 1, RAM_BASE + 0xa00, 5]).unwrap();
    assert_eq!(machine.take_output(0), b"hello");
    assert_eq!(machine.load(ram(BLOCK), Width::D), Ok(5));
    assert_eq!(machine.load(ram(FROMHOST), Width::D), Ok(1));
    assert_eq!(machine.load(ram(TOHOST), Width::D), Ok(0));
}

#[test]
fn other_calls() {
    let mut machine = htif();
    call(&mut machine, [1234, 0, 0, 0]).unwrap();
    assert_eq!(machine.load(ram(BLOCK), Width::D), Ok(-38_i64 as u64));
    assert_eq!(machine.load(ram(FROMHOST), Width::D), Ok(1));
    assert_eq!(machine.ended(), None);
    call(&mut machine, [93, 6, 0, 0]).unwrap();
    assert_eq!(machine.ended(), ended(6));
}

#[test]
fn what_the_host_writes_breaks_watches() {
    let mut machine = htif();
    machine.watches.arm(BY, ram(FROMHOST));
    machine.watches.arm(HartId(1), ram(BLOCK));
    machine.watches.arm(HartId(2), ram(TOHOST));
    call(&mut machine, [1234, 0, 0, 0]).unwrap();
    for (hart, offset) in [(BY, FROMHOST), (HartId(1), BLOCK), (HartId(2), TOHOST)] {
        assert!(!machine.watches.is_held(hart, ram(offset)), "{hart}");
    }
}

#[test]
fn nonsense_faults() {
    let mut machine = htif();
    for (value, addr) in [
        (0x1000, PhysAddr(0x1000)),
        (0x0200 << 48 | 1, ram(TOHOST)),
        (0x0001 << 48, ram(TOHOST)),
        (RAM_BASE + (1 << 20) - 8, ram(1 << 20)),
    ] {
        assert_eq!(
            store(&mut machine, TOHOST, Width::D, value),
            Err(AccessFault { addr })
        );
    }
    let write_outside = call(&mut machine, [64, 1, 0x5000, 5]);
    assert_eq!(
        write_outside,
        Err(AccessFault {
            addr: PhysAddr(0x5000)
        })
    );
    assert!(machine.take_output(0).is_empty());
    assert_eq!(machine.ended(), None);
}
