//! What a litmus test is: a few accesses for each of a few harts, and where its two variables lie.

/// Bytes of a variable.
pub(super) const VARIABLE_BYTES: u64 = 8;
/// Bytes of a line of every coherent cache.
pub(super) const LINE_BYTES: u64 = 64;

/// One of the two variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    X,
    Y,
}

/// Bytes of a variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) variable: Variable,
    /// The first of them.
    pub(super) from: u64,
    /// How many: 1, 2, 4 or 8.
    pub(super) bytes: u64,
}

/// All bytes of x.
pub(super) const X: Part = whole(Variable::X);
/// All bytes of y.
pub(super) const Y: Part = whole(Variable::Y);

const fn whole(variable: Variable) -> Part {
    Part {
        variable,
        from: 0,
        bytes: VARIABLE_BYTES,
    }
}

impl Part {
    /// `bytes` of its bytes, from byte `from` on.
    pub(super) const fn part(self, from: u64, bytes: u64) -> Self {
        assert!(from + bytes <= VARIABLE_BYTES);
        Self {
            from,
            bytes,
            ..self
        }
    }
}

/// What a fence orders: accesses before it, and accesses after it, each reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    pub(super) before: Accesses,
    pub(super) after: Accesses,
    /// `fence.tso`: earlier reads before all, earlier writes before writes.
    pub(super) tso: bool,
}

/// Kinds of accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accesses {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

const fn fence(before: &str, after: &str) -> Fence {
    Fence {
        before: accesses(before),
        after: accesses(after),
        tso: false,
    }
}

const fn accesses(letters: &str) -> Accesses {
    let letters = letters.as_bytes();
    Accesses {
        reads: letters[0] == b'r',
        writes: letters[letters.len() - 1] == b'w',
    }
}

pub(super) const FENCE: Fence = fence("rw", "rw");
pub(super) const FENCE_W_W: Fence = fence("w", "w");
pub(super) const FENCE_R_R: Fence = fence("r", "r");
pub(super) const FENCE_W_R: Fence = fence("w", "r");
/// Of a release, and of an acquire.
pub(super) const FENCE_RW_W: Fence = fence("rw", "w");
pub(super) const FENCE_R_RW: Fence = fence("r", "rw");
pub(super) const FENCE_TSO: Fence = Fence { tso: true, ..FENCE };

/// Bits of an atomic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) aq: bool,
    pub(super) rl: bool,
}

const fn order(aq: bool, rl: bool) -> Order {
    Order { aq, rl }
}

pub(super) const RELAXED: Order = order(false, false);
pub(super) const AQ: Order = order(true, false);
pub(super) const RL: Order = order(false, true);
pub(super) const AQRL: Order = order(true, true);

/// What a hart does. A store writes, and an atomic leaves, [`pattern`] of its number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Load(Part),
    Store(Part, u64),
    Fence(Fence),
    /// `amoswap`
    Swap(Part, u64, Order),
    /// `lr` and `sc` until that succeeds.
    Exchange(Part, u64, Order),
}

impl Step {
    /// Whether it leaves a value that is part of the outcome.
    pub(super) fn loads(self) -> bool {
        !matches!(self, Step::Store(..) | Step::Fence(_))
    }
}

/// The value of stores that have number `n`: each byte tells the store and which byte of it this is.
pub(super) fn pattern(n: u64) -> u64 {
    (0..8).fold(0, |value, byte| value | (n << 4 | byte) << (8 * byte))
}

/// Where the variables lie: offsets from a page's beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) x: u64,
    pub(super) y: u64,
}

impl Layout {
    /// Of the first byte of `place`.
    pub(super) fn address(self, place: Part) -> u64 {
        let base = match place.variable {
            Variable::X => self.x,
            Variable::Y => self.y,
        };
        base + place.from
    }
}

pub(super) const APART: Layout = Layout {
    name: "lines of their own",
    x: 256,
    y: 512,
};
pub(super) const TOGETHER: Layout = Layout {
    name: "one line",
    x: 256,
    y: 264,
};
pub(super) const INSIDE: Layout = Layout {
    name: "not aligned, each in its line",
    x: 259,
    y: 526,
};
pub(super) const OVER_LINE: Layout = Layout {
    name: "x over the end of a line",
    x: 5 * LINE_BYTES - 4,
    y: 512,
};
pub(super) const OVER_LINES: Layout = Layout {
    name: "both over ends of lines",
    x: 5 * LINE_BYTES - 3,
    y: 9 * LINE_BYTES - 6,
};
pub(super) const OVER_PAGE: Layout = Layout {
    name: "x over the end of a page",
    x: 4096 - 4,
    y: 512,
};

/// Both variables are aligned.
pub(super) const ALIGNED: &[Layout] = &[APART, TOGETHER];
/// x or both are not single-copy atomic, or only just.
pub(super) const CROSSING: &[Layout] = &[INSIDE, OVER_LINE, OVER_LINES, OVER_PAGE];

/// A litmus test. An outcome is what each load and atomic got, hart by hart, and then x and y at the end.
pub(super) struct Litmus {
    pub(super) name: &'static str,
    pub(super) harts: &'static [&'static [Step]],
    pub(super) layouts: &'static [Layout],
}
