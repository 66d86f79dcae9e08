//! The Goldfish real-time clock, as in QEMU: nanoseconds since 1970, in simulated time.
//!
//! Register layout: "Goldfish RTC" in the documentation of Android's Goldfish platform; that a
//! write to the time sets it is QEMU's and Linux's understanding of it.

use loiter_isa::Width;
use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;

use super::{Device, Surroundings};

const TIME_LOW: u64 = 0x00;
const TIME_HIGH: u64 = 0x04;
const ALARM_LOW: u64 = 0x08;
const ALARM_HIGH: u64 = 0x0c;
const IRQ_ENABLED: u64 = 0x10;
const CLEAR_ALARM: u64 = 0x14;
const ALARM_STATUS: u64 = 0x18;
const CLEAR_INTERRUPT: u64 = 0x1c;

const NS_PER_S: u64 = 1_000_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rtc {
    #[serde(skip)]
    timebase_hz: u64,
    /// Time since reset, in ticks of the time base.
    ticks: u64,
    /// The time of day at reset, in nanoseconds, less what the guest has set it back.
    epoch_ns: u64,
    /// The upper half of the time at the last read of the lower.
    time_high: u32,
    alarm_ns: u64,
    alarm_armed: bool,
    interrupt_enabled: bool,
    interrupt_pending: bool,
    /// The tick at which the alarm goes off; `u64::MAX` when it is not armed.
    #[serde(skip)]
    deadline: u64,
}

impl Rtc {
    pub(crate) fn new(timebase_hz: u64, epoch_s: u64) -> Self {
        Self {
            timebase_hz,
            ticks: 0,
            epoch_ns: epoch_s * NS_PER_S,
            time_high: 0,
            alarm_ns: 0,
            alarm_armed: false,
            interrupt_enabled: false,
            interrupt_pending: false,
            deadline: u64::MAX,
        }
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &Self) {
        *self = Self {
            timebase_hz: self.timebase_hz,
            ..saved.clone()
        };
        self.update();
    }

    /// Sets the time; needed before each access and when the deadline is reached.
    pub(crate) fn set_ticks(&mut self, ticks: u64) {
        self.ticks = ticks;
        self.update();
    }

    /// The caller's time begins anew, at 0; the time of day goes on where it stands.
    pub(crate) fn begin_time(&mut self) {
        self.epoch_ns = self.now_ns();
        self.ticks = 0;
        self.update();
    }

    /// The tick at which the alarm goes off; `u64::MAX` for never.
    #[inline(always)]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// The level of the interrupt line.
    pub(crate) fn interrupt(&self) -> bool {
        self.interrupt_enabled && self.interrupt_pending
    }

    fn now_ns(&self) -> u64 {
        self.epoch_ns.wrapping_add(self.ns_since_reset() as u64)
    }

    fn ns_since_reset(&self) -> u128 {
        u128::from(self.ticks) * u128::from(NS_PER_S) / u128::from(self.timebase_hz)
    }

    fn set_now_ns(&mut self, now_ns: u64) {
        let change = now_ns.wrapping_sub(self.now_ns());
        self.epoch_ns = self.epoch_ns.wrapping_add(change);
    }

    /// Lets the alarm go off if it is due, and works out when it will be.
    fn update(&mut self) {
        self.deadline = u64::MAX;
        if !self.alarm_armed {
            return;
        }
        let now = self.now_ns();
        if self.alarm_ns <= now {
            self.alarm_armed = false;
            self.interrupt_pending = true;
            return;
        }
        let since_reset = self.ns_since_reset() + u128::from(self.alarm_ns - now);
        let ticks = (since_reset * u128::from(self.timebase_hz)).div_ceil(u128::from(NS_PER_S));
        self.deadline = u64::try_from(ticks).unwrap_or(u64::MAX);
    }
}

impl Device for Rtc {
    fn load(&mut self, offset: u64, width: Width) -> Option<u64> {
        if width != Width::W {
            return None;
        }
        let value = match offset {
            TIME_LOW => {
                let now = self.now_ns();
                self.time_high = (now >> 32) as u32;
                now as u32
            }
            TIME_HIGH => self.time_high,
            ALARM_LOW => self.alarm_ns as u32,
            ALARM_HIGH => (self.alarm_ns >> 32) as u32,
            IRQ_ENABLED => u32::from(self.interrupt_enabled),
            ALARM_STATUS => u32::from(self.alarm_armed),
            _ => 0,
        };
        Some(u64::from(value))
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        if width != Width::W {
            return None;
        }
        let (low, high) = (value & 0xffff_ffff, value << 32);
        match offset {
            TIME_LOW => self.set_now_ns(self.now_ns() >> 32 << 32 | low),
            TIME_HIGH => self.set_now_ns(high | self.now_ns() & 0xffff_ffff),
            ALARM_LOW => {
                self.alarm_ns = self.alarm_ns >> 32 << 32 | low;
                self.alarm_armed = true;
            }
            ALARM_HIGH => self.alarm_ns = high | self.alarm_ns & 0xffff_ffff,
            IRQ_ENABLED => self.interrupt_enabled = low & 1 != 0,
            CLEAR_ALARM => self.alarm_armed = false,
            CLEAR_INTERRUPT => self.interrupt_pending = false,
            _ => {}
        }
        self.update();
        Some(())
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("rtc"))?;
        tree.property_string("compatible", "google,goldfish-rtc")?;
        tree.property_array_u64("reg", &around.reg())?;
        around.interrupt(tree)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 10_000_000;
    const NS_PER_TICK: u64 = NS_PER_S / HZ;
    const EPOCH_S: u64 = 1_767_225_600;

