//! Knobs: read, plan, apply, check the effect, undo; the journal.
