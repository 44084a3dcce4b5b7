//! Black-box tests: the built binary over HTTP, with a real Postgres and a database for each test. One test binary,
//! because linking is slow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod app;
mod devtools;
mod proxy;
mod quoting_server;
mod stub_manychat;

mod answers;
mod bad_input;
mod browser;
mod commands;
mod configuration;
mod database;
mod dead_letters;
mod durability;
mod image;
mod handoffs;
mod limits;
mod logs;
mod long_replies;
mod operators;
mod playground;
mod personal_data;
mod privacy;
mod raw_http;
mod rooms;
mod surface;
mod unusable_database;
