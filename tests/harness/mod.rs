//! A throw-away Postgres for tests, from the binaries that are installed.
//!
//! ```ignore
//! #[path = "../harness/mod.rs"]
//! mod harness;
//! let database = harness::postgres().await.installed().await;
//! ```
//!
//! One server per test binary, one database per test. A small shell process holds the server and
//! waits on a pipe from the test process: however that ends, by success, a panic or a kill, the
//! pipe closes and the shell stops the server and removes its folder.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

mod binaries;
pub mod kubernetes;
mod pooler;
mod server;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlstreams::database::{Database, Schema, migrate};
use sqlx::{Connection, PgConnection, PgPool};

#[allow(unused_imports)]
pub use pooler::Pooler;
pub use server::Server;

static SERVER: OnceLock<Server> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// The server of this test binary, started when it is first asked for.
pub async fn postgres() -> &'static Server {
    SERVER.get_or_init(Server::start)
}

/// A database of one test.
pub struct TestDatabase {
    /// Where it is.
    pub url: String,
    /// Connections to it.
    pub pool: PgPool,
}

impl Server {
    /// A new, empty database.
    pub async fn database(&self) -> TestDatabase {
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect(&self.url("postgres"))
            .await
            .expect("the server answers");
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create)
            .execute(&mut connection)
            .await
            .expect("a database can be created");
        connection.close().await.expect("the connection closes");
        let url = self.url(&name);
        let pool = PgPool::connect_lazy(&url).expect("the URL is one");
        TestDatabase { url, pool }
    }

    /// A new database with the schema of an installation.
    pub async fn installed(&self) -> TestDatabase {
        let database = self.database().await;
        migrate::migrate(&database.pool, &Schema::default())
            .await
            .expect("the schema can be made");
        database
    }
}

impl TestDatabase {
    /// The installation in it.
    pub fn installation(&self) -> Database {
        Database {
            pool: self.pool.clone(),
            schema: Schema::default(),
        }
    }
}
