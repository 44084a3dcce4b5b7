//! What a persona puts between quotation marks is there to be said, over several lines as well.

/// Opening and closing mark.
const PAIRS: [(char, char); 10] = [
    ('"', '"'),
    ('\'', '\''),
    ('“', '”'),
    ('‘', '’'),
    ('„', '“'),
    ('‚', '‘'),
    ('«', '»'),
    ('»', '«'),
    ('「', '」'),
    ('『', '』'),
];

/// Every quotation, whatever its marks; one that is never closed is none.
pub fn all(text: &str) -> Vec<&str> {
    PAIRS.iter().flat_map(|(open, close)| between(text, *open, *close)).collect()
}

fn between(text: &str, open: char, close: char) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(inside) = next(text, from, |at| opens(text, at, open)).map(|at| at + open.len_utf8()) {
        let Some(end) = next(text, inside, |at| closes(text, at, close)) else { break };
        found.extend(text.get(inside..end));
        from = end + close.len_utf8();
    }
    found
}

fn next(text: &str, from: usize, is_it: impl Fn(usize) -> bool) -> Option<usize> {
    text.get(from..)?.char_indices().map(|(at, _)| from + at).find(|at| is_it(*at))
}

fn opens(text: &str, at: usize, mark: char) -> bool {
    let (before, rest) = text.split_at_checked(at).unwrap_or_default();
    rest.starts_with(mark) && !(is_apostrophe(mark) && before.ends_with(char::is_alphanumeric))
}

fn closes(text: &str, at: usize, mark: char) -> bool {
    let behind = text.get(at..).and_then(|rest| rest.strip_prefix(mark));
    behind.is_some_and(|rest| !(is_apostrophe(mark) && rest.starts_with(char::is_alphanumeric)))
}

/// Such a mark between two letters belongs to a word.
const fn is_apostrophe(mark: char) -> bool {
    matches!(mark, '\'' | '’' | '‘')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 01 section 17: all pairs, over lines; an apostrophe ends and begins nothing.
    #[test]
    fn quotations_of_every_kind_are_found() {
        let cases: [(&str, &[&str]); 9] = [
            ("Say \"a b\" or \"c\".", &["a b", "c"]),
            ("Say 'we don't teach here' then.", &["we don't teach here"]),
            ("Say ‘we don’t’.", &["we don’t"]),
            ("Sag „so ist es“.", &["so ist es"]),
            ("Di «aquí\nqué tal».", &["aquí\nqué tal"]),
            ("「こんにちは」と『はい』", &["こんにちは", "はい"]),
            ("“One\n\ntwo”", &["One\n\ntwo"]),
            ("It's the masters' own: don't.", &[]),
            ("A board of 5\" is narrow.", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(all(text), expected, "{text}");
        }
    }
}
