//! Probe, tune and load behind typed messages. The only code that needs root.
