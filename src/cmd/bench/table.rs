//! Markdown tables that line up as plain text too.

/// Headers over names, which are aligned left; all else is numbers.
const NAMES: [&str; 4] = ["model", "backend", "test", "operation"];

/// Rows under their headers.
pub fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([headers[i].chars().count(), 3]).max().unwrap_or(3)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(i, (cell, width))| {
            if NAMES.contains(&headers[i]) {
                format!(" {cell:width$} |")
            } else {
                format!(" {cell:>width$} |")
            }
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rules: Vec<String> = (0..headers.len())
        .map(|i| {
            if NAMES.contains(&headers[i]) {
                "-".repeat(widths[i])
            } else {
                "-".repeat(widths[i] - 1) + ":"
            }
        })
        .collect();
    let mut text = line(headers) + &line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "1.00 ± 0.10"], ["long", "2"]].map(|row| row.map(str::to_owned).to_vec());
        let expect = "\
| test |         t/s |
| ---- | ----------: |
| a    | 1.00 ± 0.10 |
| long |           2 |
";
        assert_eq!(table(&["test", "t/s"], &rows), expect);
    }
}
