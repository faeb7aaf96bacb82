//! Ctrl-C and SIGTERM: the first asks to end, the second ends.

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
        // Ends with the process: there is no moment at which a signal should not be heard.
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
