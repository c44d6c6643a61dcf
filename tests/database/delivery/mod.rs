//! What a worker does.

mod outcomes;
mod stage;
