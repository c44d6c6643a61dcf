//! A worker of one's own: it charges payments, and knows when no retry will help.

use std::process::ExitCode;

use serde::Deserialize;
use sqlstreams::consumer::{Failure, Message, run, terminal};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payment {
    order_id: String,
    amount: i64,
}

async fn charge(message: Message) -> Result<(), Failure> {
    let payment: Payment = message.json().map_err(|_| terminal("the payload is no payment"))?;
    match payment.amount {
        1.. => println!("charged {} for {}", payment.amount, payment.order_id),
        0 => Err(format!("{}: the provider does not answer", payment.order_id))?,
        _ => return Err(terminal(format!("{}: the amount is negative", payment.order_id))),
    }
    Ok(())
}

fn main() -> ExitCode {
    run(charge)
}
