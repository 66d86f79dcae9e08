//! Reads plans, as `plan` has their grammar; a mistake is shown at its column.

use loiter_observe::MarkKind;
use loiter_types::Unknown;

use super::plan::{End, Engine, Move, Phase, Plan, Repeat, RepeatEnd, Step};
use crate::error::Error;

impl Plan {
    /// The plan in `text`.
    ///
    /// # Errors
    /// Says at which column what was expected.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = Parser {
            text,
            at: 0,
            repeats: false,
        };
        let mut steps = Vec::new();
        loop {
            steps.push(parser.step()?);
            if parser.is_over() {
                return Ok(Self(steps));
            }
            if steps.last().is_some_and(|step| !step.is_bounded()) {
                return Err(parser.expected("\"until\" or \"for\", since another phase follows"));
            }
            parser.at += 1;
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The next byte.
    at: usize,
    /// Whether it is inside the brackets of a repetition.
    repeats: bool,
}

/// What may follow a phase.
const ENDS: &str = "\"until\", \"for\" or \",\"";

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn is_over(&mut self) -> bool {
        self.skip_spaces();
        self.rest().is_empty()
    }

    /// The next word: up to a space, a comma or a colon.
    fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let ends = |c: char| c.is_whitespace() || ",:()".contains(c);
        let rest = self.rest();
        &rest[..rest.find(ends).unwrap_or(rest.len())]
    }

    /// The value of the next of `words`, which is passed.
    fn one_of<T: Clone>(&mut self, words: &[(&str, T)]) -> Option<T> {
        let word = self.word();
        let (_, value) = words.iter().find(|(known, _)| *known == word)?;
        self.at += word.len();
        Some(value.clone())
    }

    fn fault(&mut self, at: usize, problem: &str) -> Error {
        let column = self.text[..at].chars().count();
        Error::User(format!(
            "--phases: {problem}, at column {}\n  {}\n  {}^",
            column + 1,
            self.text,
            " ".repeat(column)
        ))
    }

    fn expected(&mut self, what: &str) -> Error {
        let word = self.word();
        let found = match (word, self.rest().chars().next()) {
            ("", None) => "the end".to_owned(),
            ("", Some(mark)) => format!("\"{mark}\""),
            (word, _) => format!("\"{word}\""),
        };
        self.fault(self.at, &format!("expected {what}, found {found}"))
    }

    fn step(&mut self) -> Result<Step, Error> {
        if self.one_of(&[("move", ())]).is_some() {
            return self.movement().map(Step::Move);
        }
        if self.one_of(&[("repeat", ())]).is_none() {
            let phase = self.phase()?;
            return self.comma_or_end(&phase).map(|()| Step::Phase(phase));
        }
        self.bracket('(')?;
        self.repeats = true;
        let mut phases = Vec::new();
        loop {
            let phase = self.phase()?;
            if phase.end.is_none() {
                return Err(
                    self.expected("\"until\" or \"for\", as a repetition continues with the next")
                );
            }
            phases.push(phase);
            self.skip_spaces();
            if !self.rest().starts_with(',') {
                break;
            }
            self.at += 1;
        }
        self.bracket(')')?;
        self.repeats = false;
        let mut end = None;
        if self.one_of(&[("until", ())]).is_some() {
            end = Some(RepeatEnd::End(self.event()?));
        } else if self.one_of(&[("for", ())]).is_some() {
            end = Some(self.repeat_count()?);
        }
        self.skip_spaces();
        if !self.rest().is_empty() && !self.rest().starts_with(',') {
            return Err(self.expected(if end.is_some() { "\",\"" } else { ENDS }));
        }
        Ok(Step::Repeat(Repeat { phases, end }))
    }

    fn movement(&mut self) -> Result<Move, Error> {
        let hart = self.id("the number of a hart")?;
        if self.one_of(&[("to", ())]).is_none() {
            return Err(self.expected("\"to\""));
        }
        let context = self.id("the number of a context")?;
        let cold = self.one_of(&[("cold", true), ("warm", false)]);
        self.skip_spaces();
        if !self.rest().is_empty() && !self.rest().starts_with(',') {
            return Err(self.expected(match cold {
                Some(_) => "\",\"",
                None => "\"cold\", \"warm\" or \",\"",
            }));
        }
        Ok(Move {
            hart,
            context,
            cold: cold.unwrap_or(false),
        })
    }

    fn id(&mut self, what: &str) -> Result<u16, Error> {
        let word = self.word();
        let Ok(id) = word.parse() else {
            return Err(self.expected(what));
        };
        self.at += word.len();
        Ok(id)
    }

    fn bracket(&mut self, bracket: char) -> Result<(), Error> {
        self.skip_spaces();
        if !self.rest().starts_with(bracket) {
            return Err(self.expected(&format!("\"{bracket}\"")));
        }
        self.at += 1;
        Ok(())
    }

    fn phase(&mut self) -> Result<Phase, Error> {
        let engines = [("reference", true), ("timing", false)];
        let Some(is_reference) = self.one_of(&engines) else {
            return Err(self.expected(match self.repeats {
                true => "\"reference\" or \"timing\"",
                false => "\"reference\", \"timing\", \"repeat\" or \"move\"",
            }));
        };
        let warm = (is_reference || self.repeats) && self.one_of(&[("warm", ())]).is_some();
        let engine = match is_reference {
            true => Engine::Reference { warm },
            false => Engine::Timing { warm },
        };
        let mut end = None;
        if self.one_of(&[("until", ())]).is_some() {
            end = Some(self.event()?);
        } else if self.one_of(&[("for", ())]).is_some() {
            end = Some(self.count()?);
        }
        Ok(Phase { engine, end })
    }

    fn comma_or_end(&mut self, phase: &Phase) -> Result<(), Error> {
        self.skip_spaces();
        if self.rest().is_empty() || self.rest().starts_with(',') {
            return Ok(());
        }
        Err(self.expected(match (phase.engine, &phase.end) {
            (_, Some(_)) => "\",\"",
            (Engine::Reference { warm: false }, None) => "\"warm\", \"until\", \"for\" or \",\"",
            _ => ENDS,
        }))
    }

    fn event(&mut self) -> Result<End, Error> {
        const KINDS: &str = "\"probe:\", \"symbol:\", \"console:\", \"program\" or \"user\"";
        #[derive(Clone, Copy)]
        enum Kind {
            Probe,
            Symbol,
            Console,
        }
        let alone = [("program", End::Program), ("user", End::User)];
        if let Some(end) = self.one_of(&alone) {
            return Ok(end);
        }
        let begin = self.at;
        let kinds = [
            ("probe", Kind::Probe),
            ("symbol", Kind::Symbol),
            ("console", Kind::Console),
        ];
        let kind = self.one_of(&kinds);
        let Some(kind) = kind.filter(|_| self.rest().starts_with(':')) else {
            self.at = begin;
            return Err(self.expected(KINDS));
        };
        self.at += 1;
        match kind {
            Kind::Probe => self.probe(),
            Kind::Symbol => {
                let rest = self.rest();
                let ends = |c: char| c.is_whitespace() || c == ',' || c == ')';
                let name = &rest[..rest.find(ends).unwrap_or(rest.len())];
                if name.is_empty() {
                    return Err(self.expected("the name of a symbol"));
                }
                self.at += name.len();
                Ok(End::Symbol(name.to_owned()))
            }
            Kind::Console => self.console(),
        }
    }

    fn probe(&mut self) -> Result<End, Error> {
        let words = MarkKind::ALL.map(|kind| (kind.word(), kind));
        if let Some(kind) = self.one_of(&words) {
            return Ok(End::Probe(kind));
        }
        let name = self.word();
        let unknown = Unknown::new("probe", name, words.map(|(word, _)| word));
        Err(self.fault(self.at, &unknown.to_string()))
    }

    fn console(&mut self) -> Result<End, Error> {
        let begin = self.at;
        let rest = self.rest();
        let mut text = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut chars = quoted.char_indices();
            loop {
                match chars.next() {
                    Some((at, '"')) => {
                        self.at += 1 + at + 1;
                        break;
                    }
                    Some((_, '\\')) => text.extend(chars.next().map(|(_, c)| c)),
                    Some((_, c)) => text.push(c),
                    None => return Err(self.fault(begin, "this quotation never ends")),
                }
            }
        } else {
            let ends = |c: char| c == ',' || (c == ')' && self.repeats);
            let bare = &rest[..rest.find(ends).unwrap_or(rest.len())];
            self.at += bare.len();
            text.push_str(bare.trim());
        }
        if text.is_empty() {
            return Err(self.fault(begin, "expected the text that a console says"));
        }
        Ok(End::Console(text))
    }

    fn number(&mut self) -> Result<u64, Error> {
        let word = self.word();
        let digits = word.trim_end_matches(['k', 'M', 'G']);
        let scale = match &word[digits.len()..] {
            "" => Some(1),
            "k" => Some(1_000),
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            _ => None,
        };
        let number = digits.parse::<u64>().ok().filter(|&number| number > 0);
        let Some(count) = number
            .zip(scale)
            .and_then(|(n, scale)| n.checked_mul(scale))
        else {
            return Err(self.expected("a number, such as 500000, 500k or 2M"));
        };
        self.at += word.len();
        Ok(count)
    }

    fn count(&mut self) -> Result<End, Error> {
        let count = self.number()?;
        let units = [
            ("instructions", End::Instructions(count)),
            ("cycles", End::Cycles(count)),
        ];
        match self.one_of(&units) {
            Some(end) => Ok(end),
            None => Err(self.expected("\"instructions\" or \"cycles\"")),
        }
    }

    fn repeat_count(&mut self) -> Result<RepeatEnd, Error> {
        let begin = self.at;
        let count = self.number()?;
        if self.one_of(&[("times", ())]).is_some() {
            return Ok(RepeatEnd::Times(count));
        }
        if !["instructions", "cycles"].contains(&self.word()) {
            return Err(self.expected("\"times\", \"instructions\" or \"cycles\""));
        }
        self.at = begin;
        self.count().map(RepeatEnd::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Plan::parse(text) {
            Ok(plan) => plan.to_string(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn plans_are_read_and_shown_in_one_form() {
        assert_eq!(
            shown(
                "reference until symbol:main,timing  for 2M instructions,reference warm until \
                   console:login: , timing"
            ),
            "reference until symbol:main, timing for 2000000 instructions, reference warm until \
             console:\"login:\", timing"
        );
        for text in [
            "timing",
            "reference",
            "timing until probe:roi_end",
            "reference until console:\"a, \\\"b\\\"\", timing for 10 cycles",
            "timing for 500000 cycles, reference",
            "reference until program, timing until probe:program_end, reference until user",
            "reference until user, repeat (reference warm for 10 instructions, timing warm for 2 cycles, \
             timing until console:\"a)\") until probe:program_end, reference",
            "repeat (timing for 10 cycles, reference until console:\"done\")",
            "repeat (timing for 10 cycles) for 3 times",
            "timing for 10 cycles, move 3 to 17, move 17 to 0, timing",
            "timing for 10 cycles, move 3 to 17 cold, timing",
            "repeat (timing for 10 cycles) for 500 instructions",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown("repeat(timing until symbol:main,reference until console: a b )for 2k times"),
            "repeat (timing until symbol:main, reference until console:\"a b\") for 2000 times"
        );
        assert_eq!(
            shown("timing for 5 cycles, move 3 to 1 warm,timing"),
            "timing for 5 cycles, move 3 to 1, timing"
        );
        let plan = Plan::fast_forward();
        assert_eq!(Plan::parse(&plan.to_string()).unwrap(), plan);
    }

    #[test]
    fn mistakes_are_shown_with_what_was_expected() {
        let cases = [
            (
                "",
                1,
                "expected \"reference\", \"timing\", \"repeat\" or \"move\", found the end",
            ),
            (
                "timng",
                1,
                "expected \"reference\", \"timing\", \"repeat\" or \"move\", found \"timng\"",
            ),
            ("reference until symbol:main,", 29, "found the end"),
            (
                "reference, timing",
                10,
                "since another phase follows, found \",\"",
            ),
            (
                "timing warm",
                8,
                "expected \"until\", \"for\" or \",\", found \"warm\"",
            ),
            ("repeat timing", 8, "expected \"(\", found \"timing\""),
            (
                "repeat (timing for 5 cycles",
                28,
                "expected \")\", found the end",
            ),
            (
                "repeat (timing), reference",
                15,
                "expected \"until\" or \"for\", as a repetition continues with the next, found \")\"",
            ),
            (
                "repeat ()",
                9,
                "expected \"reference\" or \"timing\", found \")\"",
            ),
            (
                "repeat (repeat (timing for 5 cycles))",
                9,
                "expected \"reference\" or \"timing\", found \"repeat\"",
            ),
            (
                "repeat (timing for 5 cycles) for 3",
                35,
                "expected \"times\", \"instructions\" or \"cycles\", found the end",
            ),
            (
                "repeat (timing for 5 cycles) 3 times",
                30,
                "expected \"until\", \"for\" or \",\", found \"3\"",
            ),
            (
                "repeat (timing for 5 cycles), timing",
                29,
                "since another phase follows, found \",\"",
            ),
            (
                "reference hot",
                11,
                "expected \"warm\", \"until\", \"for\" or \",\"",
            ),
            (
                "timing until main",
                14,
                "expected \"probe:\", \"symbol:\", \"console:\", \"program\" or \"user\"",
            ),
            (
                "timing until probe:roibegin",
                20,
                "unknown probe \"roibegin\"; nearest: roi_begin",
            ),
            ("timing until symbol:", 21, "the name of a symbol"),
            (
                "timing until console:, reference",
                22,
                "the text that a console says",
            ),
            ("timing until console:\"a", 22, "never ends"),
            ("timing for 2X cycles", 12, "expected a number"),
            ("timing for 0 cycles", 12, "expected a number"),
            ("timing for 99999999999G cycles", 12, "expected a number"),
            (
                "timing for 5",
                13,
                "expected \"instructions\" or \"cycles\", found the end",
            ),
            (
                "timing for 5 cycles now",
                21,
                "expected \",\", found \"now\"",
            ),
        ];
        for (text, column, says) in cases {
            let Err(Error::User(message)) = Plan::parse(text) else {
                panic!("{text:?} is no plan");
            };
            assert!(message.contains(says), "{text:?}: {message}");
            let column = format!(", at column {column}\n");
            assert!(message.contains(&column), "{text:?}: {message}");
        }
    }
}
