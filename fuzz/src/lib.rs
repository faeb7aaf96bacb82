//! What every binary of `targets/` consists of: libFuzzer, and the target of the same name in `tests/fuzz`.

pub use fuzz_targets;
pub use libfuzzer_sys;

/// Defines the entry point that libFuzzer calls for each input.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        static TARGET: std::sync::LazyLock<$crate::fuzz_targets::FuzzTarget> =
            std::sync::LazyLock::new(|| $crate::fuzz_targets::target($name).expect("a target of this name"));

        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| -> $crate::libfuzzer_sys::Corpus {
            match TARGET(bytes) {
                true => $crate::libfuzzer_sys::Corpus::Keep,
                false => $crate::libfuzzer_sys::Corpus::Reject,
            }
        });
    };
}
