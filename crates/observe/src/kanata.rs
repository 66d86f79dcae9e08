//! The format of Konata, a viewer of pipelines: "Kanata", version 4, as github.com/shioyadan/Konata
//! documents it.
//!
//! The file goes forward in time, while a core knows some steps ahead of time and may have to take them
//! back. So steps are kept until their cycle has passed.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of an instruction in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// What a line, or some, say of an instruction.
enum Step {
    Begin {
        number: u64,
        context: u16,
        label: String,
        detail: String,
    },
    Detail(&'static str),
    Stage(&'static str),
    Wake(Id),
    End {
        retired: bool,
    },
}

/// A cycle, and the order within it.
type When = (u64, u64);

/// An instruction that has not ended.
#[derive(Default)]
struct Live {
    stage: Option<&'static str>,
    /// Stages that it is to enter.
    ahead: Vec<When>,
    /// Whether its end is known.
    ends: bool,
}

/// Writes a log of a pipeline.
pub struct Kanata<W> {
    out: W,
    steps: BTreeMap<When, (Id, Step)>,
    live: BTreeMap<Id, Live>,
    /// Steps told so far.
    order: u64,
    begun: u64,
    retired: u64,
    /// The cycle of the last line; none before the first.
    at: Option<u64>,
    failed: Option<io::Error>,
}

impl<W: Write> Kanata<W> {
    /// A log that goes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            steps: BTreeMap::new(),
            live: BTreeMap::new(),
            order: 0,
            begun: 0,
            retired: 0,
            at: None,
            failed: None,
        }
    }

    /// An instruction is there from `cycle` on. `number` is the simulator's, `label` stands at the left,
    /// `detail` is shown where the mouse points.
    pub fn begin(
        &mut self,
        cycle: u64,
        number: u64,
        context: u16,
        label: String,
        detail: String,
    ) -> Id {
        let id = Id(self.begun);
        self.begun += 1;
        self.live.insert(id, Live::default());
        let begin = Step::Begin {
            number,
            context,
            label,
            detail,
        };
        self.add(cycle, id, begin);
        id
    }

    /// An instruction enters a stage in `cycle`, or stays in it, instead of those that it would have
    /// entered from then on.
    pub fn stage(&mut self, cycle: u64, id: Id, stage: &'static str) {
        self.forget(cycle, id);
        let when = self.add(cycle, id, Step::Stage(stage));
        if let Some(live) = self.live.get_mut(&id) {
            live.ahead.push(when);
        }
    }

    /// What `consumer` has waited for is there, from `producer`.
    pub fn wake(&mut self, cycle: u64, consumer: Id, producer: Id) {
        self.add(cycle, consumer, Step::Wake(producer));
    }

    /// An instruction ends in `cycle`.
    pub fn end(&mut self, cycle: u64, id: Id, retired: bool) {
        self.forget(cycle, id);
        self.add(cycle, id, Step::End { retired });
        if let Some(live) = self.live.get_mut(&id) {
            live.ends = true;
        }
    }

    /// Nothing will be told any more of cycles before `cycle`.
    #[inline]
    pub fn advance(&mut self, cycle: u64) {
        while let Some(entry) = self.steps.first_entry() {
            let (at, _) = *entry.key();
            if at >= cycle {
                break;
            }
            let (id, step) = entry.remove();
            let written = self.write(at, id, step);
            self.failed = self.failed.take().or(written.err());
        }
    }

    /// Whether it is of no use to continue.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the log in `cycle`, which lies after all that was told of the present. Instructions that are
    /// in flight still count as flushed.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(mut self, cycle: u64) -> io::Result<()> {
        let live = self.live.iter();
        let in_flight = live.filter_map(|(&id, live)| (!live.ends).then_some(id));
        for id in in_flight.collect::<Vec<_>>() {
            self.add(cycle, id, Step::Detail("\nin flight where the log ends"));
            self.end(cycle, id, false);
        }
        self.advance(u64::MAX);
        if self.at.is_none() {
            self.header(cycle)?;
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn add(&mut self, cycle: u64, id: Id, step: Step) -> When {
        let when = (cycle, self.order);
        self.order += 1;
        self.steps.insert(when, (id, step));
        when
    }

    /// Takes back the stages from `cycle` on.
    fn forget(&mut self, cycle: u64, id: Id) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        while let Some(&when) = live.ahead.last()
            && when.0 >= cycle
        {
            live.ahead.pop();
            self.steps.remove(&when);
        }
    }

    fn header(&mut self, cycle: u64) -> io::Result<()> {
        write!(self.out, "Kanata\t0004\nC=\t{cycle}\n")
    }

