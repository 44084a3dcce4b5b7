//! Black-box tests: the built binary over HTTP, with a real Postgres and a database for each test. One test binary,
//! because linking is slow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod app;
mod evidence;
mod proxy;

mod answers;
mod bad_input;
mod chaos;
mod commands;
mod crash_matrix;
mod database;
mod durability;
mod limits;
mod logs;
mod long_replies;
mod operators;
mod privacy;
mod recovery;
mod rooms;
mod two_processes;
