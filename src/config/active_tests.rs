use super::*;
use crate::config::TenantProblem;
use crate::config::demo;
use crate::config::test_dir::TestDir;

fn running() -> (TestDir, ActiveTenant) {
    let dir = TestDir::new();
    dir.write("prompt.md", demo::PROMPT);
    dir.write("catalog.json", demo::CATALOG);
    dir.write("rules.json", demo::RULES);
    dir.write("tools.json", demo::TOOLS);
    let (active, _) = ActiveTenant::load(dir.path(), ReservedNames::default()).unwrap();
    (dir, active)
}

fn price(tenant: &Tenant) -> u64 {
    tenant.catalog.offerings[0].price.amount.get()
}

/// ACC-RLD-1, ACC-RLD-4, RLD-7, RLD-8, GAP-CFG-6: the next turn sees the new files, a running one keeps its snapshot.
#[test]
fn a_reload_reaches_the_next_turn_and_not_the_running_one() {
    let (dir, active) = running();
    let of_running_turn = active.current();
    dir.write("catalog.json", demo::CATALOG.replace("45000", "47000"));
    active.reload().unwrap();
    assert_eq!(price(&of_running_turn), 45_000);
    assert_eq!(price(&active.current()), 47_000);
    assert_ne!(of_running_turn.hashes, active.current().hashes);
}

/// ACC-RLD-2, ACC-RLD-3, LOAD-1, RLD-2, RLD-3, RLD-5: all or nothing, and repaired files load.
#[test]
fn a_failed_reload_keeps_every_part_and_the_next_one_can_succeed() {
    let (dir, active) = running();
    let before = active.current();
    dir.write("catalog.json", "{ broken");
    dir.write("rules.json", demo::RULES.replace("\"historyDays\": 30", "\"historyDays\": 7"));
    let error = active.reload().unwrap_err();
    assert!(matches!(error.problem, TenantProblem::NotJson { .. }), "{error}");
    assert!(Arc::ptr_eq(&before, &active.current()));
    dir.write("catalog.json", demo::CATALOG);
    active.reload().unwrap();
    assert_eq!(active.current().rules.history_days, 7);
}

/// ACC-RLD-5, RLD-5: a deleted tools file is a success, a deleted required file is not.
#[test]
fn deleted_files_follow_the_rules_of_boot() {
    let (dir, active) = running();
    std::fs::remove_file(dir.path().join("tools.json")).unwrap();
    active.reload().unwrap();
    assert_eq!(active.current().tools, None);
    for file in ["prompt.md", "catalog.json", "rules.json"] {
        let content = dir.read(file);
        std::fs::remove_file(dir.path().join(file)).unwrap();
        assert!(active.reload().unwrap_err().to_string().contains(file));
        dir.write(file, content);
    }
    active.reload().unwrap();
}

/// RLD-6: a collision that an edit brings in is refused like any other fault.
#[test]
fn a_reload_checks_across_files_too() {
    let (dir, active) = running();
    dir.write("catalog.json", demo::CATALOG.replace("\"id\": \"advanced\"", "\"id\": \"expert\""));
    let message = active.reload().unwrap_err().to_string();
    assert!(message.contains("course") && message.contains("expert"), "{message}");
}
