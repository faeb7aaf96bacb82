#![no_main]

salon_fuzz::fuzz!("servers_file");
