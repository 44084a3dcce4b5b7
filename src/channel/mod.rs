//! Room of the service.
#[cfg(test)]
mod scratch;
