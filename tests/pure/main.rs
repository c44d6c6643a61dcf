//! What needs neither a database nor a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod answers;
mod cli;
mod crds;
mod durations;
mod error_texts;
mod fingerprints;
mod hostile_receivers;
mod identifiers;
mod publish_lines;
mod request_headers;
mod retention_reports;
mod retries;
mod statistics_agenda;
mod statistics_catalog;
mod statistics_pace;
mod statistics_status;
