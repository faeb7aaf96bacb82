//! Other programs' lists of MCP servers, on any text such a file could hold.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use salon_guests::import::{Product, read};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    for product in [Product::ClaudeCode, Product::VsCode] {
        match read(text, product, None) {
            Err(error) => assert!(!error.to_string().is_empty(), "an error says why"),
            Ok(import) => drop(format!("{:?}", import.servers)),
        }
    }
    Corpus::Keep
});
