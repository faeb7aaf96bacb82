#![no_main]

salon_fuzz::fuzz!("draft_door");
