//! The 16550A serial console.

use std::collections::VecDeque;
use std::convert::Infallible;

use loiter_isa::Width;
use vm_fdt::FdtWriter;
use vm_superio::{Serial, Trigger, serial::NoEvents};

use super::{Device, Place};

/// Registers are one byte apart, eight of them.
const REGISTERS: u64 = 8;
/// The input clock that QEMU states, from which drivers work out a divisor that nothing heeds.
const CLOCK_HZ: u32 = 3_686_400;

/// The interrupt output. The machine has no external interrupt controller for it to reach, so
/// programs poll the line status register.
struct InterruptLine;

impl Trigger for InterruptLine {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The UART, and the input that its FIFO has no room for yet.
pub(crate) struct Uart {
    serial: Serial<InterruptLine, NoEvents, Vec<u8>>,
    input: VecDeque<u8>,
}

impl Uart {
    pub(crate) fn new() -> Self {
        Self {
            serial: Serial::new(InterruptLine, Vec::new()),
            input: VecDeque::new(),
        }
    }

    /// What the program has sent since last asked.
    pub(crate) fn sent(&mut self) -> &mut Vec<u8> {
        self.serial.writer_mut()
    }

    /// Gives the program `bytes` to receive.
    pub(crate) fn push_input(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
        self.refill();
    }

    fn refill(&mut self) {
        let room = self.serial.fifo_capacity().min(self.input.len());
        if room > 0 {
            let bytes: Vec<u8> = self.input.iter().take(room).copied().collect();
            let taken = self.serial.enqueue_raw_bytes(&bytes);
            // In loopback mode the receiver is disconnected and takes nothing.
            self.input
                .drain(..taken.expect("there is room, and the interrupt cannot fail"));
        }
    }
}

impl Device for Uart {
    fn load(&mut self, offset: u64, width: Width) -> Option<u64> {
        if width != Width::B || offset >= REGISTERS {
            return None;
        }
        let value = self.serial.read(offset as u8);
        self.refill();
        Some(u64::from(value))
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        if width != Width::B || offset >= REGISTERS {
            return None;
        }
        let written = self.serial.write(offset as u8, value as u8);
        written.expect("a Vec takes every byte, and the interrupt cannot fail");
        self.refill();
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, place: &Place) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&place.node("serial"))?;
        tree.property_string("compatible", "ns16550a")?;
        tree.property_array_u64("reg", &place.reg())?;
        tree.property_u32("clock-frequency", CLOCK_HZ)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u64 = 0;
    const MODEM_CONTROL: u64 = 4;
    const LINE_STATUS: u64 = 5;
    const SCRATCH: u64 = 7;
    const DATA_READY: u64 = 1;
    const TRANSMITTER_EMPTY: u64 = 0x60;

    fn receive(uart: &mut Uart) -> Vec<u8> {
        let mut bytes = Vec::new();
        while uart.load(LINE_STATUS, Width::B).unwrap() & DATA_READY != 0 {
            bytes.push(uart.load(DATA, Width::B).unwrap() as u8);
        }
        bytes
    }

    #[test]
    fn sends_in_order_and_is_always_ready() {
        let mut uart = Uart::new();
        for byte in *b"spin" {
            assert_eq!(uart.load(LINE_STATUS, Width::B), Some(TRANSMITTER_EMPTY));
            uart.store(DATA, Width::B, u64::from(byte)).unwrap();
        }
        assert_eq!(uart.sent(), b"spin");
    }

    #[test]
    fn input_longer_than_the_fifo_arrives_whole() {
        let mut uart = Uart::new();
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        uart.push_input(&text[..10]);
        uart.push_input(&text[10..]);
        assert_eq!(receive(&mut uart), text);
    }

    #[test]
    fn input_waits_while_the_receiver_is_looped_back() {
        let mut uart = Uart::new();
        uart.store(MODEM_CONTROL, Width::B, 0x10).unwrap();
        uart.push_input(b"later");
        uart.store(DATA, Width::B, u64::from(b'x')).unwrap();
        assert_eq!(receive(&mut uart), b"x");
        assert!(uart.sent().is_empty());
        uart.store(MODEM_CONTROL, Width::B, 0).unwrap();
        assert_eq!(receive(&mut uart), b"later");
    }

    #[test]
    fn only_bytes_and_only_eight_registers() {
        let mut uart = Uart::new();
        uart.store(SCRATCH, Width::B, 0x1a5).unwrap();
        assert_eq!(uart.load(SCRATCH, Width::B), Some(0xa5));
        for width in [Width::H, Width::W, Width::D] {
            assert_eq!(uart.load(DATA, width), None);
            assert_eq!(uart.store(DATA, width, 65), None);
        }
        assert_eq!(uart.load(REGISTERS, Width::B), None);
        assert_eq!(uart.store(REGISTERS, Width::B, 65), None);
        assert!(uart.sent().is_empty());
    }
}
