//! Other programs' lists of MCP servers, on any text such a file could hold.

use salon_guests::import::{Product, read};

pub(crate) fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    for product in [Product::ClaudeCode, Product::VsCode] {
        match read(text, product, None) {
            Err(error) => assert!(!error.to_string().is_empty(), "an error says why"),
            Ok(import) => drop(format!("{:?}", import.servers)),
        }
    }
    true
}
