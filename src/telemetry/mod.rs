//! Room of the service.
