//! The bus: RAM in front, devices behind it, and the side effects of stores.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::config::{MachineConfig, MachineError, check};
use crate::devices::Dma;
use crate::map::{DeviceId, RAM_BASE, device_at};
use crate::pages::{Pages, TableWrite};
use crate::partition::device_of;
use crate::platform::Platform;
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
    pub(crate) fn of_code(code: u32) -> Self {
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
    /// One, or where the machine is the host of guests, that of each guest.
    pub(crate) platforms: Vec<Platform>,
    /// Of each hart whose it is, and its number there.
    pub(crate) owners: Vec<(usize, HartId)>,
    /// Generation of the interrupt lines when last asked whether they changed.
    seen_generation: u64,
    /// See [`Machine::ends`].
    pub(crate) ends: bool,
}

impl Machine {
    /// A machine at reset.
    ///
    /// # Errors
    /// When the configuration contradicts itself or the host cannot provide the RAM.
    pub fn new(config: &MachineConfig) -> Result<Self, MachineError> {
        check(config)?;
        let platform = Platform::new(config)?;
        let device_tree = platform.device_tree.len() as u64;
        if device_tree > config.ram_bytes {
            return Err(MachineError::RamBelowTree {
                ram: config.ram_bytes,
                tree: device_tree,
            });
        }
        Self::of(vec![platform])
    }

    /// A machine of these platforms, with RAM as at reset.
    pub(crate) fn of(platforms: Vec<Platform>) -> Result<Self, MachineError> {
        let bytes = platforms.iter().map(|it| it.config.ram_bytes).sum();
        let owners: Vec<_> = (platforms.iter().enumerate())
            .flat_map(|(n, it)| (0..it.config.harts).map(move |hart| (n, HartId::new(hart))))
            .collect();
        let line_bytes = platforms[0].config.watch_line_bytes;
        Ok(Self {
            ram: Ram::new(bytes).map_err(|source| MachineError::RamFromHost { bytes, source })?,
            watches: Watches::new(owners.len(), line_bytes.trailing_zeros()),
            pages: Pages::new(bytes, owners.len()),
            platforms,
            owners,
            seen_generation: 0,
            ends: false,
        })
    }

    /// The platform of a machine without guests, or that of its first guest.
    pub(crate) fn first(&self) -> &Platform {
        &self.platforms[0]
    }

    pub(crate) fn first_mut(&mut self) -> &mut Platform {
        &mut self.platforms[0]
    }

    /// The platform of a guest, by its number.
    #[must_use]
    pub fn platform(&self, guest: usize) -> &Platform {
        &self.platforms[guest]
    }

    /// As [`Machine::platform`], to take from it what it has said.
    pub fn platform_mut(&mut self, guest: usize) -> &mut Platform {
        &mut self.platforms[guest]
    }

    /// What the machine is made of.
    #[must_use]
    pub fn config(&self) -> &MachineConfig {
        &self.first().config
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
        let (platform, hart) = self.owner(hart);
        self.platforms[platform].interrupt_lines(hart)
    }

    /// A number that is another one whenever any hart's interrupt lines have changed.
    #[inline(always)]
    #[must_use]
    pub fn interrupt_generation(&self) -> u64 {
        let platforms = self.platforms.iter();
        platforms.map(Platform::interrupt_generation).sum()
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
        for platform in &mut self.platforms {
            platform.set_time(ticks);
        }
    }

    /// `mtime` as programs on `hart` read it: the ticks, unless a program has set it to something else.
    #[inline(always)]
    #[must_use]
    pub fn time(&self, hart: HartId) -> u64 {
        self.platforms[self.owner(hart).0].devices.clint.mtime()
    }

    /// Register `stimecmp` of `hart`.
    #[must_use]
    pub fn supervisor_timer(&self, hart: HartId) -> u64 {
        let (platform, hart) = self.owner(hart);
        self.platforms[platform].devices.clint.stimecmp(hart)
    }

    /// Writes register `stimecmp` of `hart`: its supervisor timer interrupt pends while `mtime` is not
    /// below it. [`u64::MAX`], the value at reset, is never.
    pub fn set_supervisor_timer(&mut self, hart: HartId, value: u64) {
        let (platform, hart) = self.owner(hart);
        let clint = &mut self.platforms[platform].devices.clint;
        clint.set_stimecmp(hart, value);
    }

    /// Writes register `vstimecmp` of `hart`, whose guest's time is `ahead` of `mtime`: the timer interrupt of the guest pends
    /// while that is not below it.
    pub fn set_guest_timer(&mut self, hart: HartId, value: u64, ahead: u64) {
        let (platform, hart) = self.owner(hart);
        let clint = &mut self.platforms[platform].devices.clint;
        clint.set_vstimecmp(hart, value, ahead);
    }

    /// The platform of `hart`, and its number there.
    #[inline(always)]
    fn owner(&self, hart: HartId) -> (usize, HartId) {
        self.owners[hart.index()]
    }

    /// The first tick, as [`Machine::set_time`] counts them, at which a timer that has not fired
    /// yet does: a hart's, or the alarm of the real-time clock.
    #[must_use]
    pub fn next_timer_ticks(&self) -> Option<u64> {
        let platforms = self.platforms.iter();
        platforms.filter_map(Platform::next_timer_ticks).min()
    }

    /// Whether and how a program has ended the run. Guests end by themselves: see [`Platform::ended`].
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.first().ended
    }

    /// Whether the program, or a guest of which nobody has said that this was seen, has ended.
    #[inline(always)]
    #[must_use]
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// The host has seen which guests have ended.
    pub fn ends_are_seen(&mut self) {
        self.ends = false;
    }

    /// What has happened since last asked that the user should know: of disks that fail, and of
    /// drivers that do not keep to the rules.
    pub fn take_messages(&mut self) -> Vec<String> {
        let platforms = self.platforms.iter_mut();
        platforms.flat_map(|it| it.messages.drain(..)).collect()
    }

    /// Lets the virtio device in `slot` of a platform serve what waits for it.
    pub(crate) fn serve(&mut self, platform: usize, slot: usize) {
        let it = &mut self.platforms[platform];
        let dma = Dma::new(it.ram_of(&mut self.ram));
        it.devices.serve(slot, &dma);
        it.messages.extend(it.devices.virtio[slot].take_message());
        let (written, partition) = (dma.written(), it.partition);
        for (addr, bytes) in written {
            self.written_by_device(partition.place(addr), bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn load_device(&mut self, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        let (platform, local) = device_of(addr);
        let platform = self.platforms.get_mut(platform);
        platform
            .and_then(|it| {
                let (device, offset) = aligned_device(local, width)?;
                it.devices.load(device, offset, width)
            })
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
        let (number, local) = device_of(addr);
        let Some(platform) = self.platforms.get_mut(number) else {
            return Err(AccessFault { addr });
        };
        let stored = aligned_device(local, width)
            .and_then(|(device, offset)| platform.devices.store(device, offset, width, value));
        self.ends |= platform.device_was_stored_to();
        if let Some((DeviceId::Virtio(slot), _)) = device_at(local)
            && stored.is_some()
        {
            self.serve(number, slot);
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
        for platform in &mut self.platforms {
            let Some(htif) = platform.htif else { continue };
            let written = htif.stored(addr, bytes, &mut self.ram)?;
            for word in written.written.into_iter().flatten() {
                self.watches.stored(None, word, Width::D.bytes());
                self.pages.written(word, Width::D.bytes());
            }
            self.ends |= platform.was_told(written);
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
            .field("ended", &self.ended())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
