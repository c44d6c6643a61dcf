//! Who is given the messages.

pub mod http;

use super::message::Message;
use super::outcome::Outcome;

/// Handles one message at a time; called from several tasks at once.
pub trait Handler: Send + Sync + 'static {
    /// Handles `message` and tells how it went. May be dropped before it is done, when the worker
    /// has lost its lease or must end; the message is then given to a handler again.
    fn handle(&self, message: Message) -> impl Future<Output = Outcome> + Send;

    /// Where messages go, for people and for the record of a dead letter; without passwords.
    fn destination(&self) -> Option<&str> {
        None
    }
}
