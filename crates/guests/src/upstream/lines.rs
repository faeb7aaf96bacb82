//! Lines of a child's output, bounded.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What reading a line came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead {
    /// A line, in the buffer, without its end. The last one may lack the end.
    Whole,
    /// The buffer is full and the line goes on.
    Part,
    /// The end of the output, with nothing before it.
    End,
}

/// Appends to `line` up to the next line feed; the caller clears it after each result. Cancel-safe: what was read stays in `line`, and
/// the next call goes on there. At most `limit` bytes are kept.
pub(super) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<LineRead> {
    loop {
        let available = match reader.fill_buf().await {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok(if line.is_empty() { LineRead::End } else { LineRead::Whole });
        }
        // A full buffer is a part only when the line is seen to go on.
        if line.len() >= limit && available[0] != b'\n' {
            return Ok(LineRead::Part);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(available.len()).min(limit - line.len());
        line.extend_from_slice(&available[..taken]);
        if end == Some(taken) {
            reader.consume(taken + 1);
            return Ok(LineRead::Whole);
        }
        reader.consume(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &str, limit: usize, chunk: usize) -> Vec<(LineRead, String)> {
        let mut reader = tokio::io::BufReader::with_capacity(chunk, text.as_bytes());
        let (mut lines, mut buffer) = (Vec::new(), Vec::new());
        loop {
            let line = read_line(&mut reader, &mut buffer, limit).await.unwrap();
            if line == LineRead::End {
                return lines;
            }
            lines.push((line, String::from_utf8(std::mem::take(&mut buffer)).unwrap()));
        }
    }

    #[tokio::test]
    async fn lines_come_whole_whatever_the_chunks() {
        for chunk in 1..10 {
            let lines = all("one\n\ntwo two\nlast", 100, chunk).await;
            let texts: Vec<_> = lines.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["one", "", "two two", "last"], "chunks of {chunk}");
        }
    }

    #[tokio::test]
    async fn a_long_line_comes_in_parts_of_the_limit() {
        for chunk in 1..10 {
            let lines = all("abcdefg\nxyz\n", 3, chunk).await;
            let parts =
                [(LineRead::Part, "abc"), (LineRead::Part, "def"), (LineRead::Whole, "g"), (LineRead::Whole, "xyz")];
            assert_eq!(lines, parts.map(|(line, text)| (line, text.to_owned())), "chunks of {chunk}");
        }
    }
}
