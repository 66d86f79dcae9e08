//! The copies that a core's private caches have: what may be done with each, how it comes and how it goes.

use serde::{Deserialize, Serialize};

use super::super::Out;
use super::super::directory::{Keep, supplied};
use super::super::message::{Body, Snoop};
use super::super::state::State;
use super::{DATA, INSTRUCTIONS, Miss, Private};
use crate::cache::{Cache, Lookup};
use crate::request::{Caches, Lost, Told};

/// Tags, and the state of each line.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Stated {
    pub(super) tags: Cache,
    pub(super) state: Vec<State>,
}

impl Stated {
    pub(super) fn new(tags: Cache) -> Self {
        Self {
            state: vec![State::Invalid; tags.lines()],
            tags,
        }
    }

    fn state(&self, line: u64) -> State {
        match self.tags.find(line) {
            Lookup::Hit(index) => self.state[index],
            Lookup::Miss => State::Invalid,
        }
    }

    fn set_state(&mut self, line: u64, state: State) {
        if let Lookup::Hit(index) = self.tags.find(line) {
            self.state[index] = state;
        }
    }
}

/// A copy that has been given up, of which home does not know yet.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Leaving {
    pub(super) line: u64,
    state: State,
}

impl Private {
    /// What these caches may do with `line`.
    pub(crate) fn state(&self, line: u64) -> State {
        if let Some(second) = &self.second {
            return second.state(line);
        }
        match self.data.state(line) {
            State::Invalid if self.instructions.find(line) != Lookup::Miss => State::Shared,
            state => state,
        }
    }

    /// Whether a first-level cache has a line that the second does not have.
    #[cfg(test)]
    pub(crate) fn breaks_inclusion(&self, line: u64) -> bool {
        let first =
            self.data.state(line).can_read() || self.instructions.find(line) != Lookup::Miss;
        let second = self.second.as_ref();
        second.is_some_and(|second| first && !second.state(line).can_read())
    }

    pub(super) fn set_state(&mut self, line: u64, state: State) {
        self.data.set_state(line, state);
        if let Some(second) = &mut self.second {
            second.set_state(line, state);
        }
    }

    /// Puts a line into the caches that are to have it. Returns whether the outermost one has room.
    pub(super) fn hold(
        &mut self,
        line: u64,
        state: State,
        wanted: [bool; 2],
        out: &mut Out<'_>,
    ) -> bool {
        let has_second = self.second.is_some();
        let mut held = true;
        if has_second {
            held = self.hold_in_second(line, state, out);
        }
        if held && wanted[INSTRUCTIONS] && self.instructions.find(line) == Lookup::Miss {
            let misses = &self.misses;
            let stays = |other| !has_second && is_sent(misses, other);
            match self.instructions.room_for(line, stays) {
                Some((index, old)) => {
                    self.replace_in_first(old, INSTRUCTIONS, out);
                    self.instructions.put(index, line);
                }
                None => held = false,
            }
        }
        if held && wanted[DATA] && self.data.tags.find(line) == Lookup::Miss {
            let misses = &self.misses;
            let stays = |other| !has_second && is_sent(misses, other);
            match self.data.tags.room_for(line, stays) {
                Some((index, old)) => {
                    self.replace_in_first(old, DATA, out);
                    self.leaves_data(Lookup::Hit(index));
                    self.data.tags.put(index, line);
                }
                None => held = false,
            }
        }
        if held {
            self.set_state(line, state);
        }
        held
    }

    fn hold_in_second(&mut self, line: u64, state: State, out: &mut Out<'_>) -> bool {
        let misses = &self.misses;
        let second = self.second.as_mut().expect("there is one");
        let index = match second.tags.find(line) {
            Lookup::Hit(index) => index,
            Lookup::Miss => {
                let stays = |other| is_sent(misses, other);
                let Some((index, old)) = second.tags.room_for(line, stays) else {
                    return false;
                };
                if let Some(old) = old {
                    let state = second.state[index];
                    self.drop_copies(old);
                    self.leave(old, state, out);
                }
                let second = self.second.as_mut().expect("there is one");
                second.tags.put(index, line);
                index
            }
        };
        self.second.as_mut().expect("there is one").state[index] = state;
        true
    }

    /// A first-level cache replaces `old`: without a second level, these caches give it up.
    fn replace_in_first(&mut self, old: Option<u64>, cache: usize, out: &mut Out<'_>) {
        let Some(old) = old else { return };
        if self.second.is_some() {
            return;
        }
        let state = self.state(old);
        let other_has = cache == INSTRUCTIONS && self.data.state(old).can_read();
        if !other_has {
            self.drop_copies(old);
            self.leave(old, state, out);
        }
    }

    /// Takes a line out of all caches. Returns which of the first-level caches had it.
    pub(super) fn drop_copies(&mut self, line: u64) -> [bool; 2] {
        let instructions = self.instructions.invalidate(line);
        self.leaves_data(self.data.tags.find(line));
        self.data.set_state(line, State::Invalid);
        let data = self.data.tags.invalidate(line);
        if let Some(second) = &mut self.second {
            second.set_state(line, State::Invalid);
            second.tags.invalidate(line);
        }
        [instructions, data]
    }

