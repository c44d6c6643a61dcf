//! The numbers by which Postgres knows things, each of a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
        #[serde(transparent)]
        #[sqlx(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

id! {
    /// `stream_config.id`, which the tables of the stream carry in their names.
    StreamId
}
id! {
    /// `consumer_group_config.id`.
    GroupId
}
id! {
    /// `message_log_N.id`: the place of a message in its stream, from 1, with gaps where a
    /// publishing transaction was rolled back.
    MessageId
}
id! {
    /// `claim_N.id`.
    ClaimId
}
