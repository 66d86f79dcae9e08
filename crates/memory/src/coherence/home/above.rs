//! The home of a cluster as a child of the homes of memory: what it asks them for, gives up, and lends.

use super::super::directory::{Keep, Want, lend, recall, supplied};
use super::super::message::{Body, Snoop};
use super::super::state::State;
use super::{Home, Line, Out, Purpose};
use crate::request::Level;

impl Home {
    /// A line that neither its children nor its cache have is given up.
    pub(super) fn release(&mut self, line: u64, out: &mut Out<'_>) {
        if self.rules.has_above && self.line(line).entry.is_empty() && !self.cached(line) {
            self.give_up(line, out);
        }
    }

    /// No child has the line, nor has the cache: the home above has it.
    pub(super) fn give_up(&mut self, line: u64, out: &mut Out<'_>) {
        if !self.rules.has_above {
            return;
        }
        let Some(Line { state, .. }) = self.lines.remove(&line) else {
            return;
        };
        if state.supplies() || self.rules.tells_clean {
            self.leaving.push((line, state));
            out.send_home(self.node, line, Body::Put { state }, 0);
        }
    }

    /// The home above knows of a line that was given up.
    pub(crate) fn put_done(&mut self, line: u64) {
        let at = self.leaving.iter().position(|leaving| leaving.0 == line);
        self.leaving.swap_remove(at.expect("it was put"));
    }

    /// The home above grants a request.
    pub(crate) fn granted(&mut self, line: u64, state: State, level: Level, out: &mut Out<'_>) {
        let busy = self.busy.get_mut(&line).expect("it has asked");
        let request = busy.above.take().expect("it has asked");
        let mut known = self.line(line);
        let writes = matches!(request.want, Want::Own | Want::AtHome);
        let above = self.rules.protocol_above;
        known.state = match known.state.can_read() && !writes {
            // It had what it requested; the home above knows now that it is shared.
            true if above.owned => supplied(above, known.state, Keep::Copy).0,
            true => known.state,
            false => state,
        };
        self.set(line, known);
        if self.rules.inclusive {
            self.cache_line(line, out);
        }
        let from_above = (level != Level::Home).then_some(level);
        self.serve(line, request, from_above, out);
        self.settle(line, out);
    }

    /// The home above asks for the line, and for what is kept of it to be as `keep` says.
    pub(super) fn snooped(&mut self, line: u64, snoop: Snoop, out: &mut Out<'_>) {
        if self.reply_leaving(line, snoop, out) {
            return;
        }
        match self.busy.get_mut(&line) {
            Some(busy) if busy.gather.is_some() => {
                debug_assert!(busy.snoop.is_none(), "one snoop of a line at a time");
                busy.snoop = Some(snoop);
            }
            _ => {
                self.begin_reply(line, snoop, out);
                self.settle(line, out);
            }
        }
    }

    /// Replies from a copy that has been given up, of which the home above does not know yet. Returns whether there is
    /// one.
    pub(super) fn reply_leaving(&mut self, line: u64, snoop: Snoop, out: &mut Out<'_>) -> bool {
        let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.0 == line) else {
            return false;
        };
        let before = leaving.1;
        let (after, dirty) = supplied(self.rules.protocol_above, before, snoop.keep);
        leaving.1 = after;
        let supplies = snoop.supply && before.can_read();
        let body = Body::Reply { supplies, dirty };
        out.send(self.node, snoop.reply_to, line, body, 0);
        true
    }

    /// Gathers from its children what the home above asks for.
    pub(super) fn begin_reply(&mut self, line: u64, snoop: Snoop, out: &mut Out<'_>) {
        let known = self.known(line);
        let step = match snoop.keep {
            Keep::Nothing => recall(self.rules.protocol, known),
            keep => lend(self.rules.protocol, known, keep),
        };
        self.gather(line, Purpose::Reply(snoop), step, None, out);
    }

    /// Its children have done what the home above asks for, if any was `asked`.
    pub(super) fn reply(&mut self, line: u64, snoop: Snoop, asked: bool, out: &mut Out<'_>) {
        let mut known = self.line(line);
        let before = known.state;
        let (after, dirty) = supplied(self.rules.protocol_above, before, snoop.keep);
        known.state = after;
        self.set(line, known);
        let supplies = snoop.supply && before.can_read();
        let data_cycles = match supplies && self.cached(line) {
            true => self.rules.data_cycles,
            false => 0,
        };
        let probe_cycles = if asked { 0 } else { self.rules.probe_cycles };
        let cycles = data_cycles.max(probe_cycles);
        if !after.can_read()
            && let Some(cache) = &mut self.cache
        {
            cache.invalidate(line);
        }
        let body = Body::Reply { supplies, dirty };
        out.send(self.node, snoop.reply_to, line, body, cycles);
    }
}

/// What the home of a cluster asks above for, to serve such a request.
pub(super) fn want_above(want: Want) -> Want {
    match want {
        Want::Own | Want::AtHome => Want::Own,
        Want::Read | Want::Walk => Want::Read,
        Want::Fetch => Want::Fetch,
    }
}
