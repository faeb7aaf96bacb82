//! What the kernel says about a process and the machine. Linux only.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Kernel clock ticks per second as `/proc` writes them: fixed at 100 on every Linux that Rust's standard library runs on.
const TICKS: u64 = 100;

/// The CPU time of all threads of a process at one moment.
pub(crate) struct CpuClock {
    pid: u32,
    /// Nanoseconds on a CPU, by thread.
    threads: HashMap<u32, u64>,
    /// utime + stime of the whole process, threads that ended included, in ticks.
    ticks: u64,
}

impl CpuClock {
    pub(crate) fn start(pid: u32) -> Result<Self> {
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).context("the measured server has ended")? {
            let entry = entry?;
            let thread: u32 = entry.file_name().to_string_lossy().parse()?;
            // A thread may end between the listing and the reading; the ticks below still know what it used.
            let Ok(line) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            let running = line.split_ascii_whitespace().next().context("schedstat is empty")?;
            threads.insert(thread, running.parse()?);
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name in parentheses may hold anything; utime and stime are the 12th and 13th fields after it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        let [utime, stime] = [11, 12].map(|at| fields.get(at).and_then(|f| f.parse::<u64>().ok()));
        let ticks = utime.zip(stime).map(|(user, system)| user + system).context("stat has too few fields")?;
        Ok(Self { pid, threads, ticks })
    }

    /// CPU time that a process has used since it began.
    pub(crate) fn total(pid: u32) -> Result<Duration> {
        Self { pid, threads: HashMap::new(), ticks: 0 }.elapsed()
    }

    /// CPU time used since `start`. The sum over threads counts nanoseconds but loses a thread that ended; where the
    /// coarser count of the process is clearly higher, it is the one to believe.
    pub(crate) fn elapsed(&self) -> Result<Duration> {
        let now = Self::start(self.pid)?;
        let nanos = now
            .threads
            .iter()
            .map(|(thread, running)| running.saturating_sub(self.threads.get(thread).copied().unwrap_or(0)))
            .sum();
        let fine = Duration::from_nanos(nanos);
        let coarse = Duration::from_millis(now.ticks.saturating_sub(self.ticks) * 1000 / TICKS);
        let quantum = Duration::from_millis(2 * 1000 / TICKS);
        Ok(if coarse > fine + quantum { coarse } else { fine })
    }
}

/// Resident memory of a process, in KiB.
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the measured server has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// The processes that a process has started, and those that they have started in turn.
pub(crate) fn descendants(pid: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(child) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // It may end between the listing and the reading.
        let Ok(stat) = fs::read_to_string(format!("/proc/{child}/stat")) else { continue };
        // The name in parentheses may hold anything; the parent is the second field after it.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (parent, child)));
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&one) = found.get(next) {
        found.extend(parents.iter().filter(|(parent, _)| *parent == one).map(|(_, child)| *child));
        next += 1;
    }
    found.remove(0);
    Ok(found)
}

/// How many files this process may have open, and to how many it may raise that.
pub(crate) fn open_file_limits() -> Result<(u64, u64)> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("no limit on open files")?;
    let mut words = line.split_ascii_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    Ok((words.next().context("no soft limit")?, words.next().context("no hard limit")?))
}

/// The bytes of all files in a directory and below it, by their names. Files of the same name are added up.
pub(crate) fn file_bytes(directory: &Path) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            // A file may be removed between the listing and the look.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                *found.entry(entry.file_name().to_string_lossy().into_owned()).or_default() += metadata.len();
            }
        }
    }
    Ok(found)
}

/// The machine in one line: processor, cores, kernel.
pub(crate) fn machine() -> Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(": ")))
        .map_or("unknown processor", |(_, model)| model);
    let cores = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("{model}, {cores} cores, Linux {}", kernel.trim()))
}

/// The kind of file system that holds `path`: flushing to a file system in memory costs nothing, which a reader must know.
pub(crate) fn file_system(path: &Path) -> Result<String> {
    let path = path.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let found = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let mount = Path::new(fields.next()?);
            path.starts_with(mount).then_some((mount.as_os_str().len(), fields.next()?))
        })
        .max_by_key(|&(depth, _)| depth);
    let Some((_, kind)) = found else { bail!("no mount holds {}", path.display()) };
    Ok(kind.to_owned())
}

/// While it exists, timers of the main thread are not late for the sake of others. Processes that are started meanwhile inherit that.
pub(crate) struct PreciseTimers(());

impl PreciseTimers {
    const SLACK_FILE: &str = "/proc/self/timerslack_ns";

    pub(crate) fn new() -> Self {
        // Where this is not possible, timers are some 50 µs late.
        let _ = fs::write(Self::SLACK_FILE, "1");
        Self(())
    }
}

impl Drop for PreciseTimers {
    fn drop(&mut self) {
        // Zero stands for the default.
        let _ = fs::write(Self::SLACK_FILE, "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_on_the_clock() {
        let clock = CpuClock::start(std::process::id()).unwrap();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
        assert!(clock.elapsed().unwrap() > Duration::ZERO);
    }

    #[test]
    fn what_a_process_starts_is_found() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & echo; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It says so when its own child is there.
        std::io::Read::read(&mut shell.stdout.take().unwrap(), &mut [0]).unwrap();
        let below = descendants(shell.id()).unwrap();
        let all = descendants(std::process::id()).unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(below.len(), 1);
        assert!(all.contains(&shell.id()) && all.contains(&below[0]), "{all:?} are not {below:?} and its parent");
    }

    #[test]
    fn this_process_and_machine_are_described() {
        assert!(resident_kib(std::process::id()).unwrap() > 100);
        let (soft, hard) = open_file_limits().unwrap();
        assert!(soft > 0 && hard >= soft);
        assert!(machine().unwrap().contains("Linux"));
        assert_eq!(file_system(Path::new("/proc")).unwrap(), "proc");
    }
}
