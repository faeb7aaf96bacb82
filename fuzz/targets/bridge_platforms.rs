#![no_main]

salon_fuzz::fuzz!("bridge_platforms");
