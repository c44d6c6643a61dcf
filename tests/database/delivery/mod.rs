//! What a worker does.

mod outcomes;
mod receiver;
mod stage;
mod triage;
