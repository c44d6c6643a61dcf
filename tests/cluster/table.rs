//! A table as kubectl prints it.

use super::demo::Outcome;

/// Lines under a heading, cut where the names of its columns begin.
pub struct Table {
    columns: Vec<(String, usize)>,
    rows: Vec<String>,
}

pub struct Row<'a> {
    table: &'a Table,
    line: &'a str,
}

impl Table {
    /// The first table in a text whose heading has this column.
    pub fn find(text: &str, column: &str) -> Option<Self> {
        let mut lines = text
            .lines()
            .skip_while(|line| !(line.starts_with("NAME ") && line.contains(column)));
        let heading = lines.next()?;
        // Names of columns may hold one blank; between columns there are three.
        let mut columns = Vec::new();
        let mut at = 0;
        for part in heading.split("   ") {
            let name = part.trim();
            if !name.is_empty() {
                columns.push((name.to_owned(), at + part.len() - part.trim_start().len()));
            }
            at += part.len() + 3;
        }
        let rows = lines
            .take_while(|line| !line.trim().is_empty())
            .map(str::to_owned)
            .collect();
        Some(Self { columns, rows })
    }

    pub fn row(&self, name: &str) -> Outcome<Row<'_>> {
        let line = self.rows.iter().find(|row| row.split_whitespace().next() == Some(name));
        let line = line.ok_or_else(|| format!("no row {name} in:\n{}", self.rows.join("\n")))?;
        Ok(Row { table: self, line })
    }
}

impl Row<'_> {
    pub fn get(&self, column: &str) -> Outcome<&str> {
        let columns = &self.table.columns;
        let index = columns
            .iter()
            .position(|(name, _)| name == column)
            .ok_or_else(|| format!("no column {column}"))?;
        let end = columns.get(index + 1).map_or(self.line.len(), |(_, start)| *start);
        Ok(self
            .line
            .get(columns[index].1..end.min(self.line.len()))
            .unwrap_or_default()
            .trim())
    }
}
