//! Everything that talks to Postgres: the pool, each statement beside the function that runs it, the embedded
//! server and the migrations. Owns: SQL, connections, transactions, what a flight to the database is (ARC-30).
//! Never: decides what a turn does, calls a model or ManyChat, logs a driver's own error text (DB-5).

mod address;
mod binding;
mod error;
mod flight;
mod lease;
mod pool;
mod pulse;
mod statements;
mod tls;

pub mod acted;
pub mod actions;
pub mod attempts;
pub mod backfill;
pub mod contacts;
pub mod embedded;
pub mod eval_records;
pub mod follow_ons;
pub mod handoff_tags;
pub mod handoffs;
pub mod inbox;
pub mod lanes;
pub mod migrations;
pub mod notices;
pub mod open;
pub mod orphans;
pub mod outbox;
pub mod outbox_operator;
pub mod owed;
pub mod personal;
pub mod playground;
pub mod pooler;
pub mod processes;
pub mod rate;
pub mod retention;
pub mod second_run;
pub mod settle;
pub mod takeover;
#[cfg(test)]
pub mod testing;
pub mod tokens;

pub use address::{Address, AddressError};
pub use error::StoreError;
pub use pool::{Database, PoolLimits, connect};
pub use pulse::{Pulse, boot_clock_ms};

#[cfg(test)]
mod clock_tests;
