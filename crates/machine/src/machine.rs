//! The bus: RAM in front, devices behind it, and the side effects of stores.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::config::{MachineConfig, MachineError, check};
use crate::device_tree;
use crate::devices::{Devices, Dma};
use crate::disk::{DiskConfig, DiskError, DiskFault};
use crate::htif::Htif;
use crate::map::{DeviceId, RAM_BASE, device_at};
use crate::pages::{Pages, TableWrite};
use crate::ram::Ram;
use crate::snapshot::{Snapshot, SnapshotError};
use crate::watches::Watches;

/// An access to an address at which nothing answers, or not to this access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing answers this access at physical address {addr}")]
pub struct AccessFault {
    /// The address of the access.
    pub addr: PhysAddr,
}

/// Who ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndedBy {
    /// A store to the test finisher.
    Finisher,
    /// A store to `tohost`.
    Htif,
}

/// What a program wanted when it ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Power off; success.
    PowerOff,
    /// Start again, which is left to the caller.
    Reset,
    /// Failure with this code, which is not 0.
    Failure(u32),
}

impl Ending {
    /// The exit code; 0 is success.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::PowerOff | Self::Reset => 0,
            Self::Failure(code) => code,
        }
    }

    /// What an exit code means.
    fn of_code(code: u32) -> Self {
        match code {
            0 => Self::PowerOff,
            code => Self::Failure(code),
        }
    }
}

/// How a program ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// By which means.
    pub by: EndedBy,
    /// To what end.
    pub ending: Ending,
}

/// RAM, devices, and the watches of harts.
pub struct Machine {
    /// RAM, for reading. Writing here directly breaks no watches.
    pub ram: Ram,
    /// The lines that harts watch.
    pub watches: Watches,
    /// The pages that somebody has read ahead.
    pub pages: Pages,
    pub(crate) config: MachineConfig,
    pub(crate) devices: Devices,
    pub(crate) htif: Option<Htif>,
    pub(crate) device_tree: Vec<u8>,
    console: Vec<u8>,
    messages: Vec<String>,
    pub(crate) ended: Option<Ended>,
    /// Generation of the interrupt lines when last asked whether they changed.
    seen_generation: u64,
}

impl Machine {
    /// A machine at reset.
    ///
    /// # Errors
    /// When the configuration contradicts itself or the host cannot provide the RAM.
    pub fn new(config: &MachineConfig) -> Result<Self, MachineError> {
        check(config)?;
        let ram = Ram::new(config.ram_bytes).map_err(|source| MachineError::RamFromHost {
            bytes: config.ram_bytes,
            source,
        })?;
        let devices = Devices::new(config)?;
        let device_tree = device_tree::write(config, &devices, None)?;
        if device_tree.len() as u64 > config.ram_bytes {
            let tree = device_tree.len() as u64;
            return Err(MachineError::RamBelowTree {
                ram: config.ram_bytes,
                tree,
            });
        }
        Ok(Self {
            ram,
            watches: Watches::new(config.harts, config.watch_line_bytes.trailing_zeros()),
            pages: Pages::new(config.ram_bytes, config.harts),
            config: config.clone(),
            devices,
            htif: None,
            device_tree,
            console: Vec::new(),
            messages: Vec::new(),
            ended: None,
            seen_generation: 0,
        })
    }

    /// What the machine is made of.
    #[must_use]
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Performs a load, zero-extended. Misaligned accesses are for RAM only.
    ///
    /// # Errors
    /// When nothing answers at `addr`, or the device there does not allow this access.
    ///
    /// # Panics
    /// When `width` is [`Width::Q`]; see [`Machine::load128`].
    #[inline(always)]
    pub fn load(&mut self, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        match self.ram.read(addr, width) {
            Some(value) => Ok(value),
            None => self.load_device(addr, width),
        }
    }

    /// Performs a store of the low `width` bytes of `value`, and breaks the watches that other
    /// harts have on what it writes.
    ///
    /// # Errors
    /// When nothing answers at `addr`, or the device there does not allow this access.
    ///
    /// # Panics
    /// When `width` is [`Width::Q`]; see [`Machine::store128`].
    #[inline(always)]
    pub fn store(
        &mut self,
        by: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        let concerns = self.concerns(addr, width.bytes());
        if concerns {
            self.before_store(addr, width);
        }
        if !self.ram.write(addr, width, value) {
            return self.store_device(addr, width, value);
        }
        if concerns {
            return self.after_store(by, addr, width.bytes());
        }
        Ok(())
    }

