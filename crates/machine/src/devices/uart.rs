//! The 16550A serial console.
//!
//! vm-superio announces interrupts as events and forgets them once the identification register is
//! read, even if received bytes are left. The interrupt line of a 16550 is a level; it is worked out
//! here from the registers.

use std::collections::VecDeque;
use std::convert::Infallible;

use loiter_isa::Width;
use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, SerialState, Trigger};

use super::{Device, Surroundings};

/// Registers are one byte apart, eight of them.
const REGISTERS: u64 = 8;
const INTERRUPT_IDENTIFICATION: u64 = 2;
const LINE_STATUS: u64 = 5;
/// Bits of the register that enables interrupts.
const RECEIVED_ENABLED: u8 = 1;
const SENT_ENABLED: u8 = 2;
/// Values of the interrupt identification register; both FIFO bits are set.
const NOTHING: u8 = 0xc1;
const SENT: u8 = 0xc2;
const RECEIVED: u8 = 0xc4;
/// The bit of [`SENT`] alone.
const SENT_BIT: u8 = SENT & !0xc0;
/// Bit of the line status register.
const DATA_READY: u8 = 1;
/// So many looks at the line status, with nothing sent or read between them, are made by a program that
/// waits for input: one that sends looks once for each byte.
const LOOKS_OF_A_READER: u8 = 16;
/// The input clock that QEMU states, from which drivers work out a divisor that nothing heeds.
const CLOCK_HZ: u32 = 3_686_400;

/// Announces nothing; see above.
struct NoTrigger;

impl Trigger for NoTrigger {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The UART, and the input that its FIFO has no room for yet.
pub(crate) struct Uart {
    serial: Serial<NoTrigger, NoEvents, Vec<u8>>,
    input: VecDeque<u8>,
    /// Looks at the line status since anything else was done. Nobody in the guest sees it.
    looks: u8,
}

/// The UART as a snapshot keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedUart {
    baud_divisor: [u8; 2],
    interrupt_enable: u8,
    interrupt_identification: u8,
    line_control: u8,
    line_status: u8,
    modem_control: u8,
    modem_status: u8,
    scratch: u8,
    /// Bytes that have been received and not yet read.
    fifo: Vec<u8>,
    input: VecDeque<u8>,
}

impl Uart {
    pub(crate) fn new() -> Self {
        Self {
            serial: Serial::new(NoTrigger, Vec::new()),
            input: VecDeque::new(),
            looks: 0,
        }
    }

    /// Whether the program waits for input, by interrupt or by polling. A driver that starts throws away
    /// what has been received before.
    pub(crate) fn is_read(&self) -> bool {
        self.serial.state().interrupt_enable & RECEIVED_ENABLED != 0
            || self.looks >= LOOKS_OF_A_READER
    }

