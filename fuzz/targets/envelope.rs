#![no_main]

salon_fuzz::fuzz!("envelope");