    /// Performs a store to a page without marks that does nothing but write: to RAM, where nobody
    /// watches. Returns whether it was one; if not, nothing has happened and [`Machine::store`] is to
    /// be asked. The caller knows that the page has no marks (see [`Pages::is_plain_of`]).
    #[inline(always)]
    pub fn store_unwatched(&mut self, addr: PhysAddr, width: Width, value: u64) -> bool {
        !self.watches.may_concern(addr) && self.ram.write(addr, width, value)
    }

    /// Writes an entry of a page table on behalf of `by`, adding to what it grants: what others
    /// remember of the table still holds.
    ///
    /// # Errors
    /// When it does not lie in RAM.
    pub fn extend_table_entry(
        &mut self,
        by: HartId,
        addr: PhysAddr,
        entry: u64,
    ) -> Result<(), AccessFault> {
        if !self.ram.write(addr, Width::D, entry) {
            return Err(AccessFault { addr });
        }
        self.watches.stored(Some(by), addr, Width::D.bytes());
        self.pages.extended(addr, Width::D.bytes());
        Ok(())
    }

    /// What follows from a write to RAM that no hart's store has made: a device's, or the loader's of
    /// a running machine.
    pub fn written_by_device(&mut self, addr: PhysAddr, bytes: u64) {
        debug_assert!(self.is_ram(addr, bytes));
        if bytes > 0 {
            self.watches.stored(None, addr, bytes);
            self.pages.written(addr, bytes);
        }
    }

    /// Makes RAM what it was, and tells whoever has read ahead.
    ///
    /// # Errors
    /// When RAM had another size or the snapshot is damaged; what RAM holds then is undefined.
    pub fn restore_ram(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        snapshot.restore_ram(&mut self.ram)?;
        self.written_by_device(PhysAddr(RAM_BASE), self.ram.bytes());
        Ok(())
    }

    /// Whether a store to RAM does more than writing.
    #[inline(always)]
    fn concerns(&self, addr: PhysAddr, bytes: u64) -> bool {
        self.watches.may_concern(addr)
            || self.pages.is_marked(addr)
            || self.pages.is_marked(PhysAddr(addr.0 + bytes - 1))
    }

    /// Loads 16 bytes from RAM.
    ///
    /// # Errors
    /// When they do not lie in RAM.
    #[inline]
    pub fn load128(&mut self, addr: PhysAddr) -> Result<u128, AccessFault> {
        self.ram.read128(addr).ok_or(AccessFault { addr })
    }

    /// As [`Machine::store`], 16 bytes to RAM.
    ///
    /// # Errors
    /// When they do not lie in RAM.
    #[inline]
    pub fn store128(&mut self, by: HartId, addr: PhysAddr, value: u128) -> Result<(), AccessFault> {
        let concerns = self.concerns(addr, Width::Q.bytes());
        if concerns {
            self.before_store(addr, Width::Q);
        }
        if !self.ram.write128(addr, value) {
            return Err(AccessFault { addr });
        }
        if concerns {
            return self.after_store(by, addr, Width::Q.bytes());
        }
        Ok(())
    }

    /// The bytes of the instruction at `addr`, which is even. The upper half means something only
    /// when the lower says that the instruction has four bytes.
    ///
    /// # Errors
    /// When part of the instruction lies outside RAM, with the address of that part.
    #[inline(always)]
    pub fn fetch(&self, addr: PhysAddr) -> Result<u32, AccessFault> {
        match self.ram.read(addr, Width::W) {
            Some(bits) => Ok(bits as u32),
            None => self.fetch_at_edge(addr),
        }
    }

    /// The two bytes at `addr`: for an instruction whose halves are translated separately.
    ///
    /// # Errors
    /// When they lie outside RAM.
    #[inline]
    pub fn fetch16(&self, addr: PhysAddr) -> Result<u16, AccessFault> {
        self.ram
            .read(addr, Width::H)
            .map(|bits| bits as u16)
            .ok_or(AccessFault { addr })
    }

