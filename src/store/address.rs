//! How to reach the database: `DATABASE_URL` with its TLS options, as libpq reads them (DB-1, DEC-29).

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::StoreError;
use super::tls::{self, Checked, Roots};

/// Drives a connection until it ends; spawn it where sockets may live.
pub(super) type Driver = BoxFuture<'static, ()>;

/// A network that drops packets is noticed within about this time, where the kernel would take a quarter of an hour: by
/// data that nobody acknowledges, and on a connection at rest by probes.
const SILENT_NETWORK: Duration = Duration::from_secs(10);
/// Rest before the first probe, and between two.
const PROBES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));
/// Probes without an answer that end the connection.
const MOST_PROBES: u32 = 3;

/// A database address with everything its connections need. It holds the password: never print it.
#[derive(Clone)]
pub struct Address {
    config: Config,
    /// `None`: connections are not encrypted.
    tls: Option<MakeRustlsConnect>,
    /// A transaction pooler stands before the server: nothing may be kept in a session (DEC-29).
    pooled: bool,
}

/// Why `DATABASE_URL` cannot be used. No variant repeats the address: it can hold a password (ENV-26).
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Not in the form of Postgres: write `postgres://user:password@host:5432/database`.
    #[error("DATABASE_URL is not a Postgres connection string: {0}")]
    Malformed(&'static str),
    /// An unknown `sslmode`: choose one of those named.
    #[error("DATABASE_URL: sslmode must be one of disable, prefer, require, verify-ca, verify-full")]
    SslMode,
    /// The file of `sslrootcert` cannot be used: give it a readable PEM file with certificates.
    #[error("DATABASE_URL: sslrootcert {}: {reason}", path.display())]
    RootCertificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The machine has no certificates to believe: install `ca-certificates` or set `sslrootcert`.
    #[error("DATABASE_URL: this machine has no CA certificates: install ca-certificates or set sslrootcert")]
    NoSystemRoots,
    /// TLS could not be set up at all; a fault of the build.
    #[error("DATABASE_URL: TLS cannot be set up: {0}")]
    Tls(String),
}

/// The TLS options of an address, taken out of it because the driver knows fewer.
#[derive(Default)]
struct TlsOptions {
    mode: Option<String>,
    root: Option<String>,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads an address. The file of `sslrootcert` is read now.
    ///
    /// `prefer` (the default) and `require` accept any certificate; `require` with `sslrootcert` checks it as
    /// `verify-ca` does, and `verify-full` checks the host's name too. Without `sslrootcert`, or with `system`, the
    /// certificates of the machine are believed. A Unix socket is never encrypted. All as in libpq.
    fn from_str(url: &str) -> Result<Self, AddressError> {
        let (plain, options) = take_tls_options(url);
        let mut config: Config = plain.parse().map_err(|error| AddressError::Malformed(misfit(&error)))?;
        watch_network(&mut config, &plain);
        let mode = options.mode.as_deref().unwrap_or("prefer");
        let checked = match mode {
            "disable" | "prefer" => Checked::Nothing,
            "require" if options.root.is_none() => Checked::Nothing,
            "require" | "verify-ca" => Checked::Authority(roots(options.root)?),
            "verify-full" => Checked::AuthorityAndName(roots(options.root)?),
            _ => return Err(AddressError::SslMode),
        };
        let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        if mode == "disable" || is_local {
            config.ssl_mode(SslMode::Disable);
            return Ok(Self { config, tls: None, pooled: false });
        }
        config.ssl_mode(if mode == "prefer" { SslMode::Prefer } else { SslMode::Require });
        let tls = tls::connector(checked).map_err(|error| AddressError::Tls(error.to_string()))?;
        Ok(Self { config, tls: Some(tls), pooled: false })
    }
}

impl From<Config> for Address {
    /// A server of our own on a Unix socket.
    fn from(config: Config) -> Self {
        Self { config, tls: None, pooled: false }
    }
}

impl Address {
    /// The password of an address, also of one that cannot be used; for the log, which must never show it.
    #[must_use]
    pub fn password_in(url: &str) -> Option<String> {
        let config: Config = take_tls_options(url).0.parse().ok()?;
        String::from_utf8(config.get_password()?.to_vec()).ok()
    }

    /// The same address, known to go through a transaction pooler.
    pub(super) fn behind_pooler(self) -> Self {
        Self { pooled: true, ..self }
    }

    /// Whether it is known to go through a transaction pooler.
    #[must_use]
    pub const fn is_behind_pooler(&self) -> bool {
        self.pooled
    }

    /// The driver's part.
    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a connection. The driver must be spawned before the client is used.
    pub(super) async fn open(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        match &self.tls {
            None => open_with(&self.config, NoTls, None).await,
            Some(tls) => open_with(&self.config, tls.clone(), None).await,
        }
    }

    /// As [`Self::open`]; notifications go to `heard`, which is closed with the connection.
    pub(super) async fn open_listening(
        &self,
        heard: mpsc::UnboundedSender<Notification>,
    ) -> Result<(Client, Driver), tokio_postgres::Error> {
        match &self.tls {
            None => open_with(&self.config, NoTls, Some(heard)).await,
            Some(tls) => open_with(&self.config, tls.clone(), Some(heard)).await,
        }
    }
}

