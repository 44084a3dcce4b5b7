//! A small client for Chromium's DevTools protocol over two pipes (docs/adr/0010): opens a page, acts on it as a person
//! with keyboard and mouse does, and reads what it shows.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

use crate::app::Folder;

/// Generous: a busy machine must not decide a test.
const PATIENCE: Duration = Duration::from_secs(120);
/// Starts of the browser: one can fail on a machine that is busy or short of memory.
const STARTS: u32 = 3;
/// What the browser says on standard error, beside its profile.
const WORDS: &str = "words";
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A running browser without a window.
pub struct Browser {
    child: Child,
    commands: PipeWriter,
    answers: Receiver<Value>,
    last_id: u64,
    /// Errors that pages have reported: exceptions, refused resources, policy violations.
    pub complaints: Vec<String>,
    profile: Folder,
}

/// One page of it.
pub struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Browser {
    /// `None` on a machine without Chromium, said once; with `CI` set that is a failure.
    pub fn launch() -> Option<Self> {
        static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(program);
        let Some(program) = &*PROGRAM else {
            assert!(std::env::var_os("CI").is_none(), "CI is set and there is no chromium that runs");
            static SAID: Once = Once::new();
            // Past the capture of test output, so that it is seen.
            SAID.call_once(|| {
                let _ =
                    std::io::stderr().write_all(b"browser tests not run: chromium is not on this machine\n");
            });
            return None;
        };
        let mut why = String::new();
        for _ in 0..STARTS {
            let mut browser = Self::start(program);
            match browser.ask(None, "Browser.getVersion", json!({})) {
                Ok(_) => return Some(browser),
                Err(error) => why = format!("{error}\n{}", browser.said()),
            }
        }
        panic!("{} does not start, {STARTS} times in a row: {why}", program.display());
    }

    fn start(program: &Path) -> Self {
        let profile = Folder::new();
        let (for_browser, commands) = std::io::pipe().unwrap();
        let (answers, from_browser) = std::io::pipe().unwrap();
        let child = spawn(program, &profile.path, for_browser.as_raw_fd(), from_browser.as_raw_fd());
        Self { child, commands, answers: listen(answers), last_id: 0, complaints: Vec::new(), profile }
    }

    /// What it has said on standard error.
    fn said(&self) -> String {
        std::fs::read_to_string(self.profile.path.join(WORDS)).unwrap_or_default()
    }

    /// Opens the address in a window of this size.
    pub fn open(&mut self, address: &str, width: u32, height: u32) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session =
            self.call(None, "Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        let mut page = Page { browser: self, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.call(domain, json!({}));
        }
        page.resize(width, height);
        page.call("Page.navigate", json!({ "url": address }));
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.ask(session, method, params).unwrap_or_else(|why| panic!("{why}\n{}", self.said()))
    }

    fn ask(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let sent = self.commands.write_all(format!("{message}\0").as_bytes());
        sent.map_err(|error| format!("the browser does not take {method}: {error}"))?;
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.map_err(|error| format!("no answer of the browser to {method}: {error}"))?;
            if answer["id"] == self.last_id {
                let refused = !answer["error"].is_null();
                return if refused {
                    Err(format!("{method}: {answer}"))
                } else {
                    Ok(answer["result"].clone())
                };
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => event["params"]["exceptionDetails"].to_string(),
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => {
                event["params"]["entry"]["text"].to_string()
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to close, it takes its own children with it.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: plain numbers; the group is that of our own child, which has not been waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

impl Page<'_> {
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub fn text(&mut self, selector: &str) -> String {
        let found = self.value(&format!("document.querySelector({})?.textContent ?? ''", json!(selector)));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the expression is true.
    pub fn wait(&mut self, expression: &str) {
        if !self.becomes(expression, PATIENCE) {
            let page = self.value("document.body.innerText");
            panic!("never true: {expression}\nthe page: {page}\n{:?}", self.browser.complaints);
        }
    }

    /// Whether the expression becomes true within this time.
    pub fn becomes(&mut self, expression: &str, within: Duration) -> bool {
        let until = Instant::now() + within;
        while self.value(&format!("Boolean({expression})")) != true {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        true
    }

    /// Waits until the element shows this text.
    pub fn wait_for(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.wait(&format!(
            "[...document.querySelectorAll({selector})].some(place => !place.hidden && place.textContent.includes({text}))"
        ));
    }

    /// A click of the mouse in the middle of the element. What moves away from under the mouse is clicked again, as a
    /// person does.
    pub fn click(&mut self, selector: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.click_once(selector) {
            assert!(Instant::now() < until, "no click reaches {selector}");
        }
    }

    /// Whether the click has reached it.
    fn click_once(&mut self, selector: &str) -> bool {
        let place = self.value(&format!(
            "(() => {{ const [name, found] = [{0}, document.querySelector({0})]; \
             found.scrollIntoView({{ block: 'nearest' }}); const box = found.getBoundingClientRect(); \
             window.clickReached = false; window.addEventListener('click', event => {{ \
             window.clickReached = [...document.querySelectorAll(name)].some(now => \
             (now.closest('label') ?? now).contains(event.target)) }}, {{ capture: true, once: true }}); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
        self.value("window.clickReached") == true
    }

    /// Notes from now on what the element shows, at each change of it.
    pub fn watch(&mut self, selector: &str) {
        self.value(&format!(
            "(() => {{ const found = document.querySelector({}); window.shownTexts = []; \
             new MutationObserver(() => window.shownTexts.push(found.textContent)) \
             .observe(found, {{ childList: true, subtree: true, characterData: true }}); }})()",
            json!(selector)
        ));
    }

    /// Whether the watched element has shown the one text at a time when it did not show the other.
    pub fn has_shown(&mut self, text: &str, without: &str) -> bool {
        let (text, without) = (json!(text), json!(without));
        let shown =
            format!("window.shownTexts.some(seen => seen.includes({text}) && !seen.includes({without}))");
        self.value(&shown) == true
    }

    /// Types into whatever has the focus.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses and releases a key: `Enter`, `Tab`, `ArrowRight`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "ArrowRight" => 39,
            other => panic!("no code for {other}"),
        };
        let mut event = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event);
    }

    pub fn screenshot(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// What pages have complained about so far.
    pub fn complaints(&self) -> &[String] {
        &self.browser.complaints
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.browser.call(Some(&session), method, params)
    }
}

/// The first that runs: a distribution's stand-in for a browser that is not installed does not.
fn program() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .filter(|path| path.is_file())
        .find(|path| {
            let told = Command::new(path).arg("--version").stdin(Stdio::null()).output();
            told.is_ok_and(|output| output.status.success())
        })
}

fn spawn(program: &Path, profile: &Path, reads: RawFd, writes: RawFd) -> Child {
    let mut command = Command::new(program);
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args(["--no-first-run", "--no-default-browser-check", "--disable-sync", "--disable-extensions"])
        .args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"])
        .args(["--disable-background-timer-throttling", "--disable-renderer-backgrounding"])
        .args(["--disable-backgrounding-occluded-windows", "--disable-hang-monitor", "--disable-breakpad"])
        .arg("--remote-debugging-pipe")
        .arg(format!("--user-data-dir={}", profile.join("profile").display()))
        .env("HOME", profile)
        // What it leaves there goes with the profile. A socket's path has a bound, which a deep folder would pass.
        .envs((profile.as_os_str().len() < 48).then_some(("TMPDIR", profile)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(profile.join(WORDS)).unwrap())
        // So that it can be ended with its own children.
        .process_group(0);
    // SAFETY: only dup2 and fcntl, which may be called between fork and exec. The pipes' own numbers may be 3 and 4, so
    // they move away first; numbers made by dup2 stay open over exec.
    unsafe {
        command.pre_exec(move || {
            let reads = libc::fcntl(reads, libc::F_DUPFD_CLOEXEC, 10);
            let writes = libc::fcntl(writes, libc::F_DUPFD_CLOEXEC, 10);
            let moved = reads >= 0 && writes >= 0 && libc::dup2(reads, 3) == 3 && libc::dup2(writes, 4) == 4;
            if moved { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command.spawn().unwrap()
}

/// Messages end with a NUL.
fn listen(answers: PipeReader) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        let mut message = Vec::new();
        while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let parsed = serde_json::from_slice(&message).unwrap_or_default();
            if sender.send(parsed).is_err() {
                return;
            }
            message.clear();
        }
    });
    receiver
}
