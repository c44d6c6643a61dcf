//! What needs neither a database nor a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod answers;
mod crds;
mod durations;
mod error_texts;
mod fingerprints;
mod identifiers;
mod request_headers;
mod retries;
