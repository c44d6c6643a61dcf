//! What the operator does to and with a real API server.
//!
//! No controllers of Kubernetes itself run beside it: the tests play the garbage collector and the
//! kubelet where it takes one.

#![allow(clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod children;
mod database_faults;
mod deletion;
mod numbers;
mod operator;
mod ownership;
mod refused;
mod status;
