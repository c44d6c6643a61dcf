//! What a worker does.

mod by_hand;
mod connections;
mod draining;
mod history;
mod large_messages;
mod leases;
mod native;
mod outages;
mod outcomes;
mod processes;
mod producers;
mod proxy;
mod receiver;
mod stage;
mod triage;
