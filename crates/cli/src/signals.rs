//! Ctrl-C and SIGTERM: the first asks to end, the second ends. SIGHUP: look again.

use std::io::IsTerminal;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::trouble::Trouble;

/// Resolves when the process was asked to end. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Starts to listen for signals. At the second one `at_once` is called and the process ends with exit code 1.
    pub(crate) fn on_signals(at_once: impl FnOnce() + Send + 'static) -> Result<Self, Trouble> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Trouble::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Trouble::failed)?;
        let (asked, stop) = watch::channel(false);
        // Ends with the process: signals are handled at every moment.
        tokio::spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            asked.send_replace(true);
            either(&mut interrupt, &mut terminate).await;
            at_once();
            std::process::exit(1);
        });
        Ok(Self(stop))
    }

    /// Waits until the process was asked to end.
    pub(crate) async fn asked(mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // Nobody is left to ask.
            std::future::pending::<()>().await;
        }
    }
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// SIGHUP: either somebody asks that files be read again, or the terminal we were started from is gone.
pub(crate) struct Hangup {
    signal: Signal,
    had_terminal: bool,
}

/// What a hangup means.
pub(crate) enum Hung {
    /// Read again.
    Reload,
    /// End: the terminal that started us is closed.
    TerminalGone,
}

impl Hangup {
    /// Starts to listen for it.
    pub(crate) fn listen() -> Result<Self, Trouble> {
        let signal = signal(SignalKind::hangup()).map_err(Trouble::failed)?;
        Ok(Self { signal, had_terminal: std::io::stdin().is_terminal() })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Hung {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        // A terminal that hung up cannot be used any more.
        if self.had_terminal && !std::io::stdin().is_terminal() { Hung::TerminalGone } else { Hung::Reload }
    }
}
