#![no_main]

salon_fuzz::fuzz!("token");
