//! The loop as a state machine without IO, and a driver.
