//! sqlstreams manages message streams in plain Postgres as Kubernetes resources.
//!
//! Four streets lead through the crate, each a straight way in:
//!
//! - a manifest: [`api`] -> `controllers` -> [`database`], and Deployments, CronJobs and status;
//! - a message: [`database`] -> `delivery` -> the handler -> [`database`];
//! - a dead letter: [`database`] -> `cli`;
//! - numbers: [`database`] -> `statistics` -> status, metrics and `cli`.

pub mod api;
pub mod cli;
pub mod consumer;
pub mod controllers;
pub mod database;
pub mod delivery;
pub mod http;
pub mod statistics;
pub mod telemetry;
pub mod tls;
