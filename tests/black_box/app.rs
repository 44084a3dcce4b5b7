//! One service under test: its database, its tenant files, its process.
//!
//! Longer than other files: everything that a test asks of the one service is found here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use manychat_agent::store::embedded::testing::{TestDatabase, TestServer};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_postgres::Client;

pub const SECRET: &str = "black-box-secret-of-some-length";
pub const CONTACT: &str = "70010001";
pub const ADMIN: &str = "black-box-admin-token";
const BINARY: &str = env!("CARGO_BIN_EXE_agent");
/// How long to wait for what must come. Generous: a busy machine must not decide a test.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// `RACE_DEADLINE_MS` of a test whose deadline is to pass: longer than a busy machine takes to open a turn, or the contact
/// reads the handoff copy.
pub const LOST: &str = "2500";
/// `MODEL_ABORT_MS` beside [`LOST`], of a test that waits for the end of the slow mock's call.
pub const ABORTED: &str = "5000";
/// `PROCESS_BEAT_MS` and `PROCESS_DEAD_MS` of a test that waits for a death: a busy machine holds a living process up for
/// less.
pub const BEAT: &str = "300";
pub const DEAD: &str = "4000";
/// The same as time.
pub const DEAD_AFTER: Duration = Duration::from_secs(4);

/// What a test wants to be different.
#[derive(Default)]
pub struct Setup {
    pub env: Vec<(&'static str, String)>,
    pub rules: Option<fn(&mut Value)>,
    /// With the demo tenant's tools, changed by this.
    pub tools: Option<fn(&mut Value)>,
    pub database: Option<TestDatabase>,
    /// Another way to the database than straight, for example through a proxy.
    pub database_url: Option<String>,
    /// Another command than `serve`.
    pub command: Option<&'static [&'static str]>,
    /// Most open files of the process, its hard limit.
    pub open_files: Option<u64>,
}

impl Setup {
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub fn rules(mut self, change: fn(&mut Value)) -> Self {
        self.rules = Some(change);
        self
    }

    pub fn tools(mut self, change: fn(&mut Value)) -> Self {
        self.tools = Some(change);
        self
    }

    pub fn command(mut self, words: &'static [&'static str]) -> Self {
        self.command = Some(words);
        self
    }

    pub async fn start(self) -> TestApp {
        let mut app = self.prepare().await;
        app.launch().await;
        app
    }

    /// Everything but the process.
    pub async fn prepare(self) -> TestApp {
        let database = Arc::new(self.database.unwrap_or_else(|| TestServer::database().unwrap()));
        let folder = Folder::new();
        write_tenant(&folder.path.join("config"), self.rules);
        if let Some(change) = self.tools {
            write_tools(&folder.path.join("config"), change);
        }
        let url = self.database_url.unwrap_or_else(|| database.url().to_owned());
        let kept_port = Port::keep();
        let port = kept_port.number;
        let mut env = environment(port, &url, &folder.path);
        env.extend(self.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let client = database.connect().await.unwrap();
        TestApp {
            port,
            kept_ports: vec![kept_port],
            env,
            folder,
            database,
            client,
            process: None,
            runs: 0,
            arguments: self.command.unwrap_or(&["serve"]).to_vec(),
            open_files: self.open_files,
        }
    }
}

fn limit_open_files(limit: u64) -> std::io::Result<()> {
    let wanted = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the pointer is to a value of ours that lives through the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A temporary folder that is removed at the end.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("agent-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Self { path },
                // A killed run of the same process id has left it: what lies in it is not ours.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A process that is on its way out may write something meanwhile.
        for _ in 0..50 {
            match fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                _ => return,
            }
        }
    }
}

/// A port that nobody listens on and that stays ours: bound, so that neither another test nor an outgoing connection gets
/// it, and not listened on, so that the service can take it, as often as it is started.
pub struct Port {
    pub number: u16,
    _bound: TcpSocket,
}

impl Port {
    pub fn keep() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        // As the service does: the system lets two such sockets share a port while neither listens.
        bound.set_reuseaddr(true).unwrap();
        bound.bind(([0, 0, 0, 0], 0).into()).unwrap();
        Self { number: bound.local_addr().unwrap().port(), _bound: bound }
    }
}

/// The number of such a port, kept until the end of the run.
pub fn free_port() -> u16 {
    static KEPT: Mutex<Vec<Port>> = Mutex::new(Vec::new());
    let port = Port::keep();
    let number = port.number;
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(port);
    number
}

