//! Room of the service.

pub mod request;
