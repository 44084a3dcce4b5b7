//! Black-box tests: the built binary over HTTP, with a real Postgres and a database for each test. One test binary,
//! because linking is slow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod app;
mod devtools;
mod evidence;
mod proxy;
mod quoting_server;
mod stub_manychat;
mod stub_model;
mod stub_providers;

mod acts;
mod answers;
mod attacks;
mod bad_input;
mod browser;
mod budgets;
mod chaos;
mod commands;
mod configuration;
mod connections;
mod conversations;
mod crash_matrix;
mod database;
mod dead_letters;
mod delivery;
mod durability;
mod eval_page;
mod evals;
mod failover;
mod handoffs;
mod hostile;
mod image;
mod lanes;
mod late_failures;
mod limits;
mod logs;
mod long_replies;
mod mass_death;
mod model_check;
mod operators;
mod pauses;
mod personal_data;
mod playground;
mod pooler;
mod privacy;
mod race;
mod raw_http;
mod recovery;
mod rooms;
mod safeguards;
mod surface;
mod tokens;
mod two_processes;
mod unusable_database;
