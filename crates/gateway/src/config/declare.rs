//! The macro behind `settings.rs`: from one declaration of each setting to the structs that hold it and the list that describes it.
//!
//! For every section there are two structs. One has every setting where it was given ([`Overrides`](super::Overrides), the form of the
//! file), the other has every setting with its value ([`Config`](super::Config)).

/// Declares the settings. See `settings.rs` for the form.
macro_rules! settings {
    (
        general { $($own:tt)* }
        sections { $($section:ident: $native:ident $given:ident $heading:literal { $($inner:tt)* })* }
        beside { $($(#[$meta:meta])* $extra:ident: $extra_type:ty,)* }
        beside_in_file { $($(#[$file_meta:meta])* $file_extra:ident: $file_type:ty,)* }
    ) => {
        section! {
            { Config Overrides "" "" }
            { $($own)* }
            { $($section: $native $given,)* }
            { $($(#[$meta])* $extra: $extra_type,)* }
            { $($(#[$file_meta])* $file_extra: $file_type,)* }
        }
        $(section! {
            { $native $given (stringify!($section)) $heading }
            { $($inner)* }
            {} {} {}
        })*
    };
}

/// Declares the structs of one section: its settings, the sections in it, and fields that are no settings.
macro_rules! section {
    (
        { $native:ident $given:ident $section:tt $heading:literal }
        { $(
            $(#[doc = $doc:literal])+
            $name:ident: $value:ty = $default:tt $(($example:literal))? $(shown $shown:literal)? $(as $placeholder:literal)?;
        )* }
        { $($inner:ident: $inner_native:ident $inner_given:ident,)* }
        { $($(#[$meta:meta])* $extra:ident: $extra_type:ty,)* }
        { $($(#[$file_meta:meta])* $file_extra:ident: $file_type:ty,)* }
    ) => {
        /// Settings with their values.
        #[derive(Debug, Clone)]
        pub struct $native {
            $($(#[doc = $doc])+ pub $name: native!($default $value),)*
            $(#[doc = concat!("The section `", stringify!($inner), "`.")] pub $inner: $inner_native,)*
            $($(#[$meta])* pub $extra: $extra_type,)*
        }

        impl Default for $native {
            fn default() -> Self {
                Self {
                    $($name: default_value!($default $value),)*
                    $($inner: Default::default(),)*
                    $($extra: Default::default(),)*
                }
            }
        }

        /// Settings where they were given.
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $given {
            $($(#[doc = $doc])+ pub $name: Option<$value>,)*
            $(#[doc = concat!("The section `", stringify!($inner), "`.")] pub $inner: $inner_given,)*
            $($(#[$file_meta])* pub $file_extra: $file_type,)*
        }

        impl $given {
            const DECLARATIONS: &[Declaration] = &[$(Declaration {
                section: $section,
                name: stringify!($name),
                heading: $heading,
                docs: &[$($doc),+],
                default: default_text!($default),
                shown_default: first!($($shown)?),
                example: first!($($example)?),
                placeholder: or!($($placeholder)?; <$value as SettingValue>::PLACEHOLDER),
                form: <$value as SettingValue>::FORM,
                is_secret: <$value as SettingValue>::IS_SECRET,
                check: <$value as SettingValue>::check,
            }),*];

            /// Every setting here and in the sections of this.
            pub(super) fn declarations() -> Vec<&'static Declaration> {
                let all = Self::DECLARATIONS.iter();
                $(let all = all.chain($inner_given::declarations());)*
                all.collect()
            }

            /// Takes over what was given.
            pub(super) fn apply_to(self, settings: &mut $native) {
                $(if let Some(value) = self.$name {
                    settings.$name = value.into_native().into();
                })*
                $(self.$inner.apply_to(&mut settings.$inner);)*
            }

            /// Takes relative paths from a folder.
            pub(super) fn resolve(&mut self, folder: &std::path::Path) {
                $(self.$name = self.$name.take().map(|value| value.relative_to(folder));)*
                $(self.$inner.resolve(folder);)*
            }

            /// Whether a setting is given, by its key.
            pub fn gives(&self, key: &str) -> bool {
                match key.split_once('.') {
                    $(None if key == stringify!($name) => self.$name.is_some(),)*
                    $(Some((stringify!($inner), key)) => self.$inner.gives(key),)*
                    _ => false,
                }
            }

            /// Gives a setting by its key, as variables and flags do: several texts for a list, else one.
            pub fn set(&mut self, key: &str, texts: &[String]) -> Result<(), InvalidValue> {
                match key.split_once('.') {
                    $(None if key == stringify!($name) => {
                        self.$name = Some(SettingValue::from_texts(texts)?);
                        Ok(())
                    })*
                    $(Some((stringify!($inner), key)) => self.$inner.set(key, texts),)*
                    _ => Err(InvalidValue::new(key, "a setting")),
                }
            }
        }
    };
}

/// The type of a setting's value: optional where there is no default.
macro_rules! native {
    (none $value:ty) => { Option<<$value as SettingValue>::Native> };
    ($default:tt $value:ty) => { <$value as SettingValue>::Native };
}

/// The default: none, an empty list, what an expression says, or what a person would write.
macro_rules! default_value {
    (none $value:ty) => {
        None
    };
    ([] $value:ty) => {
        Vec::new()
    };
    (($default:expr) $value:ty) => {
        $default
    };
    ($default:literal $value:ty) => {
        <$value as SettingValue>::from_texts(&[$default.to_owned()]).expect("a test reads every default").into_native()
    };
}

/// The default as a person would write it, where it can be written.
macro_rules! default_text {
    ($default:literal) => {
        Some($default)
    };
    ($default:tt) => {
        None
    };
}

macro_rules! first {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

macro_rules! or {
    (; $default:expr) => {
        $default
    };
    ($value:literal; $default:expr) => {
        $value
    };
}
