//! What a home asks for to carry out a decision, and what it does when all of that is there.

use super::super::directory::{Keep, Step, Supply, Want};
use super::super::message::{Body, Snoop};
use super::super::state::State;
use super::{Gather, Home, Out, Purpose};
use crate::cache::Lookup;
use crate::request::{Level, Response, Told};

impl Home {
    /// Asks for what a decision needs.
    pub(super) fn gather(
        &mut self,
        line: u64,
        purpose: Purpose,
        step: Step,
        from_above: Option<Level>,
        out: &mut Out<'_>,
    ) {
        let mut gather = Gather {
            purpose,
            step,
            awaited: 0,
            direct: 0,
            level: from_above.unwrap_or(self.rules.level),
            dirty: false,
            supplied: false,
        };
        let delay = self.owner_delay(line, purpose);
        if delay > 0 {
            gather.awaited += 1;
            out.value_at(self.node, line, out.now.after(delay));
        }
        let lost = step.lose.count();
        for child in step.lose.iter() {
            self.snoop(&mut gather, line, child, (Keep::Nothing, false), delay, out);
        }
        let serves = matches!(purpose, Purpose::Serve { .. });
        match purpose {
            Purpose::Evict => self.counters.recalls += out.one() * u64::from(lost + 1),
            _ => self.counters.invalidations += out.one() * u64::from(lost),
        }
        match step.supply {
            Supply::Child(child) => {
                gather.level = Level::OtherCache;
                self.snoop(&mut gather, line, child, (step.keep, true), delay, out);
                self.counters.from_child += out.one() * u64::from(serves);
            }
            Supply::Nobody => {
                gather.level = Level::Home;
                self.counters.upgrades += out.one() * u64::from(serves);
            }
            Supply::Home if serves => {
                gather.awaited += 1;
                self.supply(&mut gather, line, from_above.is_some(), out);
            }
            Supply::Home => {}
        }
        self.busy.entry(line).or_default().gather = Some(gather);
    }

    /// How long the decision about a request waits for a new owner to be entered.
    fn owner_delay(&self, line: u64, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Serve {
                from,
                want: Want::Own,
                ..
            } if self.line(line).entry.owner != Some(from) => self.rules.owner_cycles,
            _ => 0,
        }
    }

    fn snoop(
        &self,
        gather: &mut Gather,
        line: u64,
        child: u16,
        (keep, supply): (Keep, bool),
        delay: u64,
        out: &mut Out<'_>,
    ) {
        let reply_to = match gather.purpose {
            Purpose::Serve {
                from,
                request: None,
                ..
            } if self.rules.direct => {
                gather.direct += 1;
                self.node_of(from)
            }
            _ => {
                gather.awaited += 1;
                self.node
            }
        };
        let snoop = Snoop {
            keep,
            supply,
            reply_to,
        };
        out.send(
            self.node,
            self.node_of(child),
            line,
            Body::Snoop(snoop),
            delay,
        );
    }

    /// Home's cache supplies the value, or memory; the home above may have done so already.
    fn supply(&mut self, gather: &mut Gather, line: u64, from_above: bool, out: &mut Out<'_>) {
        let cached = match &mut self.cache {
            Some(cache) => cache.access(line) != Lookup::Miss,
            None => false,
        };
        if cached || self.rules.has_above {
            self.counters.from_memory += out.one() * u64::from(from_above);
            self.counters.from_home += out.one() * u64::from(!from_above);
            let cycles = if from_above {
                0
            } else {
                self.rules.data_cycles
            };
            out.value_at(self.node, line, out.now.after(cycles));
        } else {
            self.counters.from_memory += out.one();
            gather.level = Level::Memory;
            let early = match gather.purpose {
                Purpose::Serve { from, .. } if self.rules.near.contains(from) => {
                    self.rules.early_near_cycles
                }
                _ => self.rules.early_cycles,
            };
            let at = out.read_memory(line, early);
            out.value_at(self.node, line, at);
        }
    }

    /// The value that home has, or memory has, is there.
    pub(crate) fn value_arrives(&mut self, line: u64, out: &mut Out<'_>) {
        self.arrived(line, false, false, out);
    }

    /// A child replies to a snoop; or whom a request came from says what others have replied.
    pub(crate) fn replied(&mut self, line: u64, supplies: bool, dirty: bool, out: &mut Out<'_>) {
        self.arrived(line, supplies, dirty, out);
    }

    fn arrived(&mut self, line: u64, supplies: bool, dirty: bool, out: &mut Out<'_>) {
        let busy = self.busy.get_mut(&line).expect("it is awaited");
        let gather = busy.gather.as_mut().expect("it is awaited");
        gather.supplied |= supplies;
        gather.dirty |= dirty;
        gather.awaited -= 1;
        self.settle(line, out);
    }

    /// All that home awaits is there.
    pub(super) fn gathered(&mut self, line: u64, gather: Gather, out: &mut Out<'_>) {
        let mut known = self.line(line);
        known.entry = gather.step.after;
        self.set(line, known);
        if gather.direct > 0 {
            self.grant(line, &gather, out);
            let closes = Gather {
                purpose: Purpose::Close,
                awaited: 1,
                direct: 0,
                ..gather
            };
            self.busy.get_mut(&line).expect("it is served").gather = Some(closes);
            return;
        }
        let counts_on_child = matches!(gather.step.supply, Supply::Child(_));
        assert!(
            gather.supplied || !counts_on_child,
            "line {line:#x}: a child that home counts on has no copy"
        );
        // Who may write the line has the newer value, and gives it back in time.
        if gather.dirty && gather.step.grant != State::Modified {
            self.takes_value(line, out);
        }
        match gather.purpose {
            Purpose::Serve { .. } => self.grant(line, &gather, out),
            Purpose::Evict => self.give_up(line, out),
            Purpose::Reply(snoop) => {
                let asked = counts_on_child || !gather.step.lose.is_empty();
                self.reply(line, snoop, asked, out);
            }
            Purpose::Close => {}
        }
    }

    /// Grants a request, or has performed it.
    fn grant(&mut self, line: u64, gather: &Gather, out: &mut Out<'_>) {
        let Purpose::Serve {
            from,
            want,
            request,
        } = gather.purpose
        else {
            unreachable!("{:?} serves nobody", gather.purpose)
        };
        let to = self.node_of(from);
        if let Some(request) = request {
            if want == Want::AtHome {
                // Where it has been performed once it is likely to be again.
                self.cache_line(line, out);
                self.takes_value(line, out);
            }
            let done = out.arrival(self.node, to, true, 0);
            out.told.push(Told::Performs(Response {
                request,
                done,
                level: gather.level,
            }));
            return;
        }
        let from_memory = gather.level == Level::Memory;
        if from_memory && !self.rules.has_above && self.rules.inclusive {
            self.cache_line(line, out);
        }
        let body = Body::Grant {
            state: gather.step.grant,
            level: gather.level,
            replies: gather.direct,
        };
        out.send(self.node, to, line, body, 0);
    }
}