    #[cold]
    fn fetch_at_edge(&self, addr: PhysAddr) -> Result<u32, AccessFault> {
        let low = self.fetch16(addr)?;
        if low & 0b11 == 0b11 {
            return Err(AccessFault {
                addr: PhysAddr(addr.0 + 2),
            });
        }
        Ok(u32::from(low))
    }

    /// Whether all of `bytes` bytes from `addr` on are RAM.
    #[inline(always)]
    #[must_use]
    pub fn is_ram(&self, addr: PhysAddr, bytes: u64) -> bool {
        self.ram.contains(addr, bytes)
    }

    /// The bits of `mip` that devices drive for `hart`: MSIP (bit 3) and MTIP (bit 7), and what the
    /// hart's own supervisor timer asks for (STIP, bit 5), and from the interrupt controller SEIP
    /// (bit 9) and MEIP (bit 11).
    #[inline(always)]
    #[must_use]
    pub fn interrupt_lines(&self, hart: HartId) -> u64 {
        self.devices.clint.lines(hart) | self.devices.plic.lines(hart)
    }

    /// A number that is another one whenever any hart's interrupt lines have changed.
    #[inline(always)]
    #[must_use]
    pub fn interrupt_generation(&self) -> u64 {
        self.devices.clint.generation() + self.devices.plic.generation()
    }

    /// Whether any hart's interrupt lines have changed since this was last asked. For a single
    /// asker; several compare [`Machine::interrupt_generation`].
    #[inline(always)]
    #[must_use]
    pub fn interrupts_changed(&mut self) -> bool {
        let now = self.interrupt_generation();
        std::mem::replace(&mut self.seen_generation, now) != now
    }

    /// Sets the time, in ticks of the time base since reset.
    #[inline(always)]
    pub fn set_time(&mut self, ticks: u64) {
        self.devices.clint.set_ticks(ticks);
        if ticks >= self.devices.rtc.deadline() {
            self.devices.alarm();
        }
    }

    /// `mtime` as programs read it: the ticks, unless a program has set it to something else.
    #[inline(always)]
    #[must_use]
    pub fn time(&self) -> u64 {
        self.devices.clint.mtime()
    }

    /// Register `stimecmp` of `hart`.
    #[must_use]
    pub fn supervisor_timer(&self, hart: HartId) -> u64 {
        self.devices.clint.stimecmp(hart)
    }

    /// Writes register `stimecmp` of `hart`: its supervisor timer interrupt pends while `mtime` is not
    /// below it. [`u64::MAX`], the value at reset, is never.
    pub fn set_supervisor_timer(&mut self, hart: HartId, value: u64) {
        self.devices.clint.set_stimecmp(hart, value);
    }

    /// Writes register `vstimecmp` of `hart`, whose guest's time is `ahead` of `mtime`: the timer interrupt of the guest pends
    /// while that is not below it.
    pub fn set_guest_timer(&mut self, hart: HartId, value: u64, ahead: u64) {
        self.devices.clint.set_vstimecmp(hart, value, ahead);
    }

    /// The first tick, as [`Machine::set_time`] counts them, at which a timer that has not fired
    /// yet does: a hart's, or the alarm of the real-time clock.
    #[must_use]
    pub fn next_timer_ticks(&self) -> Option<u64> {
        let alarm = self.devices.rtc.deadline();
        let alarm = (alarm != u64::MAX).then_some(alarm);
        [self.devices.clint.deadline(), alarm]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether and how a program has ended the run.
    #[inline(always)]
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What programs have written to a console since last asked. Port 0 is the serial console, the
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

    /// What [`Machine::take_output`] would answer.
    #[must_use]
    pub fn output(&self, port: usize) -> &[u8] {
        match port {
            0 => &self.console,
            _ => self.devices.console_output(port),
        }
    }

    /// Whether a program has written anything to a console since its output was last taken.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.console.is_empty() || self.devices.has_console_output()
    }

    /// Types `bytes` on a console; see [`Machine::take_output`] for its number.
    pub fn push_input(&mut self, port: usize, bytes: &[u8]) {
        if port == 0 {
            self.devices.push_serial_input(bytes);
        } else if let Some((slot, console)) = self.devices.console_mut(port) {
            console.input.extend(bytes);
            self.serve(slot);
        }
    }

    /// Whether the program waits for input on the serial console: what is typed before may be lost to a
    /// driver that starts.
    #[must_use]
    pub fn serial_is_read(&self) -> bool {
        self.devices.serial_is_read()
    }

