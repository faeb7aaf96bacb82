//! The terminal: taken over, listened to, and given back whatever way the program ends.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use tokio::sync::{Notify, mpsc};

use super::run::LoopEvent;

/// How long the thread that listens goes without looking whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// Whether something panicked. The terminal has then been given back already, and nothing more may be drawn.
static BROKEN: AtomicBool = AtomicBool::new(false);
static BREAKS: Notify = Notify::const_new();

/// Resolves when something panics, in whichever task.
pub(super) async fn broken() {
    BREAKS.notified().await;
}

/// The screen while it is ours. Dropping it gives it back.
pub(super) struct TerminalScreen(pub(super) Terminal<CrosstermBackend<Stdout>>);

impl TerminalScreen {
    pub(super) fn take() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !BROKEN.swap(true, Ordering::SeqCst) {
                give_back();
            }
            before(info);
            BREAKS.notify_one();
        }));
        enable_raw_mode()?;
        // From here on dropping undoes it.
        let screen = Self(Terminal::new(CrosstermBackend::new(stdout()))?);
        execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste)?;
        Ok(screen)
    }

    /// Whether it can still be drawn on.
    pub(super) fn is_whole(&self) -> bool {
        !BROKEN.load(Ordering::SeqCst)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        if self.is_whole() {
            give_back();
        }
    }
}

/// Undoes everything. A terminal that is gone cannot be helped.
fn give_back() {
    let _ = execute!(stdout(), DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// The thread that listens to keys and mouse. Dropping it ends it.
pub(super) struct KeyListener {
    stop: Arc<AtomicBool>,
    /// Ends when the thread has.
    ended: std_mpsc::Receiver<()>,
}

impl KeyListener {
    pub(super) fn start(heard: mpsc::Sender<LoopEvent>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (ending, ended) = std_mpsc::channel::<()>();
        thread::spawn(move || {
            let _ending = ending;
            while !stopped.load(Ordering::SeqCst) {
                let event = match event::poll(LOOK) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let failed = event.is_err();
                if heard.blocking_send(LoopEvent::Terminal(event)).is_err() || failed {
                    return;
                }
            }
        });
        Self { stop, ended }
    }
}

impl Drop for KeyListener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A terminal that has gone away keeps its library reading for ever; that thread ends with the process.
        let _ = self.ended.recv_timeout(2 * LOOK);
    }
}
