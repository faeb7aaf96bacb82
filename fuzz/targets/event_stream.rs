#![no_main]

salon_fuzz::fuzz!("event_stream");