pub fn environment(port: u16, database_url: &str, folder: &Path) -> BTreeMap<String, String> {
    let pairs = [
        ("PATH", std::env::var("PATH").unwrap_or_default()),
        ("NODE_ENV", "test".to_owned()),
        ("PORT", port.to_string()),
        ("TENANT_ID", "test".to_owned()),
        ("DATABASE_URL", database_url.to_owned()),
        ("CONFIG_DIR", folder.join("config").display().to_string()),
        ("AGENT_MODEL", "mock:demo".to_owned()),
        // The lag of a busy machine is no overload here (limits.rs).
        ("LAG_ALLOWED_MS", "20000".to_owned()),
        // Far away: a test whose deadline is to pass says so.
        ("RACE_DEADLINE_MS", "20000".to_owned()),
        ("MODEL_ABORT_MS", "30000".to_owned()),
        ("PUBLIC_BASE_URL", "https://agent.test.example".to_owned()),
        ("MANYCHAT_SHARED_SECRET", SECRET.to_owned()),
        ("CONTACT_TOKENS_ENFORCED", "false".to_owned()),
        ("ADMIN_TOKEN", ADMIN.to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The demo tenant, with changed rules where a test wants some.
pub fn write_tenant(folder: &Path, change: Option<fn(&mut Value)>) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    fs::create_dir_all(folder).unwrap();
    for name in ["prompt.md", "catalog.json", "rules.json"] {
        fs::copy(examples.join(format!("{name}.example")), folder.join(name)).unwrap();
    }
    if let Some(change) = change {
        let path = folder.join("rules.json");
        let mut rules: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut rules);
        fs::write(path, rules.to_string()).unwrap();
    }
}

/// The demo tenant's tools, with a change.
pub fn write_tools(folder: &Path, change: fn(&mut Value)) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools.json.example");
    let mut tools: Value = serde_json::from_str(&fs::read_to_string(example).unwrap()).unwrap();
    change(&mut tools);
    fs::write(folder.join("tools.json"), tools.to_string()).unwrap();
}

/// A database that nobody reaches.
pub const NOWHERE: &str = "postgres://app@127.0.0.1:1/none";

/// Waits until there is time left in this hour: the counts of an hour and of a day begin anew at its end.
pub async fn time_in_this_hour() {
    const NEEDED: u64 = 90;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let left = 3600 - since_1970 % 3600;
    if left < NEEDED {
        tokio::time::sleep(Duration::from_secs(left + 1)).await;
    }
}

