//! Conditions on final states, as herd writes them: `(0:x5=1 /\ ~(1:x7=0 \/ x=2))`.

use crate::found::Outcome;

/// What a condition speaks of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A register of a thread.
    Register(usize, u8),
    /// A location, by name.
    Location(String),
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The subject has this value.
    Is(Subject, u64),
    /// All of them hold.
    All(Vec<Condition>),
    /// One of them holds.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
}

impl Condition {
    /// Whether it holds of `outcome`, in which `position` finds subjects; a register counts in as many bits as the
    /// value needs, so that a word that was loaded and sign-extended compares as written.
    #[must_use]
    pub fn holds(&self, outcome: &Outcome, position: &impl Fn(&Subject) -> usize) -> bool {
        match self {
            Condition::Is(subject, value) => {
                let actual = outcome[position(subject)];
                actual == *value || u64::from(actual as u32) == *value
            }
            Condition::All(parts) => parts.iter().all(|part| part.holds(outcome, position)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(outcome, position)),
            Condition::Not(part) => !part.holds(outcome, position),
        }
    }

    /// Calls `see` with each subject.
    pub fn subjects(&self, see: &mut impl FnMut(&Subject)) {
        match self {
            Condition::Is(subject, _) => see(subject),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|part| part.subjects(see));
            }
            Condition::Not(part) => part.subjects(see),
        }
    }

    /// Reads a condition. `value` turns a number or a name into a value, `register` a name into a register.
    ///
    /// # Errors
    /// The part that is not understood.
    pub fn parse(text: &str, value: &impl Fn(&str) -> Option<u64>) -> Result<Self, String> {
        let mut parser = Parser {
            left: text.trim(),
            value,
        };
        let condition = parser.any()?;
        if parser.left.is_empty() {
            Ok(condition)
        } else {
            Err(parser.left.to_owned())
        }
    }
}

struct Parser<'a, V> {
    left: &'a str,
    value: &'a V,
}

impl<V: Fn(&str) -> Option<u64>> Parser<'_, V> {
    fn eat(&mut self, token: &str) -> bool {
        match self.left.strip_prefix(token) {
            Some(rest) => {
                self.left = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.eat("\\/") {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.part()?];
        while self.eat("/\\") {
            parts.push(self.part()?);
        }
        Ok(single_or(parts, Condition::All))
    }

    fn part(&mut self) -> Result<Condition, String> {
        if self.eat("~") || self.left.starts_with("not") && self.eat("not") {
            return Ok(Condition::Not(Box::new(self.part()?)));
        }
        if self.eat("true") {
            return Ok(Condition::All(Vec::new()));
        }
        if self.eat("(") {
            let inner = self.any()?;
            return if self.eat(")") {
                Ok(inner)
            } else {
                Err(self.left.to_owned())
            };
        }
        let wrong = self.left.to_owned();
        let (subject, rest) = self.left.split_once('=').ok_or_else(|| wrong.clone())?;
        let end = rest
            .trim_start()
            .find(|c: char| !(c.is_alphanumeric() || "_-".contains(c)));
        let rest = rest.trim_start();
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let subject = subject_of(subject.trim()).ok_or_else(|| wrong.clone())?;
        let value = (self.value)(word).ok_or(wrong)?;
        self.left = rest.trim_start();
        Ok(Condition::Is(subject, value))
    }
}

fn subject_of(text: &str) -> Option<Subject> {
    let Some((thread, register)) = text.split_once(':') else {
        let name = text.trim_start_matches('*').trim_matches(['[', ']']);
        let valid = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        return valid.then(|| Subject::Location(name.to_owned()));
    };
    let register = loiter_isa::integer_register(register.trim())?;
    Some(Subject::Register(thread.trim().parse().ok()?, register))
}

fn single_or(mut parts: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        many(parts)
    }
}
