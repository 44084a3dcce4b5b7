//! What the proofs of ARC-60 and ARC-60a have in common: the world outside the service as one journal of what clients
//! and ManyChat saw, a fleet of processes on one Postgres, and the checker that reads the journal.

pub mod cell;
pub mod checker;
pub mod fleet;
pub mod journal;
pub mod outside;
pub mod wire;
