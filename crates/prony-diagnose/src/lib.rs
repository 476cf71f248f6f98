//! Pure: Run -> Diagnosis. One cause per file. No IO, cannot fail; missing facts become gaps.
