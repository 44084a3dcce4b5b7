use std::sync::mpsc::{Receiver, Sender, channel};

use proptest::prelude::*;

use super::*;

/// Long enough for a busy machine; a test that meets it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A writer that takes each piece only when it is told to, and says what it took.
struct Gate {
    open: Receiver<Outcome>,
    taken: Sender<Vec<u8>>,
}

enum Outcome {
    Take(usize),
    Fail(ErrorKind),
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A test that has ended lets the thread wait for ever.
        let Ok(outcome) = self.open.recv() else {
            loop {
                thread::park();
            }
        };
        match outcome {
            Outcome::Fail(kind) => Err(kind.into()),
            Outcome::Take(most) => {
                let taken = bytes.len().min(most);
                self.taken.send(bytes[..taken].to_vec()).unwrap();
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Bench {
    queue: Arc<Queue>,
    open: Sender<Outcome>,
    taken: Receiver<Vec<u8>>,
}

impl Bench {
    fn new(capacity: usize) -> Self {
        let queue = Arc::new(Queue::new(capacity, |count| format!("lost {count}\n")));
        let (open, gate) = channel();
        let (tell, taken) = channel();
        let writing = Arc::clone(&queue);
        thread::spawn(move || writing.write_for_ever(Gate { open: gate, taken: tell }));
        Self { queue, open, taken }
    }

    fn outcome(&self, outcome: Outcome) {
        self.open.send(outcome).unwrap();
    }

    fn next(&self) -> String {
        self.outcome(Outcome::Take(usize::MAX));
        String::from_utf8(self.taken.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Waits until the thread holds a batch: from then on it is blocked in its writer.
    fn wait_until_writing(&self) {
        let until = Instant::now() + PATIENCE;
        while self.queue.state().writing == 0 {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
    }
}

/// LOG-1: nobody who logs waits for a reader that has stopped; what has no room is counted and told of afterwards.
#[test]
fn a_reader_that_stops_costs_lines_and_no_time() {
    let bench = Bench::new(40);
    bench.queue.push("first\n");
    bench.wait_until_writing();
    for number in 0..1000 {
        bench.queue.push(&format!("{number:09}\n"));
    }
    assert!(!bench.queue.flush(Duration::ZERO), "nothing was written yet");
    assert_eq!(bench.next(), "first\n");
    assert_eq!(bench.next(), "000000000\n000000001\n000000002\nlost 997\n");
    assert!(bench.queue.flush(PATIENCE));
    bench.queue.push("later\n");
    assert_eq!(bench.next(), "later\n");
}

/// A writer that fails loses its lines, which are counted, and the next ones begin on a line of their own.
#[test]
fn lines_that_cannot_be_written_are_counted_and_leave_no_half_line() {
    let bench = Bench::new(1000);
    bench.queue.push("one\n");
    bench.wait_until_writing();
    bench.queue.push("two\nthree\n");
    assert_eq!(bench.next(), "one\n");
    bench.outcome(Outcome::Fail(ErrorKind::Interrupted));
    bench.outcome(Outcome::Fail(ErrorKind::WouldBlock));
    bench.outcome(Outcome::Take(6));
    bench.outcome(Outcome::Fail(ErrorKind::BrokenPipe));
    assert_eq!(bench.taken.recv_timeout(PATIENCE).unwrap(), b"two\nth");
    bench.queue.push("four\n");
    assert_eq!(bench.next(), "\nfour\nlost 1\n");
    assert!(bench.queue.flush(PATIENCE));
}

/// A flush waits a bounded time.
#[test]
fn a_flush_gives_up() {
    let bench = Bench::new(1000);
    bench.queue.push("never read\n");
    let started = Instant::now();
    assert!(!bench.queue.flush(Duration::from_millis(30)));
    assert!(started.elapsed() >= Duration::from_millis(30));
    assert!(
        !Queue::new(10, |_| String::new()).state().idle && flush(Duration::ZERO),
        "no log, nothing to wait for"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// LOG-1: whole lines in order, from many threads, and every line is written or counted.
    #[test]
    fn every_line_is_written_whole_or_counted(capacity in 30_usize..400, each in 1_usize..60, piece in 1_usize..50) {
        let bench = Bench::new(capacity);
        (0..4000).for_each(|_| bench.outcome(Outcome::Take(piece)));
        thread::scope(|scope| {
            for name in ["aa", "bb", "cc"] {
                let queue = &bench.queue;
                scope.spawn(move || (0..each).for_each(|number| queue.push(&format!("{name} {number:05}\n"))));
            }
        });
        prop_assert!(bench.queue.flush(PATIENCE));
        let written = String::from_utf8(bench.taken.try_iter().flatten().collect()).unwrap();
        let mut seen = 0;
        for name in ["aa", "bb", "cc"] {
            let own: Vec<&str> = written.lines().filter(|line| line.starts_with(name)).collect();
            prop_assert!(own.is_sorted() && own.iter().all(|line| line.len() == 8), "{}", written);
            seen += own.len();
        }
        let lost: usize =
            written.lines().filter_map(|line| line.strip_prefix("lost ")).map(|count| count.parse::<usize>().unwrap()).sum();
        prop_assert_eq!(seen + lost, 3 * each);
    }
}
