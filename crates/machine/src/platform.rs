//! What a machine has besides RAM and harts: devices, consoles, and how its program ended. A machine that is the host of guests has
//! one for each guest.

use loiter_types::{HartId, PhysAddr};

use crate::config::{MachineConfig, MachineError};
use crate::device_tree;
use crate::devices::Devices;
use crate::disk::{DiskConfig, DiskError, DiskFault};
use crate::htif::{Answer, Htif};
use crate::machine::{Ended, EndedBy, Ending};
use crate::partition::Partition;
use crate::ram::Ram;

/// Devices, and what they have said.
pub struct Platform {
    pub(crate) config: MachineConfig,
    pub(crate) devices: Devices,
    pub(crate) htif: Option<Htif>,
    pub(crate) device_tree: Vec<u8>,
    /// Which part of the machine is its own.
    pub(crate) partition: Partition,
    pub(crate) ended: Option<Ended>,
    pub(crate) messages: Vec<String>,
    /// Whether its time stands still.
    is_over: bool,
    console: Vec<u8>,
}

impl Platform {
    pub(crate) fn new(config: &MachineConfig) -> Result<Self, MachineError> {
        let devices = Devices::new(config)?;
        let device_tree = device_tree::write(config, &devices, None)?;
        Ok(Self {
            config: config.clone(),
            devices,
            htif: None,
            device_tree,
            partition: Partition::WHOLE,
            ended: None,
            messages: Vec::new(),
            is_over: false,
            console: Vec::new(),
        })
    }

    /// Which part of the machine is its own.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    pub(crate) fn interrupt_lines(&self, hart: HartId) -> u64 {
        self.devices.clint.lines(hart) | self.devices.plic.lines(hart)
    }

    pub(crate) fn interrupt_generation(&self) -> u64 {
        self.devices.clint.generation() + self.devices.plic.generation()
    }

    /// Its guest runs no more: time stands still for it, and no timer of it is ever due.
    pub fn stop(&mut self) {
        self.is_over = true;
    }

    #[inline(always)]
    pub(crate) fn set_time(&mut self, ticks: u64) {
        if self.is_over {
            return;
        }
        self.devices.clint.set_ticks(ticks);
        if ticks >= self.devices.rtc.deadline() {
            self.devices.alarm();
        }
    }

    /// The first tick, as [`crate::Machine::set_time`] counts them, at which a timer that has not fired yet does.
    #[must_use]
    pub fn next_timer_ticks(&self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        let alarm = self.devices.rtc.deadline();
        let alarm = (alarm != u64::MAX).then_some(alarm);
        [self.devices.clint.deadline(), alarm]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether and how its program has ended.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What its program has written to a console since last asked. Port 0 is the serial console, the
    /// others are [`MachineConfig::ports`], from 1 on; one that there is not says nothing.
    pub fn take_output(&mut self, port: usize) -> Vec<u8> {
        match port {
            0 => std::mem::take(&mut self.console),
            _ => match self.devices.console_mut(port) {
                Some((_, console)) => std::mem::take(&mut console.output),
                None => Vec::new(),
            },
        }
    }

    /// What [`Platform::take_output`] would return.
    #[must_use]
    pub fn output(&self, port: usize) -> &[u8] {
        match port {
            0 => &self.console,
            _ => self.devices.console_output(port),
        }
    }

    /// What it has said, and nobody has taken, is this.
    ///
    /// # Errors
    /// A console that there is not.
    pub fn restore_output(&mut self, port: usize, output: Vec<u8>) -> Result<(), String> {
        if port == 0 {
            self.console = output;
            return Ok(());
        }
        let (_, console) = (self.devices.console_mut(port)).ok_or(format!("no console {port}"))?;
        console.output = output;
        Ok(())
    }

    /// Its consoles, by their numbers.
    pub fn consoles(&self) -> impl Iterator<Item = usize> + use<> {
        0..=self.config.ports
    }

    /// Whether its program has written anything to a console since its output was last taken.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.console.is_empty() || self.devices.has_console_output()
    }

    /// What it is made of.
    #[must_use]
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Puts another disk in the place of disk `number`: as large, and with nothing written to it yet. A driver that has read the
    /// old one may remember its contents.
    ///
    /// # Errors
    /// When there is no such disk, or the new one cannot be had or is larger.
    pub fn replace_disk(&mut self, number: usize, config: &DiskConfig) -> Result<(), DiskError> {
        let disks = self.config.disks.len();
        match self.devices.disk_mut(number) {
            Some(disk) => {
                *disk = disk.replacement(config)?;
                self.config.disks[number] = config.clone();
                Ok(())
            }
            None => Err(DiskError {
                path: config.path.clone().unwrap_or_default(),
                fault: DiskFault::NoSuchDisk { number, disks },
            }),
        }
    }

    /// It becomes guest `guest` of a machine at reset, where its RAM begins `ram_offset` behind the first byte. Its clocks go on where
    /// they stand.
    pub(crate) fn join(&mut self, guest: usize, ram_offset: u64) {
        self.partition = Partition::of_guest(guest, ram_offset, self.config.ram_bytes);
        if let Some(htif) = &mut self.htif {
            htif.join(self.partition);
        }
        self.devices.begin_time();
    }

    /// The part of `ram` that is its own.
    pub(crate) fn ram_of<'a>(&self, ram: &'a mut Ram) -> &'a mut [u8] {
        let all = PhysAddr(crate::RAM_BASE);
        let bytes = self.config.ram_bytes;
        ram.slice_mut(self.partition.place(all), bytes)
            .expect("its RAM is in the machine")
    }

    /// A store to a device has been performed. Returns whether it ends the program.
    pub(crate) fn device_was_stored_to(&mut self) -> bool {
        self.console.append(self.devices.uart.sent());
        let by = EndedBy::Finisher;
        let ending = self.devices.finisher.ending;
        self.ends(ending.map(|ending| Ended { by, ending }))
    }

    /// A store to `tohost` has led to this. Returns whether it ends the program.
    pub(crate) fn was_told(&mut self, answer: Answer) -> bool {
        self.console.extend(answer.console);
        let ending = answer.exit.map(Ending::of_code);
        let by = EndedBy::Htif;
        self.ends(ending.map(|ending| Ended { by, ending }))
    }

    /// The first end counts.
    fn ends(&mut self, ended: Option<Ended>) -> bool {
        let before = self.ended;
        self.ended = before.or(ended);
        before.is_none() && ended.is_some()
    }
}
