//! What the gateway counts, for Prometheus.
//!
//! Handles are made once: counting costs an atomic add, and nothing here ever names a topic or a participant.

use std::cell::Cell;
use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Unit};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use salon_protocol::{Code, Entry};

use crate::clock;

const LATENCY: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
const LAG: [f64; 7] = [0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// Of so many deliveries one is timed: looking at the clock for each would cost more than the rest of it.
const SAMPLED: u32 = 16;

thread_local! {
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// The counters of one gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meters(Arc<MeterSet>);

pub(crate) struct MeterSet {
    connections: Gauge,
    pub(crate) participants: Gauge,
    pub(crate) rooms: Gauge,
    pub(crate) catalogue_items: Gauge,
    pub(crate) catalogue_bytes: Gauge,
    pub(crate) catalogue_lists_left_out: Gauge,
    pub(crate) appends: Counter,
    pub(crate) deliveries: Counter,
    pub(crate) append_seconds: Histogram,
    pub(crate) delivery_seconds: Histogram,
    pub(crate) lag: Histogram,
    refusals: Vec<(Code, Counter)>,
    prometheus: PrometheusHandle,
}

impl std::ops::Deref for Meters {
    type Target = MeterSet;
    fn deref(&self) -> &MeterSet {
        &self.0
    }
}

impl Meters {
    pub(crate) fn new() -> Result<Self, BuildError> {
        let matcher = |name: &str| metrics_exporter_prometheus::Matcher::Full(name.into());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(matcher("salon_append_seconds"), &LATENCY)?
            .set_buckets_for_metric(matcher("salon_delivery_seconds"), &LATENCY)?
            .set_buckets_for_metric(matcher("salon_reader_lag"), &LAG)?
            .build_recorder();
        let prometheus = recorder.handle();
        // A recorder of its own rather than the process's: two gateways in one process count apart.
        let inner = metrics::with_local_recorder(&recorder, || {
            describe();
            MeterSet {
                connections: metrics::gauge!("salon_connections"),
                participants: metrics::gauge!("salon_participants"),
                rooms: metrics::gauge!("salon_rooms"),
                catalogue_items: metrics::gauge!("salon_catalogue_items"),
                catalogue_bytes: metrics::gauge!("salon_catalogue_bytes"),
                catalogue_lists_left_out: metrics::gauge!("salon_catalogue_lists_left_out"),
                appends: metrics::counter!("salon_appends_total"),
                deliveries: metrics::counter!("salon_deliveries_total"),
                append_seconds: metrics::histogram!("salon_append_seconds"),
                delivery_seconds: metrics::histogram!("salon_delivery_seconds"),
                lag: metrics::histogram!("salon_reader_lag"),
                refusals: Code::ALL
                    .iter()
                    .map(|&code| (code, metrics::counter!("salon_refusals_total", "code" => code.word())))
                    .collect(),
                prometheus,
            }
        });
        Ok(Self(Arc::new(inner)))
    }

    /// Counts one more open connection, until the returned value is dropped: also by a panic.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.connections.increment(1);
        OpenConnection(self.clone())
    }

    /// Entries that became readable together were handed to one connection.
    pub(crate) fn delivered(&self, entries: &[Arc<Entry>]) {
        let Some(newest) = entries.last() else { return };
        self.deliveries.increment(entries.len() as u64);
        let turn = TURN.get();
        TURN.set((turn + 1) % SAMPLED);
        if turn == 0 {
            let passed = clock::now().0.saturating_sub(newest.arrived.0);
            self.delivery_seconds.record(passed as f64 / 1000.0);
        }
    }

    pub(crate) fn refused(&self, code: Code) {
        if let Some((_, counter)) = self.refusals.iter().find(|(known, _)| *known == code) {
            counter.increment(1);
        }
    }

    /// The text Prometheus reads.
    pub(crate) fn render(&self) -> String {
        self.prometheus.run_upkeep();
        self.prometheus.render()
    }

    /// Keeps histograms from growing while nobody reads them.
    pub(crate) fn upkeep(&self) {
        self.prometheus.run_upkeep();
    }
}

/// A connection that is counted as open.
pub(crate) struct OpenConnection(Meters);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.decrement(1);
    }
}

fn describe() {
    metrics::describe_gauge!("salon_connections", "Connections that are open now");
    metrics::describe_gauge!("salon_participants", "Participants present in the rooms open on this node");
    metrics::describe_gauge!("salon_rooms", "Rooms open on this node");
    metrics::describe_gauge!("salon_catalogue_items", "Tools, prompts and resources in the catalogues of rooms");
    metrics::describe_gauge!("salon_catalogue_bytes", Unit::Bytes, "What the catalogues of rooms weigh");
    metrics::describe_gauge!("salon_catalogue_lists_left_out", "Lists too long for the catalogue of their room");
    metrics::describe_counter!("salon_appends_total", "Envelopes stored");
    metrics::describe_counter!("salon_deliveries_total", "Stored envelopes sent to connections");
    metrics::describe_counter!("salon_refusals_total", "Messages and requests refused, by code");
    metrics::describe_histogram!("salon_append_seconds", Unit::Seconds, "From judging a draft to its being durable");
    metrics::describe_histogram!(
        "salon_delivery_seconds",
        Unit::Seconds,
        "From an entry's arrival to its being handed to a socket, for one delivery in sixteen"
    );
    metrics::describe_histogram!("salon_reader_lag", "How far readers are behind the newest entry, in log offsets");
}