    fn write(&mut self, cycle: u64, id: Id, step: Step) -> io::Result<()> {
        match self.at {
            None => self.header(cycle)?,
            Some(at) if at < cycle => writeln!(self.out, "C\t{}", cycle - at)?,
            Some(_) => {}
        }
        self.at = Some(cycle);
        let out = &mut self.out;
        let Id(n) = id;
        match step {
            Step::Begin {
                number,
                context,
                label,
                detail,
            } => {
                writeln!(out, "I\t{n}\t{number}\t{context}")?;
                writeln!(out, "L\t{n}\t0\t{}", in_one_column(&label))?;
                writeln!(out, "L\t{n}\t1\t{}", in_one_column(&detail))
            }
            Step::Detail(text) => writeln!(out, "L\t{n}\t1\t{}", in_one_column(text)),
            Step::Stage(stage) => {
                let Some(live) = self.live.get_mut(&id) else {
                    return Ok(());
                };
                live.ahead.retain(|when| when.0 > cycle);
                if live.stage == Some(stage) {
                    return Ok(());
                }
                if let Some(last) = live.stage.replace(stage) {
                    writeln!(out, "E\t{n}\t0\t{last}")?;
                }
                writeln!(out, "S\t{n}\t0\t{stage}")
            }
            Step::Wake(Id(producer)) => writeln!(out, "W\t{n}\t{producer}\t0"),
            Step::End { retired } => {
                let Some(live) = self.live.remove(&id) else {
                    return Ok(());
                };
                if let Some(last) = live.stage {
                    writeln!(out, "E\t{n}\t0\t{last}")?;
                }
                // Of a flushed one, the number that it would have had.
                writeln!(out, "R\t{n}\t{}\t{}", self.retired, u8::from(!retired))?;
                self.retired += u64::from(retired);
                Ok(())
            }
        }
    }
}

/// Text without what ends a column or a line. The viewer shows `\n` as the end of a line.
fn in_one_column(text: &str) -> String {
    text.replace('\t', " ").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Kanata<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        let mut log = Kanata::new(&mut bytes);
        write(&mut log);
        log.finish(200).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// An instruction without labels.
    fn begin(log: &mut Kanata<&mut Vec<u8>>, cycle: u64) -> Id {
        log.begin(cycle, 7, 1, "a\tb".into(), "c\nd".into())
    }

    #[test]
    fn steps_are_written_in_the_order_of_time_whenever_they_were_told() {
        let text = text(|log| {
            let first = begin(log, 5);
            log.stage(5, first, "F");
            log.stage(8, first, "X");
            let second = begin(log, 6);
            log.stage(6, second, "F");
            log.wake(8, second, first);
            log.end(9, second, false);
            log.end(9, first, true);
        });
        let expected = "Kanata\t0004\nC=\t5\nI\t0\t7\t1\nL\t0\t0\ta b\nL\t0\t1\tc\\nd\nS\t0\t0\tF\n\
            C\t1\nI\t1\t7\t1\nL\t1\t0\ta b\nL\t1\t1\tc\\nd\nS\t1\t0\tF\n\
            C\t2\nE\t0\t0\tF\nS\t0\t0\tX\nW\t1\t0\t0\n\
            C\t1\nE\t1\t0\tF\nR\t1\t0\t1\nE\t0\t0\tX\nR\t0\t0\t0\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_comes_instead_takes_back_what_was_to_come() {
        let text = text(|log| {
            let id = begin(log, 1);
            log.stage(1, id, "F");
            log.stage(4, id, "X");
            log.stage(9, id, "Cm");
            log.stage(3, id, "Oldest");
            log.stage(6, id, "Mem");
            // It ends before that, and in the same cycle as it would have entered something else.
            log.end(6, id, false);
        });
        let body: Vec<_> = text.lines().skip(5).collect();
        let expected = [
            "S\t0\t0\tF",
            "C\t2",
            "E\t0\t0\tF",
            "S\t0\t0\tOldest",
            "C\t3",
            "E\t0\t0\tOldest",
            "R\t0\t0\t1",
        ];
        assert_eq!(body, expected);
    }

    #[test]
    fn every_instruction_ends() {
        let text = text(|log| {
            let id = begin(log, 1);
            log.stage(1, id, "F");
            log.stage(300, id, "X");
            log.advance(100);
            // Known to end, if later.
            let id = begin(log, 150);
            log.stage(150, id, "F");
            log.end(210, id, true);
        });
        let expected = "C\t50\nL\t0\t1\t\\nin flight where the log ends\nE\t0\t0\tF\nR\t0\t0\t1\n\
            C\t10\nE\t1\t0\tF\nR\t1\t0\t0\n";
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(super::tests::text(|_| {}), "Kanata\t0004\nC=\t200\n");
    }
}
