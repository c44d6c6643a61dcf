//! What a worker does.

mod history;
mod outcomes;
mod producers;
mod receiver;
mod stage;
mod triage;
