//! From a claim to a handler and back: what a worker does.
//!
//! A [`worker::Worker`] registers one instance after the other. While an instance lives, its tasks
//! share a board: the claimer puts messages on it, slots give them to the handler, the settler
//! records what became of them, and two more keep the lease and take over from workers that lost
//! theirs. When the lease is lost, all of that is dropped, and the next instance starts afresh.

mod batch;
mod board;
mod claimer;
pub mod fingerprint;
pub mod handler;
mod holdings;
mod lease;
pub mod link;
mod lost;
pub mod message;
pub mod metrics;
pub mod outcome;
mod pace;
mod panics;
pub mod retry;
mod session;
mod settler;
mod slot;
mod upkeep;
pub mod worker;