/// Waits until this is so.
pub async fn eventually(what: &str, mut wanted: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !wanted() {
        assert!(Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A folder with the demo tenant, and an environment for commands in it with this database.
pub fn tenant_folder(
    database_url: &str,
    change: Option<fn(&mut Value)>,
) -> (Folder, BTreeMap<String, String>) {
    let folder = Folder::new();
    write_tenant(&folder.path.join("config"), change);
    let env = environment(free_port(), database_url, &folder.path);
    (folder, env)
}

/// The answer to one request.
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: String,
    pub elapsed: Duration,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The texts of a Dynamic Block.
    pub fn texts(&self) -> Vec<String> {
        let block = self.json();
        let messages =
            block.pointer("/content/messages").and_then(Value::as_array).cloned().unwrap_or_default();
        messages.iter().filter_map(|message| message["text"].as_str().map(str::to_owned)).collect()
    }
}

pub struct TestApp {
    pub port: u16,
    /// Kept for its processes.
    kept_ports: Vec<Port>,
    pub env: BTreeMap<String, String>,
    pub folder: Folder,
    /// Dropped with the last app on it.
    database: Arc<TestDatabase>,
    client: Client,
    process: Option<Child>,
    runs: u32,
    /// What the binary is started with.
    pub arguments: Vec<&'static str>,
    open_files: Option<u64>,
}

impl TestApp {
    /// A service with the mock model and the demo tenant.
    pub async fn start() -> Self {
        Setup::default().start().await
    }

    /// A second process beside this one, on the same database and with the same settings.
    pub async fn second_process(&self) -> Self {
        let mut app = self.beside().await;
        app.launch().await;
        app
    }

    /// A worker beside this process.
    pub async fn worker(&self) -> Self {
        let mut app = self.beside().await;
        app.arguments = vec!["worker"];
        app.env.insert("WORKER_HEALTH_PORT".to_owned(), app.port.to_string());
        let unused = app.keep_port();
        app.env.insert("PORT".to_owned(), unused.to_string());
        app.launch().await;
        app
    }

    async fn beside(&self) -> Self {
        let (folder, kept_port) = (Folder::new(), Port::keep());
        write_tenant(&folder.path.join("config"), None);
        for file in ["config/rules.json", "config/tools.json"] {
            if self.folder.path.join(file).exists() {
                fs::copy(self.folder.path.join(file), folder.path.join(file)).unwrap();
            }
        }
        let mut env = self.env.clone();
        env.insert("PORT".to_owned(), kept_port.number.to_string());
        env.insert("CONFIG_DIR".to_owned(), folder.path.join("config").display().to_string());
        Self {
            port: kept_port.number,
            kept_ports: vec![kept_port],
            env,
            folder,
            database: Arc::clone(&self.database),
            client: self.database.connect().await.unwrap(),
            process: None,
            runs: 0,
            arguments: self.arguments.clone(),
            open_files: self.open_files,
        }
    }

    /// One more port for this app.
    pub fn keep_port(&mut self) -> u16 {
        let port = Port::keep();
        let number = port.number;
        self.kept_ports.push(port);
        number
    }

    /// Starts the process and waits until it is ready.
    pub async fn launch(&mut self) {
        self.spawn();
        self.await_ready().await;
        // Lines are written in order, a moment after they are logged: with this one all of the start are there.
        let until = Instant::now() + PATIENCE;
        while !self.output_of(self.runs).contains("Server listening") {
            assert!(Instant::now() < until, "the start is not logged: {}", self.output());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn await_ready(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.get("/ready").await.is_none_or(|answer| answer.status != 200) {
            assert!(self.exited().is_none(), "the service ended: {}", self.output());
            assert!(Instant::now() < until, "the service is not ready: {}", self.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts the process without waiting.
    pub fn spawn(&mut self) {
        let stdout = fs::File::create(self.folder.path.join(format!("stdout-{}", self.runs + 1))).unwrap();
        self.spawn_into(stdout);
    }

    /// The same with another standard output than the file that [`TestApp::output`] reads.
    pub fn spawn_into(&mut self, stdout: impl Into<Stdio>) {
        self.runs += 1;
        let stderr = fs::File::create(self.folder.path.join(format!("stderr-{}", self.runs))).unwrap();
        let mut command = Command::new(BINARY);
        if let Some(limit) = self.open_files {
            // SAFETY: the one call between fork and exec is async-signal-safe.
            unsafe { command.pre_exec(move || limit_open_files(limit)) };
        }
        let child = command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.folder.path)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        self.process = Some(child);
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    /// Whether a process is there that has not been seen to end.
    pub fn is_running(&mut self) -> bool {
        self.process.is_some() && self.exited().is_none()
    }

    pub fn signal(&self, number: i32) {
        let id = i32::try_from(self.process.as_ref().unwrap().id()).unwrap();
        // SAFETY: a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(id, number) }, 0);
    }

    /// Whether a signal has stopped the process and it has not been continued.
    pub fn is_stopped(&self) -> bool {
        let id = self.process.as_ref().unwrap().id();
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    /// Ends the process with a signal and returns how it ended.
    pub async fn stop(&mut self, number: i32) -> ExitStatus {
        self.signal(number);
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.exited() {
                self.process = None;
                return status;
            }
            assert!(Instant::now() < until, "the service does not end: {}", self.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// One message of the usual contact.
    pub async fn send(&self, text: &str) -> Answer {
        self.send_as(CONTACT, text).await
    }

    pub async fn send_as(&self, subscriber: &str, text: &str) -> Answer {
        self.post(&json!({ "subscriber_id": subscriber, "text": text }).to_string(), Some(SECRET)).await
    }

    /// A message on a connection of its own, sent and not waited for.
    pub fn raw_request(&self, text: &str) -> std::net::TcpStream {
        let body = json!({ "subscriber_id": CONTACT, "text": text }).to_string();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let path = manychat_agent::http::MESSAGE_PATH;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {SECRET}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    /// A message in the background.
    pub fn send_later(&self, subscriber: &str, text: &str) -> tokio::task::JoinHandle<Answer> {
        let body = json!({ "subscriber_id": subscriber, "text": text }).to_string();
        tokio::spawn(post(self.port, body, Some(SECRET)))
    }

    pub async fn post(&self, body: &str, secret: Option<&'static str>) -> Answer {
        post(self.port, body.to_owned(), secret).await
    }

    /// `None` when nothing listens.
    pub async fn get(&self, path: &str) -> Option<Answer> {
        self.get_as(path, None).await
    }

    pub async fn get_as(&self, path: &str, token: Option<&str>) -> Option<Answer> {
        let started = Instant::now();
        let mut request = client().get(format!("http://127.0.0.1:{}{path}", self.port));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        answer(request.send().await.ok()?, started).await
    }

    /// Any request: `ask(Method::GET, "/ready", |request| request)`.
    pub async fn ask(
        &self,
        method: reqwest::Method,
        path: &str,
        shape: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Answer {
        ask(self.port, method, path.to_owned(), shape).await
    }

    /// A `GET` in the background.
    pub fn get_later(&self, path: &'static str) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(ask(self.port, reqwest::Method::GET, path.to_owned(), |request| request))
    }

    /// Rows of a query as JSON objects.
    pub async fn rows(&self, query: &str) -> Vec<Value> {
        let wrapped = format!("select coalesce(json_agg(q), '[]'::json) from ({query}) q");
        let row = self.client.query_one(&wrapped, &[]).await.unwrap();
        row.get::<_, Value>(0).as_array().unwrap().clone()
    }

    pub async fn run(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// The usual contact's turns in order.
    pub async fn turns(&self) -> Vec<Value> {
        self.rows(
            "select role, text, outcome, model, bound, media_kind, actions, cost_usd from turns order by seq",
        )
        .await
    }

    /// Waits until the query has rows and returns them.
    pub async fn await_rows(&self, query: &str) -> Vec<Value> {
        self.await_that(query, |rows| !rows.is_empty()).await
    }

    /// Waits until the rows of the query are as wanted.
    pub async fn await_that(&self, query: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows(query).await;
            if wanted(&rows) {
                return rows;
            }
            assert!(Instant::now() < until, "{query} stays {rows:?}\n{}", self.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no conversation has anything left to do.
    pub async fn await_idle(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let report = self.get_as("/admin/actors", Some(ADMIN)).await.unwrap().json();
            if report["busy"] == 0 {
                return;
            }
            assert!(Instant::now() < until, "a conversation stays busy: {report}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no database connection of the service is in use.
    pub async fn await_free_connections(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let report = self.get_as("/admin/actors", Some(ADMIN)).await.unwrap().json();
            if report["database_connections_in_use"] == 0 && report["database_connections"] != 0 {
                return;
            }
            assert!(Instant::now() < until, "a connection stays in use: {report}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything the processes have printed. The log is written a moment after an answer: wait for a line with
    /// [`TestApp::log_line`] where one is expected.
    pub fn output(&self) -> String {
        (1..=self.runs).map(|run| self.output_of(run)).collect()
    }

    fn output_of(&self, run: u32) -> String {
        let read = |name: &str| {
            fs::read_to_string(self.folder.path.join(format!("{name}-{run}"))).unwrap_or_default()
        };
        read("stdout") + &read("stderr")
    }

    /// The JSON lines with this message.
    pub fn logs(&self, msg: &str) -> Vec<Value> {
        let parsed = self.output();
        let lines = parsed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["msg"] == msg).collect()
    }

    /// A log line with this message, waited for.
    pub async fn log_line(&self, msg: &str) -> Value {
        self.log_lines(msg, 1).await.remove(0)
    }

    /// At least so many log lines with this message, waited for.
    pub async fn log_lines(&self, msg: &str, count: usize) -> Vec<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let lines = self.logs(msg);
            if lines.len() >= count {
                return lines;
            }
            assert!(
                Instant::now() < until,
                "{} of {count} log lines {msg:?} in {}",
                lines.len(),
                self.output()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A text of the tenant's rules.
    pub fn copy(&self, key: &str) -> String {
        let path = self.folder.path.join("config/rules.json");
        let rules: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        rules["messages"][key].as_str().unwrap().to_owned()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if let Some(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn ask(
    port: u16,
    method: reqwest::Method,
    path: String,
    shape: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
) -> Answer {
    let started = Instant::now();
    let request = shape(client().request(method, format!("http://127.0.0.1:{port}{path}")));
    answer(request.send().await.unwrap(), started).await.unwrap()
}

pub async fn post(port: u16, body: String, secret: Option<&'static str>) -> Answer {
    let started = Instant::now();
    let mut request = client()
        .post(format!("http://127.0.0.1:{port}{}", manychat_agent::http::MESSAGE_PATH))
        .header("Content-Type", "application/json")
        .body(body);
    if let Some(secret) = secret {
        request = request.bearer_auth(secret);
    }
    answer(request.send().await.unwrap(), started).await.unwrap()
}

async fn answer(response: reqwest::Response, started: Instant) -> Option<Answer> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.text().await.ok()?;
    Some(Answer { status, headers, body, elapsed: started.elapsed() })
}

/// One for all tests, because making one takes as long as a turn. It keeps no connection: each belongs to the runtime of
/// the test that opened it.
fn client() -> &'static reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().pool_max_idle_per_host(0);
        client.timeout(PATIENCE).build().unwrap()
    });
    &CLIENT
}

/// Runs a command to its end.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn command(folder: &Path, env: &BTreeMap<String, String>, arguments: &[&str]) -> Ended {
    let output = Command::new(BINARY)
        .args(arguments)
        .env_clear()
        .envs(env)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn binary() -> &'static str {
    BINARY
}
