//! Tags of a set-associative cache.

use loiter_types::{PhysAddr, StateVisitor};
use serde::{Deserialize, Serialize};

/// No tag.
const INVALID: u32 = u32::MAX;

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Lookup {
    /// The line is there, at this index.
    Hit(usize),
    /// It is not.
    Miss,
}

/// Which line of a set is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Replacement {
    /// The least recently used.
    Lru,
    /// Any, by a linear-feedback shift register, as in the UltraSPARC T1's first level.
    Random,
    /// The first, from a rotating pointer, that was not used since all others were.
    Nru,
    /// The next, by one pointer of the whole cache, whether another of the set is empty or not.
    Rotating,
}

/// Tags and replacement state, an index for each line.
#[derive(Debug, Deserialize, Serialize)]
pub struct Cache {
    line_log2: u32,
    sets_log2: u32,
    ways: usize,
    /// What the number of a line (its address divided by the size of a line) has above that of its set, by set and way. A host's
    /// own caches hold little of what all caches of a large machine know of their lines, so it is short.
    tags: Vec<u32>,
    /// LRU: time of last use; NRU: 1 when used.
    used: Vec<u32>,
    replacement: Replacement,
    /// LRU: the present time; random: the register; NRU and rotating: the pointer.
    state: u32,
}

impl Cache {
    /// An empty cache of `size_bytes`.
    ///
    /// # Errors
    /// Says which geometry is impossible.
    pub fn new(
        size_bytes: u64,
        ways: u64,
        line_bytes: u64,
        replacement: &str,
    ) -> Result<Self, String> {
        if !line_bytes.is_power_of_two() {
            return Err(format!("line_bytes = {line_bytes} is not a power of two"));
        }
        let sets = size_bytes / (ways * line_bytes);
        if sets * ways * line_bytes != size_bytes || !sets.is_power_of_two() {
            return Err(format!(
                "{size_bytes} bytes in {ways} ways of {line_bytes}-byte lines make {:.2} sets; \
                 the number of sets must be a power of two",
                size_bytes as f64 / (ways * line_bytes) as f64
            ));
        }
        let lines = (sets * ways) as usize;
        let replacement = match replacement {
            "random" => Replacement::Random,
            "nru" => Replacement::Nru,
            "rotating" => Replacement::Rotating,
            _ => Replacement::Lru,
        };
        Ok(Self {
            line_log2: line_bytes.trailing_zeros(),
            sets_log2: sets.trailing_zeros(),
            ways: ways as usize,
            tags: vec![INVALID; lines],
            used: vec![0; lines],
            replacement,
            // A time that is not "never", a register that is not stuck, and a way that there is.
            state: u32::from(ways > 1),
        })
    }

