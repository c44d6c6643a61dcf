//! Numbers, retention and publishing.

mod cli_publish;
mod counters;
mod installation;
mod progress;
mod publishing;
mod retention;
