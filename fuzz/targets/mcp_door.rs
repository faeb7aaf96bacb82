#![no_main]

salon_fuzz::fuzz!("mcp_door");
