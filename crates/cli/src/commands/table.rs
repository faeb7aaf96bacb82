//! Columns that line up.

use crate::safe;

/// Lays out rows so that their columns line up; what is in them is made safe to show.
pub(crate) fn lay_out(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| safe::line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_are_safe() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        insta::assert_snapshot!(lay_out(&[row(["a", "é\x1b", ""]), row(["long", "", "x"])]), @r"
        a     é\u{1b}
        long           x
        ");
    }
}
