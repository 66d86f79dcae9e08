//! Changes to a valid file.

use bolero::TypeGenerator;

/// What to do to a file. Places are taken modulo its length.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) enum Change {
    /// Inverts a bit.
    Bit { at: u16, bit: u8 },
    /// Overwrites a byte.
    Byte { at: u16, value: u8 },
    /// Overwrites a little-endian field of 1, 2, 4 or 8 bytes at a multiple of its length.
    Field {
        at: u16,
        log2_bytes: u8,
        value: Number,
    },
    /// The same among the first bytes, where headers are.
    Header {
        at: u8,
        log2_bytes: u8,
        value: Number,
    },
    /// Copies some bytes to another place.
    Copy { from: u16, to: u16, bytes: u8 },
    /// Puts bytes in.
    Insert { at: u16, bytes: u8, value: u8 },
    /// Cuts the end off.
    Cut { at: u16 },
}

/// A number, mostly one at which something may break.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) enum Number {
    Small(u8),
    Any(u64),
    /// Counted down from the largest.
    FromTop(u8),
    /// Near a power of two.
    NearPower {
        log2: u8,
        off: i8,
    },
    /// Near the beginning of RAM.
    NearRam(i16),
    /// The old value, a little off.
    Near(i8),
}

impl Number {
    pub(super) fn value(&self, old: u64) -> u64 {
        match *self {
            Self::Small(value) => value.into(),
            Self::Any(value) => value,
            Self::FromTop(down) => u64::MAX - u64::from(down),
            Self::NearPower { log2, off } => (1_u64 << (log2 % 64)).wrapping_add_signed(off.into()),
            Self::NearRam(off) => crate::RAM_BASE.wrapping_add_signed(off.into()),
            Self::Near(off) => old.wrapping_add_signed(off.into()),
        }
    }
}

/// The file with all `changes`, one after the other.
pub(super) fn changed(file: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut file = file.to_vec();
    for change in changes {
        if file.is_empty() {
            break;
        }
        apply(change, &mut file);
    }
    file
}

fn apply(change: &Change, file: &mut Vec<u8>) {
    let length = file.len();
    match *change {
        Change::Bit { at, bit } => file[usize::from(at) % length] ^= 1 << (bit % 8),
        Change::Byte { at, value } => file[usize::from(at) % length] = value,
        Change::Field {
            at,
            log2_bytes,
            ref value,
        } => field(file, at, log2_bytes, value),
        Change::Header {
            at,
            log2_bytes,
            ref value,
        } => field(file, at.into(), log2_bytes, value),
        Change::Copy { from, to, bytes } => {
            let (from, to) = (usize::from(from) % length, usize::from(to) % length);
            let bytes = usize::from(bytes).min(length - from.max(to));
            file.copy_within(from..from + bytes, to);
        }
        Change::Insert { at, bytes, value } => {
            let at = usize::from(at) % length;
            file.splice(at..at, std::iter::repeat_n(value, bytes.into()));
        }
        Change::Cut { at } => file.truncate(usize::from(at) % length),
    }
}

fn field(file: &mut [u8], at: u16, log2_bytes: u8, value: &Number) {
    let bytes = 1 << (log2_bytes % 4);
    let fields = file.len() / bytes;
    if fields > 0 {
        let start = usize::from(at) % fields * bytes;
        let place = &mut file[start..start + bytes];
        let mut old = [0; 8];
        old[..bytes].copy_from_slice(place);
        let new = value.value(u64::from_le_bytes(old));
        place.copy_from_slice(&new.to_le_bytes()[..bytes]);
    }
}

#[test]
fn changes_do_what_they_say() {
    let file: Vec<u8> = (0..16).collect();
    let after = |change| changed(&file, &[change]);
    assert_eq!(after(Change::Bit { at: 17, bit: 9 })[1], 3);
    assert_eq!(after(Change::Byte { at: 1, value: 9 })[1], 9);
    let value = Number::Near(-1);
    let field = after(Change::Field {
        at: 3,
        log2_bytes: 1,
        value,
    });
    assert_eq!(field[..8], [0, 1, 2, 3, 4, 5, 5, 7]);
    let value = Number::NearPower { log2: 8, off: -1 };
    let field = after(Change::Header {
        at: 1,
        log2_bytes: 3,
        value,
    });
    assert_eq!(field[8..], [255, 0, 0, 0, 0, 0, 0, 0]);
    let copy = after(Change::Copy {
        from: 0,
        to: 14,
        bytes: 9,
    });
    assert_eq!(copy[13..], [13, 0, 1]);
    let inserted = after(Change::Insert {
        at: 0,
        bytes: 2,
        value: 7,
    });
    assert_eq!((inserted.len(), inserted[1], inserted[2]), (18, 7, 0));
    assert_eq!(after(Change::Cut { at: 4 }), [0, 1, 2, 3]);
    let emptied = [Change::Cut { at: 0 }, Change::Bit { at: 0, bit: 0 }];
    assert!(changed(&file, &emptied).is_empty());
}