    /// All that a snapshot needs. What was sent is nobody's state.
    pub(crate) fn save(&self) -> SavedUart {
        let serial = self.serial.state();
        SavedUart {
            baud_divisor: [serial.baud_divisor_low, serial.baud_divisor_high],
            interrupt_enable: serial.interrupt_enable,
            interrupt_identification: serial.interrupt_identification,
            line_control: serial.line_control,
            line_status: serial.line_status,
            modem_control: serial.modem_control,
            modem_status: serial.modem_status,
            scratch: serial.scratch,
            fifo: serial.in_buffer,
            input: self.input.clone(),
        }
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &SavedUart) -> Result<(), String> {
        let state = SerialState {
            baud_divisor_low: saved.baud_divisor[0],
            baud_divisor_high: saved.baud_divisor[1],
            interrupt_enable: saved.interrupt_enable,
            interrupt_identification: saved.interrupt_identification,
            line_control: saved.line_control,
            line_status: saved.line_status,
            modem_control: saved.modem_control,
            modem_status: saved.modem_status,
            scratch: saved.scratch,
            in_buffer: saved.fifo.clone(),
        };
        self.serial = Serial::from_state(&state, NoTrigger, NoEvents, Vec::new())
            .map_err(|_| format!("{} bytes in the serial line's FIFO", saved.fifo.len()))?;
        self.input = saved.input.clone();
        Ok(())
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

    /// The level of the interrupt line.
    pub(crate) fn interrupt(&self) -> bool {
        self.identification() != NOTHING
    }

    /// The most urgent interrupt.
    fn identification(&self) -> u8 {
        let state = self.serial.state();
        let enabled = |bit| state.interrupt_enable & bit != 0;
        if enabled(RECEIVED_ENABLED) && state.line_status & DATA_READY != 0 {
            RECEIVED
        } else if enabled(SENT_ENABLED) && state.interrupt_identification & SENT_BIT != 0 {
            SENT
        } else {
            NOTHING
        }
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
        self.looks = match offset {
            LINE_STATUS => self.looks.saturating_add(1),
            _ => 0,
        };
        let identification = self.identification();
        let value = match offset {
            // To read that bytes were received does not forget that others were sent.
            INTERRUPT_IDENTIFICATION if identification == RECEIVED => RECEIVED,
            INTERRUPT_IDENTIFICATION => {
                self.serial.read(offset as u8);
                identification
            }
            _ => self.serial.read(offset as u8),
        };
        self.refill();
        Some(u64::from(value))
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        if width != Width::B || offset >= REGISTERS {
            return None;
        }
        self.looks = 0;
        let written = self.serial.write(offset as u8, value as u8);
        written.expect("a Vec takes every byte, and the interrupt cannot fail");
        self.refill();
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("serial"))?;
        tree.property_string("compatible", "ns16550a")?;
        tree.property_array_u64("reg", &around.reg())?;
        tree.property_u32("clock-frequency", CLOCK_HZ)?;
        around.interrupt(tree)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u64 = 0;
    const INTERRUPT_ENABLE: u64 = 1;
    const MODEM_CONTROL: u64 = 4;
    const SCRATCH: u64 = 7;
    const TRANSMITTER_EMPTY: u64 = 0x60;

    fn receive(uart: &mut Uart) -> Vec<u8> {
        let mut bytes = Vec::new();
        while uart.load(LINE_STATUS, Width::B).unwrap() & u64::from(DATA_READY) != 0 {
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
    fn a_program_that_waits_for_input_is_known() {
        let mut uart = Uart::new();
        enable(&mut uart, SENT_ENABLED);
        for byte in *b"a line that is sent, longer than the looks of a reader" {
            uart.load(LINE_STATUS, Width::B).unwrap();
            uart.store(DATA, Width::B, u64::from(byte)).unwrap();
            assert!(!uart.is_read());
        }
        for look in 1..=LOOKS_OF_A_READER {
            uart.load(LINE_STATUS, Width::B).unwrap();
            assert_eq!(uart.is_read(), look == LOOKS_OF_A_READER);
        }
        uart.load(DATA, Width::B).unwrap();
        assert!(!uart.is_read());
        enable(&mut uart, RECEIVED_ENABLED);
        assert!(uart.is_read());
    }

    fn identify(uart: &mut Uart) -> u8 {
        uart.load(INTERRUPT_IDENTIFICATION, Width::B).unwrap() as u8
    }

    fn enable(uart: &mut Uart, interrupts: u8) {
        uart.store(INTERRUPT_ENABLE, Width::B, u64::from(interrupts))
            .unwrap();
    }

    #[test]
    fn received_bytes_interrupt_until_all_are_read() {
        let mut uart = Uart::new();
        uart.push_input(b"ab");
        assert!(!uart.interrupt(), "not enabled");
        enable(&mut uart, RECEIVED_ENABLED);
        for _ in 0..2 {
            assert!(uart.interrupt());
            assert_eq!(identify(&mut uart), RECEIVED);
            assert!(uart.interrupt(), "identifying does not read them");
            uart.load(DATA, Width::B).unwrap();
        }
        assert!(!uart.interrupt());
        assert_eq!(identify(&mut uart), NOTHING);
        uart.push_input(b"c");
        assert!(uart.interrupt());
        enable(&mut uart, 0);
        assert!(!uart.interrupt());
    }

    #[test]
    fn a_sent_byte_interrupts_until_that_is_identified() {
        let mut uart = Uart::new();
        enable(&mut uart, SENT_ENABLED);
        assert!(uart.interrupt(), "ready to send at once");
        assert_eq!(identify(&mut uart), SENT);
        assert!(!uart.interrupt());
        uart.store(DATA, Width::B, u64::from(b'x')).unwrap();
        assert!(uart.interrupt());
        enable(&mut uart, 0);
        assert!(!uart.interrupt());
        assert_eq!(identify(&mut uart), NOTHING);
    }

    #[test]
    fn what_is_received_comes_first_and_what_is_sent_is_not_forgotten() {
        let mut uart = Uart::new();
        uart.push_input(b"a");
        enable(&mut uart, RECEIVED_ENABLED | SENT_ENABLED);
        assert_eq!(identify(&mut uart), RECEIVED);
        uart.load(DATA, Width::B).unwrap();
        assert_eq!(identify(&mut uart), SENT);
        assert_eq!(identify(&mut uart), NOTHING);
        assert!(!uart.interrupt());
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
