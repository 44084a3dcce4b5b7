//! A small HTTP/1.1 client and the load generator on it: as light as can be, because it shares the cores with what it
//! measures. Connections are kept alive; each sends its next message when the answer to the last one is there.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use manychat_agent::http::MESSAGE_PATH;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::figures::Latencies;
use crate::service::{ADMIN, SECRET};

/// What contacts write, in this order. The mock model answers each differently and escalates none, so that no guardrail
/// has to replace a repetition in a window of ten turns.
pub const TEXTS: [&str; 9] = [
    "hello there",
    "How much is the foundation course?",
    "What is the schedule?",
    "Do I get a certificate?",
    "Are materials included?",
    "Where is the workshop?",
    "Can I pay in instalments?",
    "Are you a bot?",
    "Is a job guaranteed afterwards?",
];
/// Begins the copy of every handoff of the demo tenant.
const HANDOFF: &[u8] = b"I'm passing this to someone";

/// One answer.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Gets a page over a connection of its own, as an operator.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    let mut connection = Connection::open(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {ADMIN}\r\n\r\n");
    let status = connection.exchange(request.as_bytes()).await?;
    Ok(Answer { status, body: connection.body().to_vec() })
}

/// A connection to the service.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    body_at: usize,
    end: usize,
    output: Vec<u8>,
}

impl Connection {
    /// Opens one.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: vec![0; 16_384], body_at: 0, end: 0, output: Vec::with_capacity(512) })
    }

    /// Sends a contact's message and checks that the answer is a reply of the model.
    pub async fn say(&mut self, contact: u64, text: &str) -> anyhow::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        write_message(&mut output, contact, text);
        let status = self.exchange(&output).await;
        self.output = output;
        let body = self.body();
        if status? != 200 || !contains(body, br#""type":"text""#) || contains(body, HANDOFF) {
            bail!("not a reply of the model: {}", String::from_utf8_lossy(body));
        }
        Ok(())
    }

    /// The same with whatever the answer holds: behind a reply that is still queued it is silent.
    pub async fn talk(&mut self, contact: u64, text: &str) -> anyhow::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        write_message(&mut output, contact, text);
        let status = self.exchange(&output).await;
        self.output = output;
        anyhow::ensure!(status? == 200, "the service refused a message");
        Ok(())
    }

    /// Sends a contact's message and hangs up.
    pub async fn leave(mut self, contact: u64, text: &str) -> anyhow::Result<()> {
        write_message(&mut self.output, contact, text);
        Ok(self.stream.write_all(&self.output).await?)
    }

    /// Sends a request in one write and reads its whole answer; the status code.
    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let mut whole = None;
        while whole.is_none_or(|(_, end)| filled < end) {
            let space = self.input.get_mut(filled..).filter(|space| !space.is_empty());
            let read = self.stream.read(space.context("the answer is too long")?).await?;
            anyhow::ensure!(read > 0, "the service closed the connection");
            filled += read;
            if whole.is_none() {
                whole = extent(self.input.get(..filled).unwrap_or_default())?;
            }
        }
        (self.body_at, self.end) = whole.unwrap_or_default();
        let status = self.input.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        Ok(status.context("no status line")?.parse()?)
    }

    fn body(&self) -> &[u8] {
        self.input.get(self.body_at..self.end).unwrap_or_default()
    }
}

fn write_message(output: &mut Vec<u8>, contact: u64, text: &str) {
    use std::io::Write;

    let body =
        format!(r#"{{"subscriber_id":"{contact}","text":"{text}","first_name":"Ada","channel":"whatsapp"}}"#);
    output.clear();
    // Writing to a `Vec` cannot fail.
    let _ = write!(
        output,
        "POST {MESSAGE_PATH} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {SECRET}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
}

/// Where the body begins and ends, once the head is there.
fn extent(input: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    const NAME: &[u8] = b"content-length:";
    let Some(head_end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = input.get(..head_end).unwrap_or_default();
    let lines = head.split(|byte| *byte == b'\n');
    let length = lines.filter_map(|line| line.split_at_checked(NAME.len()));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case(NAME)).map(|(_, value)| value).next();
    let length: usize = std::str::from_utf8(length.context("an answer without a length")?)?.trim().parse()?;
    Ok(Some((head_end + 4, head_end + 4 + length)))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Contacts that take turns writing. At any time as many of them are open as there are connections, all different.
pub struct Crowd {
    contacts: u64,
    /// Numbers of contacts begin behind this one.
    behind: u64,
    next: Rc<Cell<u64>>,
}

/// What one run measured.
pub struct Run {
    /// Round trips.
    pub latencies: Latencies,
    /// How many there were.
    pub turns: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

impl Run {
    /// Answered messages a second.
    pub fn rate(&self) -> f64 {
        self.turns as f64 / self.elapsed.as_secs_f64()
    }
}

/// When a run ends.
#[derive(Clone, Copy)]
pub enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After this many messages.
    Messages(u64),
}

impl Crowd {
    /// So many contacts, none of whom has written yet.
    pub fn of(contacts: u64) -> Self {
        Self::beyond(contacts, 0)
    }

    /// So many contacts, numbered behind `behind`.
    pub fn beyond(contacts: u64, behind: u64) -> Self {
        Self { contacts, behind, next: Rc::new(Cell::new(0)) }
    }

    /// Lets them write over so many connections.
    pub async fn write(&self, address: SocketAddr, connections: usize, until: Until) -> anyhow::Result<Run> {
        let began = Instant::now();
        let (deadline, last) = match until {
            Until::Elapsed(time) => (began + time, u64::MAX),
            Until::Messages(count) => (began + Duration::from_secs(86_400), self.next.get() + count),
        };
        let local = LocalSet::new();
        let writers: Vec<_> = (0..connections)
            .map(|_| {
                local.spawn_local(keep_writing(
                    address,
                    (self.contacts, self.behind),
                    Rc::clone(&self.next),
                    deadline,
                    last,
                ))
            })
            .collect();
        local.await;
        let elapsed = began.elapsed();
        let mut all = Vec::new();
        for writer in writers {
            all.extend(writer.await??);
        }
        let turns = all.len() as u64;
        Ok(Run { latencies: Latencies::new(all), turns, elapsed })
    }
}

async fn keep_writing(
    address: SocketAddr,
    (contacts, behind): (u64, u64),
    next: Rc<Cell<u64>>,
    deadline: Instant,
    last: u64,
) -> anyhow::Result<Vec<Duration>> {
    let mut connection = Connection::open(address).await?;
    let mut latencies = Vec::with_capacity(32_768);
    loop {
        let place = next.get();
        let sent = Instant::now();
        if place >= last || sent >= deadline {
            return Ok(latencies);
        }
        next.set(place + 1);
        let text = usize::try_from(place / contacts).ok().and_then(|turn| TEXTS.get(turn % TEXTS.len()));
        connection.say(behind + place % contacts, text.copied().unwrap_or_default()).await?;
        latencies.push(sent.elapsed());
    }
}