async fn open_with<T>(
    config: &Config,
    tls: T,
    heard: Option<mpsc::UnboundedSender<Notification>>,
) -> Result<(Client, Driver), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket> + Send,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, mut connection) = config.connect(tls).await?;
    // The error of a lost connection reaches the statements that were under way on it.
    let driver = Box::pin(async move {
        let Some(heard) = heard else {
            let _ = connection.await;
            return;
        };
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message
                && heard.send(notice).is_err()
            {
                return;
            }
        }
    });
    Ok((client, driver))
}

/// What a failed connection tells the operator, without the driver's words: those can name the host and the user.
pub(super) fn unreachable_because(error: &tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable { reason: refused_because(error).unwrap_or_else(|| broken_because(error)) }
}

/// The server answered, and refused.
fn refused_because(error: &tokio_postgres::Error) -> Option<&'static str> {
    let code = error.code()?;
    Some(match code.code() {
        "28P01" => {
            "the server refused the password: correct user and password (write special characters as %XX)"
        }
        "28000" => {
            "the server's rules refuse this user from here, or an unencrypted connection: check the user, pg_hba.conf \
             and sslmode"
        }
        "3D000" => "the server has no database of that name: create it (createdb) or correct the name",
        "42501" => "the user may not connect to that database: grant it CONNECT, or use another user",
        "53300" => "the server has no connection left: raise max_connections, or run fewer processes",
        "57P03" => "the server is starting or stopping: try again in a moment",
        _ => "the server refused the login: its own log says why",
    })
}

/// No answer of the server. The driver names the step in the first words of its message and nowhere else.
fn broken_because(error: &tokio_postgres::Error) -> &'static str {
    let message = error.to_string();
    if message.starts_with("error performing TLS handshake") {
        return match cause_of(error).contains("does not support TLS") {
            true => "the server offers no TLS: turn it on there, or use sslmode=prefer or disable",
            false => "the server's certificate is not trusted: check sslmode and sslrootcert",
        };
    }
    if message.starts_with("invalid configuration") {
        return "the server asks for a password and the address has none: add it";
    }
    if message.starts_with("authentication error") {
        return "the server asks for a way to log in that is not supported: allow scram-sha-256 or md5";
    }
    match io_kind(error) {
        Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
            "nothing listens at that host and port: start Postgres there or correct them (`agent dev` brings a \
             Postgres of its own)"
        }
        Some(ErrorKind::PermissionDenied) => "this user of the system may not open the server's socket",
        _ => "the server cannot be reached: check the host's name, the port, and the network between",
    }
}

fn cause_of(error: &tokio_postgres::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

fn io_kind(error: &tokio_postgres::Error) -> Option<ErrorKind> {
    error.source()?.downcast_ref::<io::Error>().map(io::Error::kind)
}

/// Splits `sslmode` and `sslrootcert` off the query part of an address; everything else stays as written.
fn take_tls_options(url: &str) -> (String, TlsOptions) {
    let mut options = TlsOptions::default();
    let Some((head, query)) = url.split_once('?') else { return (url.to_owned(), options) };
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", value)) => options.mode = Some(decoded(value)),
            Some(("sslrootcert", value)) => options.root = Some(decoded(value)),
            _ => kept.push(pair),
        }
    }
    let plain = if kept.is_empty() { head.to_owned() } else { format!("{head}?{}", kept.join("&")) };
    (plain, options)
}

/// Which part the driver does not take. Its own words stay behind, for they can repeat a part of the password (ENV-26); the
/// name of an option whose value is wrong is one of its own.
fn misfit(error: &tokio_postgres::Error) -> &'static str {
    const VALUES: [(&str, &str); 4] = [
        (
            "`port`",
            "the port must be a number from 1 to 65535 (in user and password write special characters as %XX)",
        ),
        ("`host`", "it names no host"),
        ("_timeout`", "a time-out behind the `?` must be a whole number of seconds"),
        ("`keepalives", "an option of keepalives behind the `?` must be a whole number"),
    ];
    let cause = cause_of(error);
    if cause.starts_with("unknown option") {
        return "an option behind the `?` is unknown (in user and password write special characters as %XX)";
    }
    let value =
        VALUES.iter().find(|(name, _)| cause.starts_with("invalid value for option") && cause.contains(name));
    value.map_or("check user, host and options", |(_, words)| words)
}

/// Percent signs are escapes, a plus is a plus.
fn decoded(value: &str) -> String {
    let pair = format!("v={}", value.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes())
        .map(|(_, value)| value.into_owned())
        .next()
        .unwrap_or_default()
}

/// What the address says itself about keepalives and `tcp_user_timeout` stays.
fn watch_network(config: &mut Config, plain: &str) {
    if plain.contains("keepalives") || plain.contains("tcp_user_timeout") {
        return;
    }
    config
        .keepalives_idle(PROBES.0)
        .keepalives_interval(PROBES.1)
        .keepalives_retries(MOST_PROBES)
        .tcp_user_timeout(SILENT_NETWORK);
}