    /// A prefetched line, for which nobody waits, has come.
    pub(super) fn was_brought(&mut self, line: u64) {
        if let (Some(prefetcher), Lookup::Hit(index)) =
            (&mut self.prefetcher, self.data.tags.find(line))
        {
            prefetcher.brought(index);
        }
    }

    /// The data cache gives up what it has at `place`.
    fn leaves_data(&mut self, place: Lookup) {
        if let (Some(prefetcher), Lookup::Hit(index)) = (&mut self.prefetcher, place) {
            let unused = prefetcher.ends_unused(index);
            self.counters.prefetch.useless += u64::from(unused);
        }
    }

    /// The lines that `which` has, those of a first level within a second one included.
    pub(in super::super) fn lines_of(&self, which: Caches) -> Vec<u64> {
        match (which, &self.second) {
            (Caches::Instructions, _) => self.instructions.present().collect(),
            (Caches::Private, Some(second)) => second.tags.present().collect(),
            (Caches::First | Caches::Private, _) => {
                let instructions = self.instructions.present();
                instructions.chain(self.data.tags.present()).collect()
            }
        }
    }

    /// Whether a request for `line` has gone to its home.
    pub(in super::super) fn is_at_home(&self, line: u64) -> bool {
        is_sent(&self.misses, line)
    }

    /// `which` drops `line`. Returns whether no cache of the core has it any more.
    pub(in super::super) fn drops(&mut self, line: u64, which: Caches) -> bool {
        self.changes += 1;
        match which {
            Caches::Private => {}
            Caches::First if self.second.is_none() => {}
            Caches::First => {
                self.instructions.invalidate(line);
                self.leaves_data(self.data.tags.find(line));
                self.data.set_state(line, State::Invalid);
                self.data.tags.invalidate(line);
                return false;
            }
            Caches::Instructions => {
                self.counters.first[INSTRUCTIONS].invalidations += 1;
                if self.second.is_some() || self.data.state(line).can_read() {
                    self.instructions.invalidate(line);
                    return false;
                }
            }
        }
        self.drop_copies(line);
        true
    }

    /// A copy in `state` has been given up: home is told where it counts on it.
    pub(in super::super) fn leave(&mut self, line: u64, state: State, out: &mut Out<'_>) {
        if state.supplies() || self.rules.tells_clean {
            self.leaving.push(Leaving { line, state });
            out.send_home(self.node, line, Body::Put { state }, 0);
        }
        self.tell_lost(line, Lost::Evicted, out);
    }

    fn tell_lost(&self, line: u64, why: Lost, out: &mut Out<'_>) {
        out.told.push(Told::Lost {
            core: self.core,
            line,
            why,
        });
    }

    /// Home knows of a copy that was given up.
    pub(crate) fn put_done(&mut self, line: u64) {
        let at = self.leaving.iter().position(|leaving| leaving.line == line);
        self.leaving.swap_remove(at.expect("it was put"));
    }

    /// What is left of a copy that has been given up, as long as home does not know of that.
    pub(crate) fn leaving_state(&self, line: u64) -> State {
        let leaving = self.leaving.iter().find(|leaving| leaving.line == line);
        leaving.map_or(State::Invalid, |leaving| leaving.state)
    }

    /// The copy is kept only as `keep` says. Returns what there was, and whether home has an older value.
    pub(crate) fn snoop(&mut self, line: u64, keep: Keep, out: &mut Out<'_>) -> (State, bool) {
        let protocol = self.rules.protocol;
        let leaving = self.leaving.iter_mut().find(|leaving| leaving.line == line);
        if let Some(leaving) = leaving {
            let before = leaving.state;
            let (after, dirty) = supplied(protocol, before, keep);
            leaving.state = after;
            (before, dirty)
        } else {
            let before = self.state(line);
            let (after, dirty) = supplied(protocol, before, keep);
            if after == State::Invalid && before.can_read() {
                let lost = self.drop_copies(line);
                for (counters, lost) in self.counters.first.iter_mut().zip(lost) {
                    counters.invalidations += out.one() * u64::from(lost);
                }
                self.tell_lost(line, Lost::Written, out);
            } else if after != before {
                self.set_state(line, after);
                if before.can_write() {
                    self.tell_lost(line, Lost::Read, out);
                }
            }
            (before, dirty)
        }
    }

    /// Home asks for the copy.
    pub(crate) fn snooped(&mut self, line: u64, snoop: Snoop, out: &mut Out<'_>) {
        let Snoop {
            keep,
            supply,
            reply_to,
        } = snoop;
        let (before, dirty) = self.snoop(line, keep, out);
        let body = Body::Reply {
            supplies: supply && before.can_read(),
            dirty,
        };
        let gives_up = keep == Keep::Nothing && before.can_read();
        let cycles = match before.is_dirty() || gives_up {
            true => self.rules.snoop_cycles + self.rules.snoop_change_cycles,
            false => self.rules.snoop_cycles,
        };
        out.send(self.node, reply_to, line, body, cycles);
    }
}

/// Whether a request for `line` has gone to its home.
fn is_sent(misses: &[Miss], line: u64) -> bool {
    misses.iter().any(|miss| miss.line == line && miss.sent)
}
