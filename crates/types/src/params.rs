//! One declaration of a parameter: name with unit, type, range, default, description.
//!
//! [`params!`](crate::params!) declares a struct whose fields are the parameters of one section of a
//! machine file. Reading, range checks, "unknown key" errors, `loiter machine show` and the
//! documentation all derive from that declaration. Values and their sources stand in the machine
//! files; a default exists only where leaving the key out has one evident meaning.

use std::fmt;

/// A value as it stands in a machine file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamValue {
    /// A whole number.
    Int(u64),
    /// Yes or no.
    Bool(bool),
    /// A word or text.
    Text(String),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Int(n) => write!(f, "{n}"),
            ParamValue::Bool(b) => write!(f, "{b}"),
            ParamValue::Text(s) => write!(f, "\"{s}\""),
        }
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number between two bounds, both included.
    Int {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// `true` or `false`.
    Bool,
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number that nobody knows exactly, with its range: "100 in 50..200". A number alone has none.
    Estimate,
}

/// The parts of an estimate: least, likely, greatest.
fn estimate(text: &str) -> Option<[u64; 3]> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let Some((likely, range)) = text.split_once(" in ") else {
        return number(text).map(|n| [n; 3]);
    };
    let (least, greatest) = range.split_once("..")?;
    let parts = [number(least)?, number(likely)?, number(greatest)?];
    parts.is_sorted().then_some(parts)
}

impl ParamKind {
    /// Reads a value that was written on a command line.
    ///
    /// # Errors
    /// Says what was expected when `text` is not of this type.
    pub fn parse(&self, text: &str) -> Result<ParamValue, String> {
        match self {
            ParamKind::Int { .. } => {
                text.replace('_', "")
                    .parse()
                    .map(ParamValue::Int)
                    .map_err(|_| match text.parse::<f64>() {
                        Ok(number) if number < 0.0 => format!("{text} is negative"),
                        Ok(number) if number > u64::MAX as f64 => format!("{text} is too large"),
                        _ => format!("expected a whole number, got \"{text}\""),
                    })
            }
            ParamKind::Bool => match text {
                "true" => Ok(ParamValue::Bool(true)),
                "false" => Ok(ParamValue::Bool(false)),
                _ => Err(format!("expected true or false, got \"{text}\"")),
            },
            ParamKind::Text | ParamKind::Choice(_) | ParamKind::Estimate => {
                Ok(ParamValue::Text(text.to_owned()))
            }
        }
    }

    /// Checks that `value` is of this type and within its bounds.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn check(&self, value: &ParamValue) -> Result<(), String> {
        match (self, value) {
            (ParamKind::Int { min, max }, ParamValue::Int(n)) if n < min || n > max => {
                Err(format!("{n} is out of range, {min} to {max} are possible"))
            }
            (ParamKind::Choice(words), ParamValue::Text(s)) if !words.contains(&s.as_str()) => Err(
                format!("\"{s}\" is not known, choose from: {}", words.join(", ")),
            ),
            (ParamKind::Estimate, ParamValue::Text(s))
                if !s.is_empty() && estimate(s).is_none() =>
            {
                Err(format!(
                    "\"{s}\" is no estimate; write \"100 in 50..200\": the likely value, then the least and the greatest"
                ))
            }
            (ParamKind::Estimate, ParamValue::Text(_))
            | (ParamKind::Int { .. }, ParamValue::Int(_))
            | (ParamKind::Bool, ParamValue::Bool(_))
            | (ParamKind::Text | ParamKind::Choice(_), ParamValue::Text(_)) => Ok(()),
            (kind, value) => Err(format!("expected {}, got {value}", kind.name())),
        }
    }

    /// The type in words.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ParamKind::Int { .. } => "a whole number",
            ParamKind::Bool => "true or false",
            ParamKind::Text => "a text",
            ParamKind::Choice(_) => "one of a few words",
            ParamKind::Estimate => "an estimate such as \"100 in 50..200\"",
        }
    }
}

/// The declaration of one parameter.
#[derive(Clone, Debug)]
pub struct ParamInfo {
    /// Key within its section; the unit is its suffix.
    pub name: &'static str,
    /// Type and bounds.
    pub kind: ParamKind,
    /// Value when the machine file leaves the key out; `None`: it must not.
    pub default: Option<ParamValue>,
    /// What it means.
    pub description: &'static str,
}

impl ParamInfo {
    /// The unit, read off the name's suffix; empty for a plain count or a word.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        const UNITS: [(&str, &str); 11] = [
            ("_fj", "fJ"),
            ("_uw", "µW"),
            ("_mv", "mV"),
            ("_cycles", "cycles"),
            ("_kib", "KiB"),
            ("_mib", "MiB"),
            ("_bytes", "bytes"),
            ("_mhz", "MHz"),
            ("_hz", "Hz"),
            ("_percent", "%"),
            ("_bits", "bits"),
        ];
        UNITS
            .iter()
            .find(|(suffix, _)| self.name.ends_with(suffix))
            .map_or("", |(_, unit)| unit)
    }
}

/// A struct of parameters, made by [`params!`](crate::params!).
pub trait Params: Sized {
    /// The declarations, in order.
    fn infos() -> Vec<ParamInfo>;

    /// Builds the struct from `get`, which returns the checked value of each declared name.
    fn build(get: &mut dyn FnMut(&str) -> ParamValue) -> Self;
}

