//! What the program does to and with a real Postgres.

#[path = "../harness/mod.rs"]
mod harness;

mod delivery;
mod installation;
mod numbers;
