//! One declaration of a counter: name, unit, description. Reset, difference and export derive.

/// The declaration of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Name within its component.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// What one unit of it means.
    pub description: &'static str,
}

/// A struct of counters, made by [`counters!`](crate::counters!).
pub trait CounterSet: Default {
    /// The declarations, in the order of [`CounterSet::values`].
    const INFOS: &'static [CounterInfo];

    /// The present values.
    fn values(&self) -> Vec<u64>;

    /// Hands each counter to `take`, in that order.
    fn for_each(&mut self, take: impl FnMut(&mut u64));
}

/// Takes the counters of components.
pub trait CounterVisitor {
    /// The counters of `component`.
    fn visit<C: CounterSet>(&mut self, component: &str, counters: &C);
}

/// Declares the counters of one component.
///
/// ```
/// loiter_types::counters! {
///     /// Counters of a cache.
///     pub struct CacheCounters {
///         /// Accesses that found no valid line.
///         misses: "accesses",
///     }
/// }
/// use loiter_types::CounterSet;
/// let mut counters = CacheCounters::default();
/// counters.misses += 2;
/// assert_eq!(counters.values(), [2]);
/// assert_eq!(CacheCounters::INFOS[0].unit, "accesses");
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$struct_doc:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident : $unit:literal),+ $(,)?
    }) => {
        $(#[$struct_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, ::serde::Deserialize, ::serde::Serialize)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64),+
        }

        /// The counters of two parts together.
        impl std::ops::Add for &$name {
            type Output = $name;

            fn add(self, other: Self) -> $name {
                $name { $($field: self.$field + other.$field),+ }
            }
        }

        impl $crate::CounterSet for $name {
            const INFOS: &'static [$crate::CounterInfo] = &[$($crate::CounterInfo {
                name: stringify!($field),
                unit: $unit,
                description: concat!($($doc),+).trim_ascii(),
            }),+];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),+]
            }

            fn for_each(&mut self, mut take: impl FnMut(&mut u64)) {
                $(take(&mut self.$field);)+
            }
        }
    };
}