    /// The frames that the guest has sent since last asked, where a [`Network::Wire`] takes them.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        match self.devices.net_mut() {
            Some((_, net)) => net.outgoing.drain(..).collect(),
            None => Vec::new(),
        }
    }

    /// Brings the guest a frame; without a network card, or when too many wait, it is lost.
    pub fn push_frame(&mut self, frame: Vec<u8>) {
        if let Some((slot, net)) = self.devices.net_mut() {
            net.push(frame);
            self.serve(slot);
        }
    }

    /// Puts another disk in the place of disk `number`: as large, and with nothing written to it yet.
    /// A driver that has read the old one may remember its contents.
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

    /// What has happened since last asked that the user should know: of disks that fail, and of
    /// drivers that do not keep to the rules.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Lets the virtio device in `slot` serve what waits for it.
    fn serve(&mut self, slot: usize) {
        let dma = Dma::new(&mut self.ram);
        self.devices.serve(slot, &dma);
        for (addr, bytes) in dma.written() {
            self.written_by_device(addr, bytes);
        }
        self.messages
            .extend(self.devices.virtio[slot].take_message());
    }

    #[cold]
    #[inline(never)]
    fn load_device(&mut self, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        aligned_device(addr, width)
            .and_then(|(device, offset)| self.devices.load(device, offset, width))
            .ok_or(AccessFault { addr })
    }

    #[cold]
    #[inline(never)]
    fn store_device(
        &mut self,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        let stored = aligned_device(addr, width)
            .and_then(|(device, offset)| self.devices.store(device, offset, width, value));
        self.console.append(self.devices.uart.sent());
        if let Some((DeviceId::Virtio(slot), _)) = device_at(addr)
            && stored.is_some()
        {
            self.serve(slot);
        }
        if self.ended.is_none() {
            let by = EndedBy::Finisher;
            let ending = self.devices.finisher.ending;
            self.ended = ending.map(|ending| Ended { by, ending });
        }
        stored.ok_or(AccessFault { addr })
    }

    /// What precedes a store that does more than writing: what stands in a page table is kept.
    #[cold]
    #[inline(never)]
    fn before_store(&mut self, addr: PhysAddr, width: Width) {
        if self.pages.keeps_store(addr, width.bytes())
            && let Some(other) = self.ram.read_wide(addr, width)
        {
            let write = TableWrite { addr, width, other };
            self.pages.table_writes().push(write);
        }
    }

    /// Page tables are what they were before the stores that [`Pages::keep_table_writes`] keeps, and the second time what
    /// they are after them. Nobody hears of it.
    pub fn swap_table_writes(&mut self) {
        let writes = self.pages.table_writes();
        // The other way round next time.
        writes.reverse();
        for write in writes {
            let TableWrite { addr, width, other } = write;
            let now = self.ram.read_wide(*addr, *width);
            let is_ram = self.ram.write_wide(*addr, *width, *other);
            debug_assert!(is_ram && now.is_some(), "a page table lies in RAM");
            *other = now.unwrap_or(*other);
        }
    }

    /// What a store to RAM does besides writing.
    #[cold]
    #[inline(never)]
    fn after_store(&mut self, by: HartId, addr: PhysAddr, bytes: u64) -> Result<(), AccessFault> {
        self.watches.stored(Some(by), addr, bytes);
        self.pages.written(addr, bytes);
        let Some(htif) = &self.htif else {
            return Ok(());
        };
        let answer = htif.stored(addr, bytes, &mut self.ram)?;
        for word in answer.written.into_iter().flatten() {
            self.watches.stored(None, word, Width::D.bytes());
            self.pages.written(word, Width::D.bytes());
        }
        self.console.extend(answer.console);
        if self.ended.is_none() {
            self.ended = answer.exit.map(|code| Ended {
                by: EndedBy::Htif,
                ending: Ending::of_code(code),
            });
        }
        Ok(())
    }
}

/// The device at a naturally aligned address.
fn aligned_device(addr: PhysAddr, width: Width) -> Option<(DeviceId, u64)> {
    addr.0
        .is_multiple_of(width.bytes())
        .then(|| device_at(addr))?
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("ram", &self.ram)
            .field("watches", &self.watches)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
