//! Bytes as text (RFC 4648, section 4).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Strict: padded, and nothing but its digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let digits = chunk.iter().position(|&digit| digit == b'=').unwrap_or(chunk.len());
        if chunk.len() < 4 || digits < 2 || chunk[digits..].iter().any(|&digit| digit != b'=') {
            return None;
        }
        let group = chunk[..digits].iter().enumerate().try_fold(0_u32, |group, (i, digit)| {
            let value = DIGITS.iter().position(|known| known == digit)?;
            Some(group | (value as u32) << (18 - 6 * i))
        })?;
        bytes.extend_from_slice(&group.to_be_bytes()[1..digits]);
    }
    // Padding only at the end, and no bits that are not used: each value is written in one way.
    (encode(&bytes) == text).then_some(bytes)
}

/// With padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0_u32, |group, (i, &byte)| group | u32::from(byte) << (16 - 8 * i));
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[index as usize]) } else { '=' });
        }
    }
    text
}
