//! Unified diff of two small texts, for a person to read and for `patch` to apply.

/// Lines of context around a change, as `diff -u` shows.
const CONTEXT_LINES: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Line {
    Same(usize, usize),
    Removed(usize, usize),
    Added(usize, usize),
}

/// The diff of one file; empty when nothing changed. Bytes that are no UTF-8 are shown as a replacement character.
pub fn unified(name: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    if old == new {
        return String::new();
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let script = script(&a, &b);
    let mut out = format!("--- {name}\n+++ {name}\n");
    let changed: Vec<usize> = (0..script.len()).filter(|i| !matches!(script[*i], Line::Same(..))).collect();
    let mut next = 0;
    while next < changed.len() {
        let first = next;
        while next + 1 < changed.len() && changed[next + 1] - changed[next] <= 2 * CONTEXT_LINES {
            next += 1;
        }
        let from = changed[first].saturating_sub(CONTEXT_LINES);
        let to = (changed[next] + 1 + CONTEXT_LINES).min(script.len());
        hunk(&mut out, &script[from..to], &a, &b);
        next += 1;
    }
    out
}

fn hunk(out: &mut String, lines: &[Line], a: &[&str], b: &[&str]) {
    let in_old = lines.iter().filter(|l| !matches!(l, Line::Added(..))).count();
    let in_new = lines.iter().filter(|l| !matches!(l, Line::Removed(..))).count();
    let (Line::Same(x, y) | Line::Removed(x, y) | Line::Added(x, y)) = lines[0];
    let start = |index: usize, count: usize| if count == 0 { index } else { index + 1 };
    *out += &format!("@@ -{},{in_old} +{},{in_new} @@\n", start(x, in_old), start(y, in_new));
    for line in lines {
        let (mark, text) = match line {
            Line::Same(x, _) => (' ', a[*x]),
            Line::Removed(x, _) => ('-', a[*x]),
            Line::Added(_, y) => ('+', b[*y]),
        };
        out.push(mark);
        out.push_str(text);
        if !text.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Longest common subsequence over the middle that differs. Quadratic there, which is fine: our own edits are few
/// lines.
fn script(a: &[&str], b: &[&str]) -> Vec<Line> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (rows, cols) = (a.len() - head - tail, b.len() - head - tail);
    let mut common = vec![vec![0u32; cols + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..cols).rev() {
            common[i][j] = if a[head + i] == b[head + j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut lines: Vec<Line> = (0..head).map(|i| Line::Same(i, i)).collect();
    let (mut i, mut j) = (0, 0);
    while i < rows || j < cols {
        let (x, y) = (head + i, head + j);
        if i < rows && j < cols && a[x] == b[y] {
            lines.push(Line::Same(x, y));
            (i, j) = (i + 1, j + 1);
        } else if i < rows && (j == cols || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line::Removed(x, y));
            i += 1;
        } else {
            lines.push(Line::Added(x, y));
            j += 1;
        }
    }
    lines.extend((0..tail).map(|n| Line::Same(head + rows + n, head + cols + n)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn reads_like_diff_u() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13";
        expect![[r#"
            --- f
            +++ f
            @@ -2,7 +2,7 @@
             2
             3
             4
            -5
            +five
             6
             7
             8
            @@ -10,3 +10,4 @@
             10
             11
             12
            +13
            \ No newline at end of file
        "#]]
        .assert_eq(&unified("f", old.as_bytes(), new.as_bytes()));
        assert_eq!(unified("f", b"a", b"a"), "");
        assert_eq!(unified("f", b"", b"a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    }
}
