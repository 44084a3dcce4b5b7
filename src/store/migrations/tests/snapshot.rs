//! A schema as comparable text.

use std::collections::BTreeSet;

use tokio_postgres::Client;

/// Columns with type, nullability and default; indexes; constraints (`not null` stands with its column, also on servers
/// that name it as a constraint). The order of columns does not count.
pub(super) async fn of(client: &Client) -> BTreeSet<String> {
    let rows = client
        .query(
            "select format('column %s.%s %s %s default %s', class.relname, attribute.attname,
                           format_type(attribute.atttypid, attribute.atttypmod),
                           case when attribute.attnotnull then 'not null' else 'null' end,
                           coalesce(pg_get_expr(defaults.adbin, defaults.adrelid), 'none'))
             from pg_class as class
             join pg_attribute as attribute on attribute.attrelid = class.oid
             left join pg_attrdef as defaults
                 on defaults.adrelid = class.oid and defaults.adnum = attribute.attnum
             where class.relnamespace = current_schema()::regnamespace and class.relkind = 'r'
               and attribute.attnum > 0 and not attribute.attisdropped
             union all
             select indexdef from pg_indexes where schemaname = current_schema()
             union all
             select format('constraint %s on %s %s', conname, conrelid::regclass, pg_get_constraintdef(oid))
             from pg_constraint where connamespace = current_schema()::regnamespace and contype <> 'n'",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Without what is ours alone: the part that the reference knows.
pub(super) fn shared(all: &BTreeSet<String>) -> BTreeSet<String> {
    let ours = |line: &&String| {
        [" rs_", ".rs_", " turns_conversation_seq_idx"].iter().any(|sign| line.contains(sign))
    };
    all.iter().filter(|line| !ours(line)).cloned().collect()
}

/// Fails with the lines that only one of the two has.
#[track_caller]
pub(super) fn assert_same(actual: &BTreeSet<String>, expected: &BTreeSet<String>, what: &str) {
    let surplus: Vec<_> = actual.difference(expected).collect();
    let missing: Vec<_> = expected.difference(actual).collect();
    assert!(surplus.is_empty() && missing.is_empty(), "{what}: surplus {surplus:#?}, missing {missing:#?}");
}
