//! StreamDatabase: from a Secret to a schema that is up to date.

mod apply;
mod dereference;
mod status;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use super::context::Context;
use super::databases::{DatabaseKey, Live};
use super::error::Problem;
use super::reconcile::Managed;
use crate::api::StreamDatabase;

pub(crate) use dereference::tls_mode;

impl Managed for StreamDatabase {
    const KIND: &'static str = "StreamDatabase";
    /// Secrets are not watched, so that no right to list them is needed: each database reads its
    /// own again, which is also when a database that went away is noticed.
    const RESYNC: Duration = Duration::from_secs(10);

    async fn reconcile(&self, context: &Context) -> Result<(), Problem> {
        let mut facts = status::Facts::default();
        let result = look(self, context, &mut facts).await;
        status::write(context, self, &facts, result.as_ref().err()).await?;
        result
    }

    async fn clean_up(&self, context: &Context) -> Result<(), Problem> {
        let users = dereference::users(context, self).await?;
        if users.is_empty() {
            context.databases.forget(&key(self));
            return Ok(());
        }
        // Its users need it for their own clean-up, also when the operator was started only now.
        look(self, context, &mut status::Facts::default()).await?;
        Err(Problem::Reported {
            condition: crate::api::conditions::READY,
            reason: "InUse",
            message: format!("waits for the Streams that use it: {}", users.join(", ")),
        })
    }

    async fn report_clean_up(&self, context: &Context, problem: &Problem) -> Result<(), Problem> {
        status::write(context, self, &status::Facts::default(), Some(problem)).await
    }
}

/// Takes the steps, and makes what came of them known to those who use the database.
async fn look(resource: &StreamDatabase, context: &Context, facts: &mut status::Facts) -> Result<(), Problem> {
    let result = steps(resource, context, facts).await;
    match &result {
        Ok(live) => context.databases.succeed(key(resource), Arc::clone(live)),
        Err(problem) => context.databases.fail(key(resource), problem),
    }
    result.map(|_| ())
}

async fn steps(resource: &StreamDatabase, context: &Context, facts: &mut status::Facts) -> Result<Arc<Live>, Problem> {
    let login = dereference::login(context, resource).await?;
    let live = apply::connect(context, resource, login, facts).await?;
    apply::migrate(&live.database, facts).await?;
    facts.streams = Some(live.database.count_streams().await?);
    Ok(live)
}

/// The resource by namespace and name.
fn key(resource: &StreamDatabase) -> DatabaseKey {
    DatabaseKey {
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
    }
}
