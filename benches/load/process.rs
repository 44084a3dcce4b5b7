//! What the kernel knows of processes and the machine.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Clock ticks a second in `/proc/<pid>/stat`; fixed at 100 for user space on Linux.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of one process, its threads included.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let fields = stat(pid)?;
    Ok(TICK * (fields.user + fields.system))
}

/// CPU time of the children that have ended and were waited for.
pub fn cpu_of_ended_children(pid: u32) -> anyhow::Result<Duration> {
    Ok(TICK * stat(pid)?.ended_children)
}

/// CPU time of a process and all of its children, ended ones included: all of a Postgres server.
pub fn cpu_of_family(pid: u32) -> anyhow::Result<Duration> {
    let mut sum = cpu(pid)? + cpu_of_ended_children(pid)?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that ended meanwhile is counted with its parent next time.
        if let Ok(fields) = stat(child)
            && fields.parent == pid
        {
            sum += TICK * (fields.user + fields.system);
        }
    }
    Ok(sum)
}

/// CPU time of the whole machine since it started, idle time left out.
pub fn cpu_of_machine() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let all: Vec<u64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal
    let busy: u64 = all
        .iter()
        .take(8)
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4))
        .map(|(_, ticks)| ticks)
        .sum();
    Ok(TICK * u32::try_from(busy)?)
}

/// Resident memory now, in bytes.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmRSS:").map(|kib| kib * 1024)
}

/// The most resident memory so far, in bytes.
pub fn resident_peak(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmHWM:").map(|kib| kib * 1024)
}

/// Mebibytes.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Cores, memory, processor and kernel on one line.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = field_of("/proc/meminfo", "MemTotal").unwrap_or_default();
    let processor = field_of("/proc/cpuinfo", "model name").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("machine: {cores} cores, {processor}, memory {memory}, Linux {}", kernel.trim())
}

/// The three averages of the machine.
pub fn load_average() -> String {
    let all = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    all.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn field_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

struct Stat {
    parent: u32,
    user: u32,
    system: u32,
    ended_children: u32,
}

fn stat(pid: u32) -> anyhow::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold blanks; state and parent follow it.
    let rest = text.rsplit_once(')').context("no name in stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |place: usize| -> anyhow::Result<u32> {
        Ok(fields.get(place).context("a field of stat is missing")?.parse()?)
    };
    Ok(Stat {
        parent: number(1)?,
        user: number(11)?,
        system: number(12)?,
        ended_children: number(13)? + number(14)?,
    })
}

fn status_kib(pid: u32, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with(name)).context("memory is missing in status")?;
    Ok(line.split_whitespace().nth(1).context("memory without a number")?.parse()?)
}
