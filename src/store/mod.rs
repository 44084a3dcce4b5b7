//! Everything that talks to Postgres: pool, SQL by table group, migrations, the embedded server (ARC-6).
//! Owns: every SQL statement, the schema and its migrations, the private server process of development.
//! Never: decides what a turn does, reads the environment's meaning, or shows a driver's raw error (DB-5).

pub mod embedded;
pub mod migrations;
