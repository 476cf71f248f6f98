//! `prony load`: a known load, with wrk's flags and output.

use crate::cli::LoadArgs;
use crate::output::print;
use crate::{BadArgument, Exit};
use crate::{calibrate, live, load_plan, otlp, source};
use anyhow::{Context, Result};
use prony_model::{LoadPlan, Stack};
use prony_report::load_output::{Format, LoadOutput};
use std::time::{SystemTime, UNIX_EPOCH};