/// A Rust type that a parameter can have.
pub trait FieldType: Sized {
    /// The value, which [`ParamKind::check`] has accepted.
    fn from_value(value: ParamValue) -> Self;
}

impl FieldType for u64 {
    fn from_value(value: ParamValue) -> Self {
        match value {
            ParamValue::Int(n) => n,
            other => unreachable!("checked to be a whole number: {other}"),
        }
    }
}

impl FieldType for bool {
    fn from_value(value: ParamValue) -> Self {
        match value {
            ParamValue::Bool(b) => b,
            other => unreachable!("checked to be true or false: {other}"),
        }
    }
}

impl FieldType for String {
    fn from_value(value: ParamValue) -> Self {
        match value {
            ParamValue::Text(s) => s,
            other => unreachable!("checked to be a text: {other}"),
        }
    }
}

/// Declares the parameters of one section of a machine file.
///
/// ```
/// loiter_types::params! {
///     /// A cache.
///     pub struct Cache {
///         /// Capacity.
///         size_kib: int(1..=1024),
///         /// Which way is replaced.
///         replacement: choice("lru", "random") = "lru",
///         /// Whether a store that misses fetches the line.
///         allocate_on_store: bool = true,
///     }
/// }
/// use loiter_types::Params;
/// assert_eq!(Cache::infos()[0].unit(), "KiB");
/// ```
#[macro_export]
macro_rules! params {
    ($(#[$struct_doc:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident : $kind:ident $(($($bounds:tt)*))? $(= $default:literal)?),+ $(,)?
    }) => {
        $(#[$struct_doc])*
        #[derive(Clone, Debug, ::serde::Deserialize, ::serde::Serialize)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $crate::params!(@type $kind)),+
        }

        impl $crate::Params for $name {
            fn infos() -> Vec<$crate::ParamInfo> {
                vec![$($crate::ParamInfo {
                    name: stringify!($field),
                    kind: $crate::params!(@kind $kind $($($bounds)*)?),
                    default: $crate::params!(@default $kind $($default)?),
                    description: concat!($($doc),+).trim_ascii(),
                }),+]
            }

            fn build(get: &mut dyn FnMut(&str) -> $crate::ParamValue) -> Self {
                Self { $($field: $crate::FieldType::from_value(get(stringify!($field)))),+ }
            }
        }
    };
    (@type int) => { u64 };
    (@type bool) => { bool };
    (@type text) => { String };
    (@type choice) => { String };
    (@type estimate) => { String };
    (@kind int $min:literal ..= $max:literal) => { $crate::ParamKind::Int { min: $min, max: $max } };
    (@kind bool) => { $crate::ParamKind::Bool };
    (@kind text) => { $crate::ParamKind::Text };
    (@kind estimate) => { $crate::ParamKind::Estimate };
    (@kind choice $($word:literal),+) => { $crate::ParamKind::Choice(&[$($word),+]) };
    (@default $kind:ident) => { None };
    (@default int $value:literal) => { Some($crate::ParamValue::Int($value)) };
    (@default bool $value:literal) => { Some($crate::ParamValue::Bool($value)) };
    (@default $kind:ident $value:literal) => { Some($crate::ParamValue::Text($value.to_owned())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    params! {
        /// A section.
        pub struct Sample {
            /// How long it
            /// takes.
            latency_cycles: int(1..=100),
            /// Which one.
            policy: choice("lru", "random") = "lru",
        }
    }

    #[test]
    fn a_declaration_yields_its_parts() {
        let infos = Sample::infos();
        assert_eq!(infos[0].unit(), "cycles");
        assert_eq!(infos[0].description, "How long it takes.");
        assert_eq!(infos[0].default, None);
        assert_eq!(infos[1].default, Some(ParamValue::Text("lru".into())));
        let sample = Sample::build(&mut |name| match name {
            "latency_cycles" => ParamValue::Int(7),
            _ => ParamValue::Text("random".into()),
        });
        assert_eq!(
            (sample.latency_cycles, sample.policy.as_str()),
            (7, "random")
        );
    }

    #[test]
    fn bounds_and_choices_are_checked() {
        let kind = Sample::infos()[0].kind;
        assert!(kind.check(&ParamValue::Int(100)).is_ok());
        assert!(
            kind.check(&ParamValue::Int(101))
                .unwrap_err()
                .contains("1 to 100")
        );
        assert!(kind.check(&ParamValue::Int(0)).is_err());
        assert!(kind.check(&ParamValue::Bool(true)).is_err());
        let choice = Sample::infos()[1].kind;
        let error = choice.check(&ParamValue::Text("fifo".into())).unwrap_err();
        assert!(error.contains("lru, random"), "{error}");
        assert!(kind.parse("12x").is_err());
    }

    #[test]
    fn an_estimate_lies_in_its_range() {
        let fits = |text: &str| {
            let value = ParamKind::Estimate.parse(text).unwrap();
            ParamKind::Estimate.check(&value).is_ok()
        };
        for good in ["100", "1_000", "100 in 50..200", "100 in 100..100"] {
            assert!(fits(good), "{good}");
        }
        for bad in [
            "x",
            "-1",
            "49 in 50..200",
            "201 in 50..200",
            "100 in 50",
            "100..200",
        ] {
            assert!(!fits(bad), "{bad}");
        }
    }
}
