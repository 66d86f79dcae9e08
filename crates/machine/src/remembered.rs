//! For each page of RAM, the harts that remember something of it.

use loiter_types::HartId;

/// Sets of harts, one a page. A page of which nobody remembers anything has no set.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// Which set a page has, from one on; 0: none.
    set_of: Vec<u32>,
    words: Vec<u64>,
    words_per_set: usize,
    /// Sets that no page has.
    free: Vec<u32>,
}

impl Remembered {
    pub(crate) fn new(pages: usize, harts: usize) -> Self {
        Self {
            set_of: vec![0; pages],
            words: Vec::new(),
            words_per_set: harts.div_ceil(64),
            free: Vec::new(),
        }
    }

    pub(crate) fn has(&self, page: usize, hart: HartId) -> bool {
        let set = self.set_of[page];
        set != 0 && self.words[self.word(set, hart)] >> (hart.index() % 64) & 1 != 0
    }

    pub(crate) fn add(&mut self, page: usize, hart: HartId) {
        if self.set_of[page] == 0 {
            self.set_of[page] = self.free.pop().unwrap_or_else(|| self.grow());
        }
        let word = self.word(self.set_of[page], hart);
        self.words[word] |= 1 << (hart.index() % 64);
    }

    /// Nobody remembers anything of the page any more. Calls `told` for each hart that did.
    pub(crate) fn forget(&mut self, page: usize, mut told: impl FnMut(HartId)) {
        let set = std::mem::take(&mut self.set_of[page]);
        if set == 0 {
            return;
        }
        self.free.push(set);
        for index in 0..self.words_per_set {
            let word = self.word(set, HartId::new(index * 64));
            let mut harts = std::mem::take(&mut self.words[word]);
            while harts != 0 {
                told(HartId::new(index * 64 + harts.trailing_zeros() as usize));
                harts &= harts - 1;
            }
        }
    }

    fn grow(&mut self) -> u32 {
        self.words.resize(self.words.len() + self.words_per_set, 0);
        (self.words.len() / self.words_per_set) as u32
    }

    fn word(&self, set: u32, hart: HartId) -> usize {
        (set as usize - 1) * self.words_per_set + hart.index() / 64
    }
}
