//! `prony serve`: web pages over the recorded runs, live ones included.
//!
//! Flags to settings, nothing more: the server is `prony-web`. Invariant: it measures nothing itself; an experiment is started as
//! a prony of its own.

use crate::cli::ServeArgs;
use crate::output::print;
use crate::{Exit, home, measure};
use anyhow::{Context, Result};
use prony_web::{Server, Settings, Tls, Token};
use std::sync::atomic::Ordering;

/// `prony serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit> {
    let runs = args.runs.clone().map_or_else(home::runs, Ok)?;
    let settings = Settings {
        runs,
        experiments: args.experiments.clone(),
        stacks: args.stacks.clone(),
        hosts: args.host.clone(),
        token: args.token_file.as_deref().map(Token::read).transpose()?,
        program: std::env::current_exe().context("cannot find out where this prony is")?,
    };
    let files = args.tls_cert.clone().zip(args.tls_key.clone());
    let tls = files.map(|(certificate, key)| Tls { certificate, key });
    let interrupted = measure::interrupts()?;
    let server = Server::bind(args.bind, tls.as_ref(), settings)?;
    print(&format!("pages at {}", server.url()?));
    server.serve(|| interrupted.load(Ordering::Relaxed))?;
    Ok(Exit::Done)
}
