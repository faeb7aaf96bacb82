#![no_main]

salon_fuzz::fuzz!("mcpx_door");