    fn read(rtc: &mut Rtc) -> u64 {
        let low = rtc.load(TIME_LOW, Width::W).unwrap();
        rtc.load(TIME_HIGH, Width::W).unwrap() << 32 | low
    }

    fn write(rtc: &mut Rtc, low: u64, high: u64, value: u64) {
        rtc.store(high, Width::W, value >> 32).unwrap();
        rtc.store(low, Width::W, value & 0xffff_ffff).unwrap();
    }

    #[test]
    fn time_passes_with_ticks() {
        let mut rtc = Rtc::new(HZ, EPOCH_S);
        assert_eq!(read(&mut rtc), EPOCH_S * NS_PER_S);
        rtc.set_ticks(3 * HZ + 1);
        assert_eq!(read(&mut rtc), (EPOCH_S + 3) * NS_PER_S + NS_PER_TICK);
        let mut odd = Rtc::new(3, 0);
        odd.set_ticks(u64::MAX / 4);
        let expected = u128::from(u64::MAX / 4) * u128::from(NS_PER_S) / 3;
        assert_eq!(read(&mut odd), expected as u64);
    }

    #[test]
    fn the_upper_half_belongs_to_the_lower_half_read_before() {
        let mut rtc = Rtc::new(NS_PER_S, 0);
        rtc.set_ticks(0xffff_ffff);
        assert_eq!(rtc.load(TIME_LOW, Width::W), Some(0xffff_ffff));
        rtc.set_ticks(0x1_0000_0000);
        assert_eq!(rtc.load(TIME_HIGH, Width::W), Some(0));
        assert_eq!(read(&mut rtc), 0x1_0000_0000);
    }

    #[test]
    fn the_time_can_be_set() {
        let mut rtc = Rtc::new(HZ, EPOCH_S);
        rtc.set_ticks(HZ);
        write(&mut rtc, TIME_LOW, TIME_HIGH, 5 * NS_PER_S);
        assert_eq!(read(&mut rtc), 5 * NS_PER_S);
        rtc.set_ticks(2 * HZ);
        assert_eq!(read(&mut rtc), 6 * NS_PER_S);
    }

    #[test]
    fn the_alarm_goes_off_at_its_time_and_not_before() {
        let mut rtc = Rtc::new(HZ, EPOCH_S);
        rtc.store(IRQ_ENABLED, Width::W, 1).unwrap();
        let alarm = EPOCH_S * NS_PER_S + 1000 * NS_PER_TICK;
        write(&mut rtc, ALARM_LOW, ALARM_HIGH, alarm);
        assert_eq!(rtc.deadline(), 1000);
        assert_eq!(rtc.load(ALARM_STATUS, Width::W), Some(1));
        rtc.set_ticks(999);
        assert!(!rtc.interrupt());
        rtc.set_ticks(1000);
        assert!(rtc.interrupt());
        assert_eq!(rtc.deadline(), u64::MAX);
        assert_eq!(rtc.load(ALARM_STATUS, Width::W), Some(0));
        rtc.store(CLEAR_INTERRUPT, Width::W, 1).unwrap();
        assert!(!rtc.interrupt());
    }

    #[test]
    fn an_alarm_between_ticks_goes_off_at_the_next() {
        let mut rtc = Rtc::new(HZ, 0);
        write(&mut rtc, ALARM_LOW, ALARM_HIGH, 10 * NS_PER_TICK + 1);
        assert_eq!(rtc.deadline(), 11);
        rtc.set_ticks(11);
        assert_eq!(rtc.deadline(), u64::MAX);
        assert!(!rtc.interrupt(), "not enabled");
        rtc.store(IRQ_ENABLED, Width::W, 1).unwrap();
        assert!(rtc.interrupt());
    }

    #[test]
    fn an_alarm_can_be_cleared_and_one_in_the_past_goes_off_at_once() {
        let mut rtc = Rtc::new(HZ, EPOCH_S);
        write(&mut rtc, ALARM_LOW, ALARM_HIGH, u64::MAX);
        assert!(rtc.deadline() < u64::MAX);
        rtc.store(CLEAR_ALARM, Width::W, 0).unwrap();
        assert_eq!(rtc.deadline(), u64::MAX);
        rtc.set_ticks(u64::MAX / 2);
        rtc.store(IRQ_ENABLED, Width::W, 1).unwrap();
        assert!(!rtc.interrupt());
        write(&mut rtc, ALARM_LOW, ALARM_HIGH, 1);
        assert!(rtc.interrupt());
    }

    #[test]
    fn only_words() {
        let mut rtc = Rtc::new(HZ, EPOCH_S);
        for width in [Width::B, Width::H, Width::D] {
            assert_eq!(rtc.load(TIME_LOW, width), None);
            assert_eq!(rtc.store(TIME_LOW, width, 0), None);
        }
        assert_eq!(rtc.store(0x20, Width::W, 1), Some(()));
        assert_eq!(rtc.load(0x20, Width::W), Some(0));
    }
}
