//! What a worker does.

mod history;
mod leases;
mod outages;
mod outcomes;
mod processes;
mod producers;
mod proxy;
mod receiver;
mod stage;
mod triage;
