//! The tests: the shapes of the literature, plain and with fences and atomics, of whole variables and of parts.

use super::test::Step::{Exchange, Fence, Load, Store, Swap};
use super::test::{
    ALIGNED, APART, AQ, AQRL, CROSSING, FENCE, FENCE_R_R, FENCE_R_RW, FENCE_RW_W, FENCE_TSO,
    FENCE_W_R, FENCE_W_W, Litmus, OVER_LINE, OVER_LINES, RELAXED, RL, X, Y,
};

/// Message passing.
pub(super) const PASSING: &[Litmus] = &[
    Litmus {
        name: "MP",
        harts: &[&[Store(X, 1), Store(Y, 1)], &[Load(Y), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "MP+fences",
        harts: &[
            &[Store(X, 1), Fence(FENCE_W_W), Store(Y, 1)],
            &[Load(Y), Fence(FENCE_R_R), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "MP+release+acquire",
        harts: &[
            &[Store(X, 1), Fence(FENCE_RW_W), Store(Y, 1)],
            &[Load(Y), Fence(FENCE_R_RW), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "MP+swap.rl+swap.aq",
        harts: &[&[Store(X, 1), Swap(Y, 1, RL)], &[Swap(Y, 2, AQ), Load(X)]],
        layouts: &[APART],
    },
    Litmus {
        name: "MP+swap+load",
        harts: &[&[Store(X, 1), Swap(Y, 1, RELAXED)], &[Load(Y), Load(X)]],
        layouts: &[APART],
    },
    Litmus {
        name: "MP+store+swap",
        harts: &[&[Store(X, 1), Store(Y, 1)], &[Swap(Y, 2, RELAXED), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "MP+sc.rl+lr.aq",
        harts: &[
            &[Store(X, 1), Exchange(Y, 1, RL)],
            &[Exchange(Y, 2, AQ), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "MP of parts",
        harts: &[
            &[Store(X.part(4, 4), 1), Store(Y, 1)],
            &[Load(Y.part(7, 1)), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "MP, both parts of one variable",
        harts: &[
            &[Store(X.part(0, 4), 1), Store(X.part(4, 4), 1)],
            &[Load(X.part(4, 4)), Load(X.part(0, 4))],
        ],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "MP twice",
        harts: &[
            &[Store(X, 1), Store(Y, 1), Store(X, 2), Store(Y, 2)],
            &[Load(Y), Load(X), Load(Y), Load(X)],
        ],
        layouts: ALIGNED,
    },
];

/// Store buffering and what it looks like from outside.
pub(super) const BUFFERING: &[Litmus] = &[
    Litmus {
        name: "SB",
        harts: &[&[Store(X, 1), Load(Y)], &[Store(Y, 1), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "SB+fences",
        harts: &[
            &[Store(X, 1), Fence(FENCE), Load(Y)],
            &[Store(Y, 1), Fence(FENCE), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "SB+fence.w.r",
        harts: &[
            &[Store(X, 1), Fence(FENCE_W_R), Load(Y)],
            &[Store(Y, 1), Fence(FENCE_W_R), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+fence.tso",
        harts: &[
            &[Store(X, 1), Fence(FENCE_TSO), Load(Y)],
            &[Store(Y, 1), Fence(FENCE_TSO), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+one fence",
        harts: &[
            &[Store(X, 1), Fence(FENCE), Load(Y)],
            &[Store(Y, 1), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+swaps.aqrl",
        harts: &[&[Swap(X, 1, AQRL), Load(Y)], &[Swap(Y, 1, AQRL), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "SB+swaps",
        harts: &[
            &[Swap(X, 1, RELAXED), Load(Y)],
            &[Swap(Y, 1, RELAXED), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+stores+swaps",
        harts: &[
            &[Store(X, 1), Swap(Y, 1, RELAXED)],
            &[Store(Y, 2), Swap(X, 2, RELAXED)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+stores+swaps.rl",
        harts: &[
            &[Store(X, 1), Swap(Y, 1, RL)],
            &[Store(Y, 2), Swap(X, 2, RL)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB+exchanges.aqrl",
        harts: &[
            &[Exchange(X, 1, AQRL), Load(Y)],
            &[Exchange(Y, 1, AQRL), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "SB with own values",
        harts: &[
            &[Store(X, 1), Load(X), Load(Y)],
            &[Store(Y, 1), Load(Y), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "SB with own bytes",
        harts: &[
            &[Store(X.part(0, 4), 1), Load(X), Load(Y)],
            &[Store(X.part(4, 4), 2), Load(X), Load(Y)],
        ],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "SB with a byte of a word of a doubleword",
        harts: &[
            &[
                Store(X, 1),
                Store(X.part(2, 4), 2),
                Store(X.part(3, 1), 3),
                Load(X.part(3, 1)),
                Load(Y),
            ],
            &[Store(Y, 1), Load(Y.part(1, 2)), Load(X)],
        ],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "R",
        harts: &[&[Store(X, 1), Store(Y, 1)], &[Store(Y, 2), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "R+fences",
        harts: &[
            &[Store(X, 1), Fence(FENCE_W_W), Store(Y, 1)],
            &[Store(Y, 2), Fence(FENCE), Load(X)],
        ],
        layouts: ALIGNED,
    },
];

/// Loads before stores, and orders of stores.
pub(super) const STORES: &[Litmus] = &[
    Litmus {
        name: "LB",
        harts: &[&[Load(X), Store(Y, 1)], &[Load(Y), Store(X, 1)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "LB+fences",
        harts: &[
            &[Load(X), Fence(FENCE_RW_W), Store(Y, 1)],
            &[Load(Y), Fence(FENCE_RW_W), Store(X, 1)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "LB+swaps",
        harts: &[
            &[Load(X), Swap(Y, 1, RELAXED)],
            &[Load(Y), Swap(X, 1, RELAXED)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "S",
        harts: &[&[Store(X, 2), Store(Y, 1)], &[Load(Y), Store(X, 1)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "S+swap",
        harts: &[
            &[Store(X, 2), Swap(Y, 1, RL)],
            &[Swap(Y, 2, AQ), Store(X, 1)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "2+2W",
        harts: &[&[Store(X, 1), Store(Y, 2)], &[Store(Y, 1), Store(X, 2)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "2+2W of parts",
        harts: &[
            &[Store(X, 1), Store(X.part(2, 4), 2)],
            &[Store(X.part(2, 2), 3), Store(X, 4)],
        ],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "swaps of a variable",
        harts: &[
            &[Swap(X, 1, RELAXED), Load(X)],
            &[Swap(X, 2, RELAXED), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "exchange beside a store of half of it",
        harts: &[
            &[Exchange(X, 1, RELAXED), Load(X)],
            &[Store(X.part(4, 4), 2), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "swap of half beside an exchange",
        harts: &[
            &[Exchange(X, 1, RELAXED), Load(X.part(0, 4))],
            &[Swap(X.part(4, 4), 2, RELAXED), Load(X)],
        ],
        layouts: &[APART],
    },
];

/// Coherence of one variable.
pub(super) const COHERENCE: &[Litmus] = &[
    Litmus {
        name: "CoRR",
        harts: &[&[Store(X, 1)], &[Load(X), Load(X)]],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "CoRR of parts",
        harts: &[&[Store(X, 1)], &[Load(X.part(0, 4)), Load(X)]],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "CoWR",
        harts: &[&[Store(X, 1), Load(X)], &[Store(X, 2)]],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "CoWW",
        harts: &[&[Store(X, 1), Store(X, 2)], &[Load(X), Load(X)]],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "CoRW",
        harts: &[&[Load(X), Store(X, 1)], &[Store(X, 2)]],
        layouts: &[APART, OVER_LINE],
    },
];

/// Three harts and four.
pub(super) const OBSERVERS: &[Litmus] = &[
    Litmus {
        name: "WRC",
        harts: &[&[Store(X, 1)], &[Load(X), Store(Y, 1)], &[Load(Y), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "RWC",
        harts: &[&[Store(X, 1)], &[Load(X), Load(Y)], &[Store(Y, 1), Load(X)]],
        layouts: ALIGNED,
    },
    Litmus {
        name: "RWC+fence",
        harts: &[
            &[Store(X, 1)],
            &[Load(X), Load(Y)],
            &[Store(Y, 1), Fence(FENCE), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "IRIW",
        harts: &[
            &[Store(X, 1)],
            &[Store(Y, 1)],
            &[Load(X), Load(Y)],
            &[Load(Y), Load(X)],
        ],
        layouts: ALIGNED,
    },
    Litmus {
        name: "IRIW+fences",
        harts: &[
            &[Store(X, 1)],
            &[Store(Y, 1)],
            &[Load(X), Fence(FENCE_R_R), Load(Y)],
            &[Load(Y), Fence(FENCE_R_R), Load(X)],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "ISA2",
        harts: &[
            &[Store(X, 1), Store(Y.part(0, 4), 1)],
            &[Load(Y.part(0, 4)), Store(Y.part(4, 4), 1)],
            &[Load(Y.part(4, 4)), Load(X)],
        ],
        layouts: ALIGNED,
    },
];

/// Accesses over ends of lines and pages.
pub(super) const CROSSINGS: &[Litmus] = &[
    Litmus {
        name: "MP over ends of lines and pages",
        harts: &[&[Store(X, 1), Store(Y, 1)], &[Load(Y), Load(X)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "MP, the upper half of what crosses",
        harts: &[&[Store(X, 1), Store(Y, 1)], &[Load(Y), Load(X.part(4, 4))]],
        layouts: CROSSING,
    },
    Litmus {
        name: "MP, the message read in one piece",
        harts: &[&[Store(X.part(4, 4), 1), Store(Y, 1)], &[Load(Y), Load(X)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "SB over ends of lines and pages",
        harts: &[&[Store(X, 1), Load(Y)], &[Store(Y, 1), Load(X)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "SB+fences, over ends of lines and pages",
        harts: &[
            &[Store(X, 1), Fence(FENCE), Load(Y)],
            &[Store(Y, 1), Fence(FENCE), Load(X)],
        ],
        layouts: CROSSING,
    },
    Litmus {
        name: "LB over ends of lines and pages",
        harts: &[&[Load(X), Store(Y, 1)], &[Load(Y), Store(X, 1)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "S over ends of lines and pages",
        harts: &[&[Store(X, 2), Store(Y, 1)], &[Load(Y), Store(X, 1)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "2+2W over ends of lines and pages",
        harts: &[&[Store(X, 1), Store(Y, 2)], &[Store(Y, 1), Store(X, 2)]],
        layouts: CROSSING,
    },
    Litmus {
        name: "IRIW over ends of lines and pages",
        harts: &[
            &[Store(X, 1)],
            &[Store(Y, 1)],
            &[Load(X.part(4, 4)), Load(Y)],
            &[Load(Y), Load(X.part(4, 4))],
        ],
        layouts: CROSSING,
    },
    Litmus {
        name: "WRC over the end of a line",
        harts: &[
            &[Store(X, 1)],
            &[Load(X.part(0, 4)), Store(Y, 1)],
            &[Load(Y), Load(X.part(0, 4))],
        ],
        layouts: &[OVER_LINE],
    },
];

/// Accesses of several sizes to the same bytes, also over ends of lines, by two to four harts.
pub(super) const MIXED: &[Litmus] = &[
    Litmus {
        name: "MP with a byte of a halfword as flag",
        harts: &[
            &[Store(X, 1), Store(Y.part(3, 1), 1)],
            &[Load(Y.part(2, 2)), Load(X.part(4, 4))],
        ],
        layouts: CROSSING,
    },
    Litmus {
        name: "MP of a word of a doubleword",
        harts: &[
            &[Store(X.part(2, 4), 1), Store(Y, 1)],
            &[Load(Y.part(0, 4)), Load(X)],
        ],
        layouts: &[APART, OVER_LINES],
    },
    Litmus {
        name: "SB+fences of halves",
        harts: &[
            &[Store(X.part(4, 4), 1), Fence(FENCE), Load(Y)],
            &[Store(Y.part(0, 4), 1), Fence(FENCE), Load(X)],
        ],
        layouts: &[APART, OVER_LINES],
    },
    Litmus {
        name: "2+2W of a half over ends of lines",
        harts: &[
            &[Store(X, 1), Store(Y.part(0, 4), 2)],
            &[Store(Y, 3), Store(X.part(4, 4), 4)],
        ],
        layouts: &[APART, OVER_LINES],
    },
    Litmus {
        name: "WRC of parts",
        harts: &[
            &[Store(X.part(0, 4), 1)],
            &[Load(X.part(0, 2)), Store(Y.part(4, 4), 1)],
            &[Load(Y.part(4, 4)), Load(X)],
        ],
        layouts: &[APART, OVER_LINE],
    },
    Litmus {
        name: "swap of half beside a byte of it",
        harts: &[
            &[Swap(X.part(4, 4), 1, RELAXED)],
            &[Store(X.part(6, 1), 2)],
            &[Load(X), Load(X.part(6, 2))],
        ],
        layouts: &[APART],
    },
    Litmus {
        name: "IRIW of halves",
        harts: &[
            &[Store(X, 1)],
            &[Store(Y, 2)],
            &[Load(X.part(4, 4)), Load(Y.part(0, 4))],
            &[Load(Y.part(0, 4)), Load(X.part(4, 4))],
        ],
        layouts: &[APART, OVER_LINE],
    },
];
