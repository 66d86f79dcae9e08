//! A prefetcher of a core's data cache: which lines it asks for ahead of loads, and what becomes of them.
//!
//! It is trained by loads that miss, and by the first load of a line that it has brought. It asks for lines of the same
//! page only, as it knows physical addresses. It never changes values: it asks for copies to read, as a load does.

use loiter_types::{PAGE_BYTES, counters, params};
use serde::{Deserialize, Serialize};

params! {
    /// What is brought into data caches before it is requested: section `prefetch`.
    pub struct PrefetchParams {
        /// next_line: lines that follow the one that trains it. stride: lines at the distance that two pairs of accesses
        /// to a page, one after the other, have had.
        kind: choice("none", "next_line", "stride") = "none",
        /// Lines that it asks for at a time.
        degree: int(1..=16) = 1,
        /// How many strides ahead the first of them is.
        distance: int(1..=32) = 1,
        /// Lines of its own that can be outstanding; 0: it takes miss registers of the data cache.
        mshrs: int(0..=64) = 0,
    }
}

impl PrefetchParams {
    /// Of a cache without a prefetcher.
    #[must_use]
    pub fn none() -> Self {
        Self {
            kind: "none".into(),
            degree: 1,
            distance: 1,
            mshrs: 0,
        }
    }
}

counters! {
    /// Counters of a prefetcher.
    pub struct PrefetchCounters {
        /// Lines asked for.
        issued: "lines",
        /// Those that were there when they were accessed first.
        useful: "lines",
        /// Those that were accessed before they were there.
        late: "lines",
        /// Those that left the data cache without an access.
        useless: "lines",
    }
}

/// Pages that are followed at a time.
const PAGES: usize = 16;

/// What is known of the accesses to a page.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Followed {
    page: u64,
    /// The line of the last one.
    last: u64,
    /// Lines between it and the one before.
    stride: i64,
    /// When it was, in accesses that train.
    used: u64,
}

/// A prefetcher.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Prefetcher {
    by_stride: bool,
    degree: u64,
    distance: u64,
    /// Lines of its own that can be outstanding, if it has registers of its own.
    pub(crate) mshrs: Option<usize>,
    /// log2 of the lines of a page.
    page_log2: u32,
    followed: [Followed; PAGES],
    trained: u64,
    /// By place in the data cache: brought by this, and not accessed since.
    unused: Vec<bool>,
}

impl Prefetcher {
    /// One for a data cache of so many lines, if there is one.
    pub(crate) fn new(params: &PrefetchParams, lines: usize, line_bytes: u64) -> Option<Self> {
        let nothing = Followed {
            page: u64::MAX,
            last: 0,
            stride: 0,
            used: 0,
        };
        (params.kind != "none").then(|| Self {
            by_stride: params.kind == "stride",
            degree: params.degree,
            distance: params.distance,
            mshrs: (params.mshrs > 0).then_some(params.mshrs as usize),
            page_log2: (PAGE_BYTES / line_bytes).max(1).trailing_zeros(),
            followed: [nothing; PAGES],
            trained: 0,
            unused: vec![false; lines],
        })
    }

    /// An access to `line` trains it. Returns the lines to ask for.
    pub(crate) fn train(&mut self, line: u64) -> impl Iterator<Item = u64> + use<> {
        let stride = match self.by_stride {
            true => self.stride(line),
            false => 1,
        };
        let (degree, distance, page_log2) = (self.degree, self.distance, self.page_log2);
        let ahead = (distance..distance + degree).filter(move |_| stride != 0);
        ahead
            .map(move |n| line.wrapping_add_signed(stride * n as i64))
            .filter(move |other| other >> page_log2 == line >> page_log2)
    }

    /// The stride of the accesses to the page of `line`, of which this is the newest; 0: none is known.
    fn stride(&mut self, line: u64) -> i64 {
        self.trained += 1;
        let page = line >> self.page_log2;
        let used = self.trained;
        let Some(known) = self.followed.iter_mut().find(|known| known.page == page) else {
            let oldest = self.followed.iter_mut().min_by_key(|known| known.used);
            *oldest.expect("there are some") = Followed {
                page,
                last: line,
                stride: 0,
                used,
            };
            return 0;
        };
        let stride = line.wrapping_sub(known.last) as i64;
        let confirmed = stride == known.stride;
        *known = Followed {
            page,
            last: line,
            stride,
            used,
        };
        if confirmed { stride } else { 0 }
    }

    /// It has brought the line at this place of the data cache.
    pub(crate) fn brought(&mut self, index: usize) {
        self.unused[index] = true;
    }

    /// The line at this place is accessed, or leaves. Returns whether this brought it and it was not accessed before.
    #[inline]
    pub(crate) fn ends_unused(&mut self, index: usize) -> bool {
        std::mem::take(&mut self.unused[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: &str, degree: u64, distance: u64) -> Prefetcher {
        let params = PrefetchParams {
            kind: kind.into(),
            degree,
            distance,
            mshrs: 0,
        };
        Prefetcher::new(&params, 64, 64).expect("it is one")
    }

    #[test]
    fn a_stride_is_known_from_the_third_access_and_stays_in_its_page() {
        let mut stride = prefetcher("stride", 2, 3);
        let mut asks = |line| stride.train(line).collect::<Vec<_>>();
        assert!(asks(64).is_empty() && asks(66).is_empty());
        assert_eq!(asks(68), [74, 76]);
        // Another page does not disturb it.
        assert!(asks(640).is_empty());
        assert_eq!(asks(70), [76, 78]);
        assert!(asks(69).is_empty(), "the stride is another");
        assert_eq!(asks(68), [65, 64], "backwards");
        let mut next = prefetcher("next_line", 2, 1);
        assert_eq!(next.train(126).collect::<Vec<_>>(), [127], "page");
    }

    #[test]
    fn random_accesses_have_no_stride() {
        let mut stride = prefetcher("stride", 4, 1);
        let mut line: u64 = 1;
        for _ in 0..1000 {
            line = (line * 5 + 3) % 64;
            assert_eq!(stride.train(line).count(), 0);
        }
    }
}
