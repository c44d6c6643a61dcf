//! What the program serves over HTTP.

pub mod probes;
