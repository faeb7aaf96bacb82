//! A bridge as it runs: the runner with a real gateway, a platform of the tests' own, and crashes; IRC over TLS, and beyond a limit.

mod crashes;
mod encrypted_irc;
mod limited_irc;
mod platform;
