//! The two ends of standard input and output: lines in, lines out, each on a thread of its own because neither can be interrupted.

use std::io::{self, BufRead, Read, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// The longest line that is read. What is longer is passed over, so that memory has a bound.
pub(super) const MAX_LINE: usize = 64 << 20;

/// Lines that may wait between the thread and their reader.
const BACKLOG: usize = 16;

/// A line that was read, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    Whole(Vec<u8>),
    TooLong,
}

/// Lines of standard input, until it ends.
pub(super) fn input() -> io::Result<mpsc::Receiver<ReadLine>> {
    let (sender, lines) = mpsc::channel(BACKLOG);
    thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(line)) = read(&mut stdin, MAX_LINE) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(lines)
}

/// A place for lines of standard output, which closes with its reader, and a signal that all are written.
pub(super) fn output() -> io::Result<(mpsc::Sender<String>, oneshot::Receiver<()>)> {
    let (sender, mut lines) = mpsc::channel::<String>(BACKLOG);
    let (done, written) = oneshot::channel();
    thread::Builder::new().name("stdout".into()).spawn(move || {
        let mut stdout = io::stdout().lock();
        while let Some(mut line) = lines.blocking_recv() {
            line.push('\n');
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
        // Closed first: a writer that sees the end finds no reader.
        drop(lines);
        let _ = done.send(());
    })?;
    Ok((sender, written))
}

/// Reads one line; `None` at the end.
fn read(from: &mut impl BufRead, most: usize) -> io::Result<Option<ReadLine>> {
    let mut line = Vec::new();
    let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    if from.take(bound).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(ReadLine::Whole(line)));
    }
    if line.len() <= most {
        // The last one has no end of its own.
        return Ok(Some(ReadLine::Whole(line)));
    }
    skip_line(from)?;
    Ok(Some(ReadLine::TooLong))
}

/// Passes over the rest of a line.
fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        from.consume(used);
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_those_too_long_are_passed_over() {
        let mut from = io::BufReader::with_capacity(3, &b"ab\n\nabcd\nabcde\nabcdefghijkl\r\nx"[..]);
        let mut told = Vec::new();
        while let Some(line) = read(&mut from, 4).expect("memory can be read") {
            told.push(match line {
                ReadLine::Whole(bytes) => String::from_utf8(bytes).expect("text"),
                ReadLine::TooLong => "(too long)".into(),
            });
        }
        assert_eq!(told, ["ab", "", "abcd", "(too long)", "(too long)", "x"]);
    }
}
