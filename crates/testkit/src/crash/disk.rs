//! A disk that loses power: an ext4 file system in a file, which can be shut down as by a power failure.
//!
//! `FS_IOC_SHUTDOWN` without flushing the journal ends all writing at once. What no `fsync` had asked for is gone when the file system is mounted again.
//! It needs root and a loop device.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{DEADLINE, Failure, Scratch, process};

const DISK_BYTES: u64 = 512 << 20;
/// `FS_IOC_SHUTDOWN`, and `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const SHUT_DOWN: &str =
    "import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// What [`LossyDisk`] runs.
const PROGRAMS: &[&str] = &["mkfs.ext4", "mount", "umount", "python3"];
/// By which root makes loop devices. Containers without the right to do so cannot open it.
const LOOP_CONTROL: &str = "/dev/loop-control";

/// Why this process may not mount a file, if it may not.
pub(super) fn missing_right() -> Option<String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Some("a disk that loses power needs root".into());
    }
    let opened = OpenOptions::new().read(true).write(true).open(LOOP_CONTROL);
    opened.err().map(|error| format!("a disk that loses power needs a loop device: {LOOP_CONTROL}: {error}"))
}

/// Which program is not installed, if one is not.
pub(super) fn missing_program() -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&&str| !env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing = PROGRAMS.iter().find(is_missing);
    missing.map(|program| format!("a disk that loses power needs `{program}`, which is not installed"))
}

pub(crate) struct LossyDisk {
    image: PathBuf,
    mount: PathBuf,
    /// Removed when nothing is mounted in it any more.
    _files: Scratch,
}

impl LossyDisk {
    /// An empty one.
    pub(crate) async fn new() -> Result<Self, Failure> {
        let files = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        let disk = Self { image: files.path().join("image"), mount: files.path().join("mount"), _files: files };
        let image = File::create(&disk.image).and_then(|image| image.set_len(DISK_BYTES));
        image.and_then(|()| fs::create_dir(&disk.mount)).map_err(|e| format!("no disk: {e}"))?;
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F"]).arg(&disk.image);
        succeed("mkfs.ext4", make).await?;
        disk.mount().await?;
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    async fn mount(&self) -> Result<(), Failure> {
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).args([&self.image, &self.mount]);
        succeed("mount", mount).await
    }

    /// Loses everything that was not flushed. From now on nothing can be read or written.
    pub(crate) async fn lose_power(&self) -> Result<(), Failure> {
        let mut shut_down = Command::new("python3");
        shut_down.args(["-c", SHUT_DOWN]).arg(&self.mount);
        succeed("the shutdown of a file system", shut_down).await
    }

    /// Has power again. No process may have a file open.
    pub(crate) async fn regain_power(&self) -> Result<(), Failure> {
        let mut unmount = Command::new("umount");
        unmount.arg(&self.mount);
        succeed("umount", unmount).await?;
        self.mount().await
    }
}

impl Drop for LossyDisk {
    fn drop(&mut self) {
        // Where it is not mounted there is nothing to do. A process that is being killed may still have files open.
        let mut unmount = std::process::Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.mount).stderr(std::process::Stdio::null()).status();
    }
}

async fn succeed(name: &str, command: Command) -> Result<(), Failure> {
    let ended = process::run(name, command, DEADLINE).await?;
    if ended.status == Some(0) { Ok(()) } else { Err(format!("{name} failed: {}", ended.stderr)) }
}
