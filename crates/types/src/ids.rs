//! Distinct types for ids, addresses and time.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub $raw);

        impl $name {
            /// Position in an array that is indexed by this id.
            #[inline(always)]
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id at position `index`.
            ///
            /// # Panics
            /// When `index` does not fit the id, which a checked configuration rules out.
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(<$raw>::try_from(index).expect("id within range"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

id!(
    /// An architectural thread: registers, CSRs, privilege. Its number is `mhartid`.
    HartId(u16), "hart {}"
);
id!(
    /// A hardware context: the seat of a hart in a core, numbered over the whole system.
    ContextId(u16), "context {}"
);
id!(
    /// A core: contexts that share pipes and first-level caches.
    CoreId(u16), "core {}"
);
id!(
    /// A physical CPU of a host that runs guests.
    CpuId(u16), "CPU {}"
);
id!(
    /// A virtual CPU: a hart of a guest, numbered over all guests of a host.
    VcpuId(u16), "VCPU {}"
);

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub u64);

        impl $name {
            /// Number of the aligned block of `1 << log2_bytes` bytes that holds this address.
            #[inline(always)]
            #[must_use]
            pub fn block(self, log2_bytes: u32) -> u64 {
                self.0 >> log2_bytes
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(
    /// A physical address.
    PhysAddr
);
address!(
    /// A virtual address, before translation.
    VirtAddr
);

/// Bytes of the smallest page of address translation.
pub const PAGE_BYTES: u64 = 4096;

impl VirtAddr {
    /// Whether `bytes` bytes from here on, at most a page, reach over the end of a page.
    #[inline(always)]
    #[must_use]
    pub fn leaves_page(self, bytes: u64) -> bool {
        (self.0 & (PAGE_BYTES - 1)) + bytes > PAGE_BYTES
    }
}

/// What addresses mean while a hart translates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct AddressSpace {
    /// The value of its `satp`, of a guest `vsatp`; 0 if that does not translate.
    pub tables: u64,
    /// 0 if it is of no guest, else [`AddressSpace::guest_of`] of the guest.
    pub guest: u64,
}

impl AddressSpace {
    /// Addresses are physical. No `satp` that translates is zero.
    pub const PHYSICAL: AddressSpace = AddressSpace {
        tables: 0,
        guest: 0,
    };

    /// What tells the guest whose `hgatp` this is from others, and from no guest.
    #[must_use]
    pub fn guest_of(hgatp: u64) -> u64 {
        // The lowest bit of the number of a guest's table is 0.
        hgatp | 1
    }

    /// Its number among those of the hart or of its guest (privileged manual, "satp").
    #[must_use]
    pub fn asid(self) -> u16 {
        (self.tables >> 44) as u16
    }

    /// The number of the guest (privileged manual, "hgatp"), if it is one's.
    #[must_use]
    pub fn vmid(self) -> Option<u16> {
        (self.guest != 0).then_some((self.guest >> 44) as u16 & 0x3fff)
    }
}

/// A point in simulated time, in core clock cycles since power-on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cycle(pub u64);

impl Cycle {
    /// Later than every cycle that is ever simulated.
    pub const NEVER: Cycle = Cycle(u64::MAX);

    /// The cycle `cycles` later. Nothing comes after [`Cycle::NEVER`].
    #[inline(always)]
    #[must_use]
    pub fn after(self, cycles: u64) -> Cycle {
        Cycle(self.0.saturating_add(cycles))
    }

    /// Cycles from `earlier` to `self`.
    #[inline(always)]
    #[must_use]
    pub fn since(self, earlier: Cycle) -> u64 {
        debug_assert!(self >= earlier, "{self:?} is before {earlier:?}");
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Cycle::NEVER {
            f.write_str("never")
        } else {
            write!(f, "cycle {}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cycle_comes_after_never() {
        for (from, cycles, expected) in [
            (Cycle(5), 3, Cycle(8)),
            (Cycle::NEVER, 0, Cycle::NEVER),
            (Cycle::NEVER, 1, Cycle::NEVER),
            (Cycle(u64::MAX - 5), 4, Cycle(u64::MAX - 1)),
            (Cycle(u64::MAX - 5), 6, Cycle::NEVER),
            (Cycle(1), u64::MAX, Cycle::NEVER),
        ] {
            assert_eq!(from.after(cycles), expected);
        }
    }
}
