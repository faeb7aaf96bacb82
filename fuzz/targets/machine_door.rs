#![no_main]

salon_fuzz::fuzz!("machine_door");
