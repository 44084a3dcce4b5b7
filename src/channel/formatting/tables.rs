//! Tables become lines: cells joined by ` | `, the line of dashes dropped (DEC-35).

use std::ops::Range;

use super::edits::Edits;

/// What stands between two cells.
const JOINT: &str = " | ";

/// One line of a table, its cells in order.
#[derive(Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Range<usize>>,
}

impl Row {
    /// Replaces everything around and between the cells. What the parser leaves out (more cells than the head
    /// has) stays in the line.
    pub(super) fn edit(self, source: &str, row: Range<usize>, edits: &mut Edits) {
        let end = row.start + source.get(row.clone()).unwrap_or_default().trim_end().len();
        let mut cells: Vec<Range<usize>> = self
            .cells
            .into_iter()
            .filter(|cell| cell.start < end)
            .map(|cell| trimmed(source, cell.start..cell.end.min(end)))
            .collect();
        let Some(last) = cells.last().map(|cell| cell.end) else { return };
        let surplus = surplus_cells(source.get(last..end).unwrap_or_default());
        if surplus.is_empty() {
            while cells.len() > 1 && cells.last().is_some_and(Range::is_empty) {
                cells.pop();
            }
        }
        let mut done = row.start;
        for (index, cell) in cells.iter().enumerate() {
            edits.replace(done..cell.start, if index == 0 { String::new() } else { JOINT.to_owned() });
            done = cell.end;
        }
        edits.replace(done..end, surplus);
    }
}

/// The head's end and whether the line of dashes is gone.
#[derive(Default)]
pub(super) struct Table {
    head_end: Option<usize>,
    dashes_dropped: bool,
}

impl Table {
    /// The first row is the head; before the second one stands the line of dashes.
    pub(super) fn take_row(&mut self, source: &str, row: Range<usize>, edits: &mut Edits) {
        match self.head_end {
            None => self.head_end = Some(row.start + source.get(row).unwrap_or_default().trim_end().len()),
            Some(head_end) if !self.dashes_dropped => {
                let between = source.get(head_end..row.start).unwrap_or_default();
                let line_start = between.rfind('\n').unwrap_or(between.len());
                edits.remove(head_end..head_end + line_start);
                self.dashes_dropped = true;
            }
            Some(_) => {}
        }
    }

    /// A table without rows still has its line of dashes.
    pub(super) fn finish(self, source: &str, table: Range<usize>, edits: &mut Edits) {
        if let Some(head_end) = self.head_end.filter(|_| !self.dashes_dropped) {
            let end = table.start + source.get(table).unwrap_or_default().trim_end().len();
            edits.remove(head_end..end);
        }
    }
}

fn trimmed(source: &str, cell: Range<usize>) -> Range<usize> {
    let text = source.get(cell.clone()).unwrap_or_default();
    let start = cell.start + (text.len() - text.trim_start().len());
    start..start + text.trim().len()
}

fn surplus_cells(tail: &str) -> String {
    tail.split('|')
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .map(|cell| format!("{JOINT}{cell}"))
        .collect()
}
