//! Histograms, quantiles, steady state, intervals, A/B, elasticity, knee. Pure; every formula cites its source.
