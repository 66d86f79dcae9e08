//! Enumerations whose variants have words in result tables.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Deserialize, ::serde::Serialize)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Its word in result tables.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}
