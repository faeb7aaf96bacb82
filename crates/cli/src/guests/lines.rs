//! What a guest's server writes to its standard error, shown with the guest's name.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::{note, safe};

/// The target of such lines.
const TARGET: &str = "guest";

/// Shows the lines of guests as `name | line`, and warnings of our own, on stderr.
pub(super) fn start() {
    let warnings = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).without_time();
    let ours = tracing_subscriber::filter::filter_fn(|metadata| metadata.target() != TARGET);
    let warnings = warnings.log_internal_errors(false).with_ansi(crate::serve::is_coloured(&std::io::stderr()));
    tracing_subscriber::registry()
        .with(GuestLines.with_filter(LevelFilter::INFO))
        .with(warnings.with_filter(LevelFilter::WARN).with_filter(ours))
        .init();
}

struct GuestLines;

impl<S: Subscriber> Layer<S> for GuestLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == TARGET {
            let mut line = GuestLine::default();
            event.record(&mut line);
            note(format_args!("{} | {}", line.guest, safe::line(&line.message)));
        }
    }
}

#[derive(Default)]
struct GuestLine {
    guest: String,
    message: String,
}

impl Visit for GuestLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "guest" {
            self.guest = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
