//! When a failed message is tried again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Duration;

/// How the delay before a retry is drawn from its ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
pub enum Jitter {
    /// Evenly between nothing and the ceiling, at least one second.
    #[default]
    Full,
    /// The ceiling itself.
    None,
}

/// When a failed message is tried again. What is left out is taken from the Stream, then from the
/// defaults of the handler: 3 retries, or 7 for a handler with a URL; status.retryPolicy shows the
/// values in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Retries after the first attempt; 0 makes a message dead at its first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_retries: Option<u32>,
    /// Ceiling of the delay before the first retry. No retry comes sooner than after one second.
    /// 1s where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<Duration>,
    /// The ceiling grows up to this. 60s where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Duration>,
    /// What the ceiling is multiplied by for each further retry. 2 where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub factor: Option<u32>,
    /// Full where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
}
