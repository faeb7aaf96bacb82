#![no_main]

salon_fuzz::fuzz!("framed_door");
