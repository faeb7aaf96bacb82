//! Asking the person at the terminal, if there is one.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::commands::outcome::CANCELLED;

/// Whether somebody is there to be asked.
pub(super) fn anybody() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line. Nothing is shown of a secret one.
pub(super) fn line(question: &str, secret: bool) -> io::Result<String> {
    if secret {
        return unseen(question);
    }
    put(question)?;
    seen(&mut io::stdin().lock())
}

fn put(question: &str) -> io::Result<()> {
    // At once, so that what is typed early does not come between.
    io::stderr().lock().write_all(format!("{question} ").as_bytes())
}

/// Asks for a yes.
pub(super) fn yes(question: &str) -> io::Result<bool> {
    let answer = line(&format!("{question} [y/N]"), false)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn seen(input: &mut impl BufRead) -> io::Result<String> {
    let mut answer = String::new();
    if input.read_line(&mut answer)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}

/// Asks with the terminal's echo off, and puts it back whatever comes of it.
fn unseen(question: &str) -> io::Result<String> {
    struct Raw;
    impl Drop for Raw {
        fn drop(&mut self) {
            let _ = disable_raw_mode();
            let _ = writeln!(io::stderr());
        }
    }
    enable_raw_mode()?;
    let raw = Raw;
    // Only now: somebody who types fast must not be seen either.
    let answer = put(question).and_then(|()| typed(&mut io::stdin().lock()));
    drop(raw);
    if answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
        // As the signal does while an answer is typed that may be seen: nothing runs yet that would have to end first.
        std::process::exit(i32::from(CANCELLED));
    }
    answer
}

/// A line as the keys come, without a terminal that edits it.
fn typed(keys: &mut impl Read) -> io::Result<String> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE: [u8; 2] = [8, 127];
    let (mut answer, mut key) = (Vec::new(), [0]);
    loop {
        if keys.read(&mut key)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match key[0] {
            b'\r' | b'\n' => break,
            INTERRUPT => return Err(io::ErrorKind::Interrupted.into()),
            END => return Err(io::ErrorKind::UnexpectedEof.into()),
            erase if ERASE.contains(&erase) => {
                // A whole character, which may be several bytes.
                while answer.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            byte => answer.push(byte),
        }
    }
    String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_typed_and_mended() {
        let read = |keys: &str| typed(&mut keys.as_bytes()).map_err(|error| error.kind());
        assert_eq!(read("abc\rrest"), Ok("abc".into()));
        assert_eq!(read("aé\u{7f}b\u{8}\u{8}\u{8}cd\n"), Ok("cd".into()));
        assert_eq!(read("ab\u{3}c\r"), Err(io::ErrorKind::Interrupted));
        assert_eq!(read("ab"), Err(io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn a_line_is_read_without_its_end() {
        assert_eq!(seen(&mut "x y \r\nz".as_bytes()).expect("a line"), "x y ");
        assert!(seen(&mut "".as_bytes()).is_err());
    }
}