    /// Number of lines, which bounds the indices in use.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.tags.len()
    }

    /// log2 of the bytes of a line.
    #[must_use]
    pub fn line_log2(&self) -> u32 {
        self.line_log2
    }

    /// The first address beyond those whose lines it can tell apart.
    #[must_use]
    pub(crate) fn reach(&self) -> u64 {
        u64::from(INVALID).saturating_mul(1 << (self.line_log2 + self.sets_log2))
    }

    /// Shows `visitor` what decides which line is replaced next. Which lines there are, a hit does not change.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            line_log2: _,
            sets_log2: _,
            ways,
            tags: _,
            used,
            replacement,
            state,
        } = self;
        match replacement {
            Replacement::Lru => visitor.order_of_use(used, *ways),
            Replacement::Random | Replacement::Rotating => visitor.value((*state).into()),
            Replacement::Nru => {
                visitor.value((*state).into());
                used.iter().for_each(|&used| visitor.value(used.into()));
            }
        }
    }

    /// The number of the line that holds `addr`.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, addr: PhysAddr) -> u64 {
        addr.block(self.line_log2)
    }

    #[inline(always)]
    fn base(&self, line: u64) -> usize {
        (line & ((1 << self.sets_log2) - 1)) as usize * self.ways
    }

    #[inline(always)]
    fn tag(&self, line: u64) -> u32 {
        (line >> self.sets_log2) as u32
    }

    /// The line with this tag in the set that begins at `base`.
    fn line_of(&self, base: usize, tag: u32) -> u64 {
        u64::from(tag) << self.sets_log2 | (base / self.ways) as u64
    }

    /// Where line `line` is, without using it.
    #[inline]
    #[must_use]
    pub fn find(&self, line: u64) -> Lookup {
        let (base, tag) = (self.base(line), self.tag(line));
        let set = &self.tags[base..base + self.ways];
        // Four ways at once, without a branch for each.
        let (fours, rest) = set.as_chunks::<4>();
        for (n, four) in fours.iter().enumerate() {
            let is = |way: usize| u32::from(four[way] == tag) << way;
            let found = is(0) | is(1) | is(2) | is(3);
            if found != 0 {
                return Lookup::Hit(base + 4 * n + found.trailing_zeros() as usize);
            }
        }
        match rest.iter().position(|&other| other == tag) {
            Some(way) => Lookup::Hit(base + 4 * fours.len() + way),
            None => Lookup::Miss,
        }
    }

    /// Looks up line `line` and records the use.
    #[inline]
    pub fn access(&mut self, line: u64) -> Lookup {
        let found = self.find(line);
        if let Lookup::Hit(index) = found {
            self.touch(index);
        }
        found
    }

    /// Records a use of the line at `index`.
    #[inline(always)]
    pub(crate) fn touch(&mut self, index: usize) {
        match self.replacement {
            Replacement::Lru => {
                self.used[index] = self.state;
                self.state += 1;
                if self.state == u32::MAX {
                    self.forget_long_ago();
                }
            }
            Replacement::Random | Replacement::Rotating => {}
            // Of a set with several ways never all are used, so that this has been seen to.
            Replacement::Nru if self.used[index] == 1 => {}
            Replacement::Nru => self.uses_another(index),
        }
    }

    /// Times begin anew, in the same order within each set.
    #[cold]
    fn forget_long_ago(&mut self) {
        let ways = self.ways as u32;
        for set in self.used.chunks_mut(self.ways) {
            let times = set.to_vec();
            for time in set {
                *time = times.iter().filter(|&other| other < time).count() as u32;
            }
        }
        self.state = ways;
    }

    fn uses_another(&mut self, index: usize) {
        self.used[index] = 1;
        let base = index / self.ways * self.ways;
        let set = &mut self.used[base..base + self.ways];
        if set.iter().all(|&used| used == 1) {
            set.fill(0);
            self.used[index] = 1;
        }
    }

    /// Puts line `line`, which must not be there, in; returns its index and the line it replaced.
    pub fn fill(&mut self, line: u64) -> (usize, Option<u64>) {
        let (index, old) = self.room_for(line, |_| false).expect("no line stays");
        self.put(index, line);
        (index, old)
    }

    /// Chooses where line `line`, which must not be there, can go: returns the index, and the line that it replaces.
    /// Lines that `stays` names are not replaced; none when a set is full of them.
    pub fn room_for(
        &mut self,
        line: u64,
        stays: impl Fn(u64) -> bool,
    ) -> Option<(usize, Option<u64>)> {
        debug_assert_eq!(self.find(line), Lookup::Miss);
        let base = self.base(line);
        let set = &self.tags[base..base + self.ways];
        let empty = set.iter().position(|&tag| tag == INVALID);
        let first = match (self.replacement, empty) {
            (Replacement::Rotating, _) | (_, None) => self.victim(base),
            (_, Some(way)) => way,
        };
        let set = &self.tags[base..base + self.ways];
        let known = |way: usize| (set[way] != INVALID).then(|| self.line_of(base, set[way]));
        let way = (0..self.ways)
            .map(|step| (first + step) % self.ways)
            .find(|&way| !known(way).is_some_and(&stays))?;
        Some((base + way, known(way)))
    }

    /// Puts line `line` at an index that [`Cache::room_for`] has returned.
    pub fn put(&mut self, index: usize, line: u64) {
        debug_assert!(line >> self.sets_log2 < INVALID.into());
        self.tags[index] = self.tag(line);
        self.touch(index);
    }

    fn victim(&mut self, base: usize) -> usize {
        let set = &self.used[base..base + self.ways];
        match self.replacement {
            Replacement::Lru => (0..self.ways).min_by_key(|&way| set[way]).unwrap_or(0),
            Replacement::Random => {
                // 16-bit Fibonacci register, taps 16 15 13 4: period 65535.
                let s = self.state;
                let bit = (s ^ (s >> 1) ^ (s >> 3) ^ (s >> 12)) & 1;
                self.state = (s >> 1) | (bit << 15);
                self.state as usize % self.ways
            }
            Replacement::Rotating => {
                let way = self.state as usize;
                self.state = (way as u32 + 1) % self.ways as u32;
                way
            }
            Replacement::Nru => {
                let start = self.state as usize;
                let way = (0..self.ways)
                    .map(|step| (start + step) % self.ways)
                    .find(|&way| set[way] == 0)
                    .unwrap_or(start % self.ways);
                self.state = (way as u32 + 1) % self.ways as u32;
                way
            }
        }
    }

    /// Takes line `line` out; returns whether it was there.
    pub fn invalidate(&mut self, line: u64) -> bool {
        match self.find(line) {
            Lookup::Hit(index) => {
                self.tags[index] = INVALID;
                self.used[index] = 0;
                true
            }
            Lookup::Miss => false,
        }
    }

    /// The lines that it has.
    pub fn present(&self) -> impl Iterator<Item = u64> {
        let known = self.tags.iter().enumerate();
        let known = known.filter(|&(_, &tag)| tag != INVALID);
        known.map(|(index, &tag)| self.line_of(index / self.ways * self.ways, tag))
    }

    /// Takes every line out. Returns how many there were.
    pub fn clear(&mut self) -> u64 {
        let lines = self.tags.iter().filter(|&&tag| tag != INVALID).count();
        self.tags.fill(INVALID);
        self.used.fill(0);
        lines as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_keeps_the_recently_used() {
        let mut cache = Cache::new(2 * 64, 2, 64, "lru").unwrap();
        cache.fill(10);
        cache.fill(11);
        assert!(matches!(cache.access(10), Lookup::Hit(_)));
        assert_eq!(cache.fill(12).1, Some(11));
        assert!(matches!(cache.access(10), Lookup::Hit(_)));
    }

    #[test]
    fn a_line_returns_to_its_own_set_only() {
        let mut cache = Cache::new(4 * 64, 1, 64, "lru").unwrap();
        for line in 0..4 {
            assert_eq!(cache.fill(line).1, None);
        }
        assert_eq!(cache.fill(6).1, Some(2));
        assert!(!cache.invalidate(2));
        assert!(cache.invalidate(6));
        assert_eq!(cache.find(6), Lookup::Miss);
    }

    #[test]
    fn nru_spares_used_lines_and_random_reaches_every_way() {
        let mut nru = Cache::new(4 * 64, 4, 64, "nru").unwrap();
        for line in 0..4 {
            nru.fill(line);
        }
        nru.access(1);
        let replaced = nru.fill(9).1.unwrap();
        assert_ne!(replaced, 1);
        let mut random = Cache::new(4 * 64, 4, 64, "random").unwrap();
        let mut ways = [0; 4];
        for line in 0..400 {
            ways[random.fill(line).0] += 1;
        }
        assert!(ways.iter().all(|&n| n > 50), "{ways:?}");
    }

    /// One pointer for all sets, which continues from the way that was replaced; looking from there, the first way
    /// that is not used; the last one used makes all others unused.
    #[test]
    fn nru_looks_from_a_pointer_that_goes_round() {
        const WAYS: usize = 4;
        for sets in [1, 2] {
            let mut cache = Cache::new((sets * WAYS) as u64 * 64, WAYS as u64, 64, "nru").unwrap();
            let mut lines = vec![[None; WAYS]; sets];
            let mut used = vec![[false; WAYS]; sets];
            // Where it stands at first is nobody's rule.
            let mut pointer = None;
            let mut seen = [0; WAYS];
            for line in 0..200_u64 {
                let set = line as usize % sets;
                // Now and then something that is there is used again.
                let again = lines[set][line as usize / 3 % WAYS];
                if let Some(again) = again.filter(|_| line % 3 == 0) {
                    assert!(matches!(cache.access(again), Lookup::Hit(_)));
                    let way = lines[set].iter().position(|known| *known == Some(again));
                    touch(&mut used[set], way.unwrap());
                }
                let (index, replaced) = cache.fill(line);
                let way = index % WAYS;
                assert_eq!(lines[set][way], replaced);
                if replaced.is_some() {
                    let from = pointer.unwrap_or(way);
                    let mut ways = (0..WAYS).map(|step| (from + step) % WAYS);
                    assert_eq!(ways.find(|&way| !used[set][way]), Some(way), "{line}");
                    pointer = Some((way + 1) % WAYS);
                    seen[way] += 1;
                }
                lines[set][way] = Some(line);
                touch(&mut used[set], way);
            }
            assert!(seen.iter().all(|&times| times > 20), "{seen:?}");
        }

        fn touch(used: &mut [bool; WAYS], way: usize) {
            used[way] = true;
            if used.iter().all(|used| *used) {
                *used = [false; WAYS];
                used[way] = true;
            }
        }
    }

    /// One pointer for all sets, which every fill moves on; an empty way is filled when its turn comes.
    #[test]
    fn a_rotating_pointer_takes_the_ways_in_turn() {
        let mut cache = Cache::new(2 * 4 * 64, 4, 64, "rotating").unwrap();
        let replaced: Vec<_> = (0..4).map(|line| cache.fill(2 * line).1).collect();
        assert_eq!(replaced, [None; 4]);
        assert!(cache.invalidate(0));
        // The pointer is at the way of line 0 again; it goes to that of line 2 with the fill of another set.
        assert_eq!(cache.fill(1).1, None);
        assert!(matches!(cache.access(2), Lookup::Hit(_)));
        assert_eq!(cache.fill(100).1, Some(2));
        assert_eq!(cache.fill(102).1, Some(4));
        assert_eq!(cache.fill(104).1, Some(6));
        assert_eq!(cache.fill(106).1, None);
        assert_eq!(cache.fill(108).1, Some(100));
    }

    /// Random uses, fills and losses against lists: what is there, and that the line replaced is the
    /// least recently used, or one not used since all others were.
    #[test]
    fn what_is_replaced_follows_from_what_was_used() {
        const WAYS: usize = 4;
        for replacement in ["lru", "nru"] {
            let mut cache = Cache::new(2 * WAYS as u64 * 64, WAYS as u64, 64, replacement).unwrap();
            // For each set its lines, the least recently used first, each with whether it counts as used.
            let mut sets: [Vec<(u64, bool)>; 2] = Default::default();
            let mut state = 1_u64;
            for _ in 0..20_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let line = (state >> 33) % 14;
                let set = &mut sets[(line % 2) as usize];
                let known = set.iter().position(|entry| entry.0 == line);
                if (state >> 50).is_multiple_of(10) {
                    assert_eq!(cache.invalidate(line), known.is_some());
                    set.retain(|entry| entry.0 != line);
                    continue;
                }
                match (cache.access(line), known) {
                    (Lookup::Hit(_), Some(at)) => drop(set.remove(at)),
                    (Lookup::Miss, None) => {
                        let full = set.len() == WAYS;
                        let (_, replaced) = cache.fill(line);
                        assert_eq!(replaced.is_some(), full);
                        if let Some(victim) = replaced {
                            let at = set.iter().position(|entry| entry.0 == victim).unwrap();
                            let expected = if replacement == "lru" {
                                at == 0
                            } else {
                                !set[at].1
                            };
                            assert!(expected, "{replacement}: {victim} of {set:?}");
                            set.remove(at);
                        }
                    }
                    other => panic!("{replacement}: line {line}: {other:?}"),
                }
                set.push((line, true));
                if set.len() == WAYS && set.iter().all(|entry| entry.1) {
                    set.iter_mut().for_each(|entry| entry.1 = entry.0 == line);
                }
            }
        }
    }

    /// Times of use are short numbers: when they have run out, they begin anew in the same order.
    #[test]
    fn times_of_use_begin_anew_in_the_same_order() {
        let mut cache = Cache::new(2 * 4 * 64, 4, 64, "lru").unwrap();
        cache.state = u32::MAX - 3;
        let first = [0, 2, 4, 6];
        for line in first {
            assert_eq!(cache.fill(line).1, None);
        }
        assert!(cache.state < 100, "{}", cache.state);
        for (n, line) in first.into_iter().enumerate() {
            assert_eq!(cache.fill(8 + 2 * n as u64).1, Some(line));
        }
        assert_eq!(cache.fill(1).1, None);
        assert_eq!(cache.fill(16).1, Some(8));
    }

    #[test]
    fn it_tells_lines_apart_up_to_where_it_reaches() {
        let cache = Cache::new(2 * 4 * 64, 4, 64, "lru").unwrap();
        let last = cache.line(PhysAddr(cache.reach() - 1));
        assert_ne!(cache.tag(last), INVALID);
        assert_eq!(cache.line_of(cache.base(last), cache.tag(last)), last);
        assert_eq!(cache.tag(cache.line(PhysAddr(cache.reach()))), INVALID);
    }

    #[test]
    fn impossible_geometries_are_refused() {
        assert!(Cache::new(3 << 20, 12, 64, "lru").is_ok());
        assert!(
            Cache::new(3 << 20, 8, 64, "lru")
                .unwrap_err()
                .contains("6144")
        );
        assert!(Cache::new(4096, 4, 48, "lru").is_err());
    }
}