fn roots(file: Option<String>) -> Result<Roots, AddressError> {
    match file.as_deref() {
        None | Some("system") => Roots::of_the_machine().ok_or(AddressError::NoSystemRoots),
        Some(path) => {
            let path = PathBuf::from(path);
            Roots::from_file(&path).map_err(|reason| AddressError::RootCertificates { path, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> AddressError {
        url.parse::<Address>().err().unwrap_or_else(|| panic!("{url} was accepted"))
    }

    /// DB-1: TLS options are read wherever they stand, and the others reach the driver.
    #[test]
    fn tls_options_are_taken_out_and_the_rest_stays() {
        let (plain, options) = take_tls_options(
            "postgres://u:p@h/db?connect_timeout=3&sslmode=verify-ca&sslrootcert=%2Fa+b&options=x",
        );
        assert_eq!(plain, "postgres://u:p@h/db?connect_timeout=3&options=x");
        assert_eq!((options.mode.as_deref(), options.root.as_deref()), (Some("verify-ca"), Some("/a+b")));
        assert_eq!(take_tls_options("postgres://h/db?sslmode=require").0, "postgres://h/db");
        let address: Address = "postgres://u@h/db?sslmode=require&connect_timeout=3".parse().unwrap();
        assert_eq!(address.config().get_connect_timeout(), Some(&std::time::Duration::from_secs(3)));
    }

    /// ENV-1, ENV-26: the part that does not fit is named, and nothing of the address repeated.
    #[test]
    fn the_part_that_does_not_fit_is_named() {
        for (url, words) in [
            ("postgres://planted:planted@h:99999/db", "the port must be"),
            ("postgres://planted:planted@h:port/db", "the port must be"),
            ("postgres://u@h/db?planted=planted", "an option behind the `?` is unknown"),
            ("postgres://u@h/db?connect_timeout=planted", "a time-out behind the `?`"),
            ("postgres://u@h/db?keepalives_idle=planted", "keepalives behind the `?`"),
            ("postgres://u@h/db?target_session_attrs=planted", "check user, host and options"),
        ] {
            let said = refused(url).to_string();
            assert!(said.contains(words) && !said.contains("planted"), "{url}: {said}");
        }
    }

    /// ARC-42: a connection whose packets are dropped is noticed, unless the operator has said when.
    #[test]
    fn a_silent_network_is_noticed() {
        let of = |options: &str| {
            let address: Address = format!("postgres://u@db.example/db{options}").parse().unwrap();
            (address.config.get_keepalives_idle(), address.config.get_tcp_user_timeout().copied())
        };
        assert_eq!(of(""), (PROBES.0, Some(SILENT_NETWORK)));
        assert_eq!(of("?sslmode=disable&keepalives_idle=77"), (Duration::from_secs(77), None));
        assert_eq!(of("?tcp_user_timeout=5").1, Some(Duration::from_secs(5)));
    }

    /// DB-1, DEC-29: which modes encrypt, and which insist.
    #[test]
    fn the_mode_decides_whether_connections_are_encrypted() {
        let of = |options: &str| {
            let address: Address = format!("postgres://u@db.example/db{options}").parse().unwrap();
            (address.tls.is_some(), address.config().get_ssl_mode())
        };
        assert_eq!(of(""), (true, SslMode::Prefer));
        assert_eq!(of("?sslmode=prefer"), (true, SslMode::Prefer));
        assert_eq!(of("?sslmode=disable"), (false, SslMode::Disable));
        assert_eq!(of("?sslmode=require"), (true, SslMode::Require));
        let socket: Address = "postgres://u@/db?host=/run/postgresql&sslmode=require".parse().unwrap();
        assert!(socket.tls.is_none(), "a Unix socket is never encrypted");
    }

    /// ENV-26: the password is known to the log whatever the TLS options are.
    #[test]
    fn the_password_is_found_beside_any_option() {
        let found = Address::password_in("postgres://u:hid%20den@h/db?sslmode=verify-full&sslrootcert=/none");
        assert_eq!(found.as_deref(), Some("hid den"));
        assert_eq!(Address::password_in("postgres://u@h/db"), None);
    }

    /// ENV-26: a refusal says what to do and repeats nothing of the address.
    #[test]
    fn refusals_name_the_option_and_not_the_password() {
        for (url, word) in [
            ("postgres://u:hidden@h/db?sslmode=allowed", "sslmode must be one of"),
            ("postgres://u:hidden@h:port/db", "not a Postgres connection string"),
            ("mysql://u:hidden@h/db", "not a Postgres connection string"),
            ("postgres://u:hidden@h/db?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "/nowhere/ca.pem"),
            ("postgres://u:hidden@h/db?sslmode=require&sslrootcert=/dev/null", "holds no certificate"),
        ] {
            let message = refused(url).to_string();
            assert!(message.contains(word) && message.contains("DATABASE_URL"), "{message}");
            assert!(!message.contains("hidden"), "{message}");
        }
    }
}
