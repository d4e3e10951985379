//! What a command shows: tables as kubectl has them, JSON, YAML.

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// The form of a command's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON, for programs.
    Json,
    /// YAML.
    Yaml,
}

/// Writes `value` as JSON or YAML.
pub(crate) fn serialised<T: Serialize>(value: &T, format: Format) -> Result<String, Failure> {
    match format {
        Format::Yaml => serde_yaml::to_string(value).map_err(Failure::failed),
        Format::Table | Format::Json => {
            serde_json::to_string_pretty(value).map(|s| s + "\n").map_err(Failure::failed)
        }
    }
}

/// Writes to standard output. A reader that has gone ends the program quietly; any other failure is one.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::failed(format!("cannot write to standard output: {e}"))),
    }
}

/// Text that others wrote, safe to show: control characters could clear a screen or fake a row.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Columns, each as wide as its widest cell and two spaces, without lines, as kubectl prints them.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| harmless(cell)).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|c| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0))
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}   "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_clean() {
        let mut table = Table::new(&["NAME", "HOLDER"]);
        table.row(vec!["a-long-name".into(), "x".into()]);
        table.row(vec!["b\x1b".into(), String::new()]);
        assert_eq!(table.to_string(), "NAME          HOLDER\na-long-name   x\nb\u{fffd}\n");
    }
}
