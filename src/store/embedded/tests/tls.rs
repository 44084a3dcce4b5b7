//! Encrypted connections, against a server with a certificate of our own making. It stands here because only this
//! module can start a server; the rules are those of `store::address` and `store::tls`.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::runtime::{Handle, Runtime};

use super::super::ServerBinaries;
use super::super::account::RunAs;
use super::super::cluster::USER;
use super::super::home::Home;
use super::super::sys::{self, Shutdown};
use super::support::{TempDir, prepared};
use crate::store::{Address, Database, PoolLimits, StoreError, connect};

/// Runs openssl in the directory.
fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output();
    let output = output.expect("this test makes a certificate with openssl: install it");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `ca.crt`, `other.crt` of a stranger, and `server.crt` with its key, for the host `localhost` and signed by the first.
fn make_certificates(directory: &Path) {
    const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        openssl(
            directory,
            &format!(
                "req -x509 {NEW_KEY} -keyout {name}.key -out {name}.crt -subj /CN={name}.example -days 2"
            ),
        );
    }
    openssl(directory, &format!("req {NEW_KEY} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    openssl(
        directory,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile names",
    );
}

/// A server that listens on loopback; ended with the test.
struct TlsServer {
    child: Child,
    port: u16,
    directory: TempDir,
    _home: Home,
    _kept: tokio::net::TcpSocket,
}

impl TlsServer {
    fn start() -> Self {
        let programs = ServerBinaries::find(Path::new("/nonexistent")).unwrap();
        let directory = TempDir::new("tls");
        make_certificates(directory.path());
        let (home, run_as) = prepared(&programs, directory.path());
        give_key_to(run_as, &directory.path().join("server.key"));
        // Bound and not listened on: nobody else gets the port before Postgres takes it, which does so beside us.
        let kept = tokio::net::TcpSocket::new_v4().unwrap();
        kept.set_reuseaddr(true).unwrap();
        kept.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let port = kept.local_addr().unwrap().port();
        let mut command = run_as.command(&programs.program("postgres"), true);
        command.arg("-D").arg(&home.cluster).args(["-p", &port.to_string()]);
        for (name, file) in [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")] {
            command.arg("-c").arg(format!("{name}={}", directory.path().join(file).display()));
        }
        for setting in ["ssl=on", "listen_addresses=127.0.0.1", "unix_socket_directories="] {
            command.args(["-c", setting]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, port, directory, _home: home, _kept: kept }
    }

    fn address(&self, host: &str, options: &str) -> Address {
        let options = options.replace("DIR", &self.directory.path().display().to_string());
        format!("postgres://{USER}@{host}:{}/postgres?{options}", self.port).parse().unwrap()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        sys::ask_to_stop(self.child.id(), Shutdown::Immediate);
        let _ = self.child.wait();
    }
}

/// Postgres refuses a key that others could read or that is not its user's.
fn give_key_to(run_as: RunAs, key: &Path) {
    if let Some(account) = run_as.owner() {
        std::os::unix::fs::chown(key, Some(account.uid), Some(account.gid)).unwrap();
    }
}

/// Whether the connection is encrypted, or why there is none.
async fn encrypted(address: &Address) -> Result<bool, StoreError> {
    let client = connect(address).await?;
    let row = client.query_one("select ssl from pg_stat_ssl where pid = pg_backend_pid()", &[]).await?;
    Ok(row.get(0))
}

async fn wait_until_it_answers(server: &TlsServer) {
    let give_up = tokio::time::Instant::now() + std::time::Duration::from_secs(120);
    while connect(&server.address("127.0.0.1", "sslmode=disable")).await.is_err() {
        assert!(tokio::time::Instant::now() < give_up, "the server with TLS does not start");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// DB-1, DEC-29: what each mode accepts, over one connection and over the pool.
#[test]
fn every_mode_encrypts_and_checks_what_it_promises() {
    let server = TlsServer::start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        wait_until_it_answers(&server).await;
        for (host, options, is_encrypted) in [
            ("127.0.0.1", "sslmode=disable", false),
            ("127.0.0.1", "application_name=none", true),
            ("127.0.0.1", "sslmode=prefer", true),
            ("127.0.0.1", "sslmode=require", true),
            ("127.0.0.1", "sslmode=require&sslrootcert=DIR/ca.crt", true),
            ("127.0.0.1", "sslmode=verify-ca&sslrootcert=DIR/ca.crt", true),
            ("127.0.0.1", "sslmode=verify-ca&sslrootcert=DIR/server.crt", true),
            ("localhost", "sslmode=verify-full&sslrootcert=DIR/ca.crt", true),
            ("localhost", "sslmode=verify-full&sslrootcert=DIR/server.crt", true),
        ] {
            let found = encrypted(&server.address(host, options)).await;
            assert_eq!(found.unwrap(), is_encrypted, "{host} {options}");
        }
        for (host, options) in [
            ("127.0.0.1", "sslmode=require&sslrootcert=DIR/other.crt"),
            ("127.0.0.1", "sslmode=verify-ca&sslrootcert=DIR/other.crt"),
            ("localhost", "sslmode=verify-full&sslrootcert=DIR/other.crt"),
            ("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/ca.crt"),
            ("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/server.crt"),
        ] {
            let refused = encrypted(&server.address(host, options)).await.unwrap_err();
            assert!(refused.to_string().contains("sslrootcert"), "{host} {options}: {refused}");
        }
        let full = server.address("localhost", "sslmode=verify-full&sslrootcert=DIR/ca.crt");
        let pool = Database::new(full, Handle::current(), PoolLimits::default()).unwrap();
        pool.ping().await.unwrap();
        let stranger = server.address("localhost", "sslmode=verify-full&sslrootcert=DIR/other.crt");
        let pool = Database::new(stranger, Handle::current(), PoolLimits::default()).unwrap();
        let refused = pool.ping().await.unwrap_err().to_string();
        assert!(refused.ends_with("certificate is not trusted"), "without advice at run time: {refused}");
    });
}
