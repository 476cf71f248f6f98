//! How late prony sends in open loop, by the rate it is asked for: against a server that costs nothing, against nginx that answers from its
//! configuration (less work than prony has with the answer), and against nginx that does what it is mostly there for.
//!
//! Of other generators only the floor tells its lag: a bare loop that is as late says that the machine is. Invariant: in each round every row runs once, at a share of the limit
//! that this round's closed loop found on the same server.

use super::{GENERATOR_CPU, LoadArgs};
use crate::bench::pauses::{self, Clock};
use crate::bench::{load_average, machine, median, number_told, said_on, spread};
use serde_json::{Value, json};
use std::path::Path;

/// As `--only` calls it.
pub const NAME: &str = "schedule lag";
/// Schedule lag at p99, in microseconds. The bar, at [`BAR_SHARE`] of the limit.
const LAG_US_MAX: f64 = 50.0;
/// See [`LAG_US_MAX`].
const BAR_SHARE: f64 = 0.7;
/// Shares of the limit, up to that of the bar.
const SHARES: [f64; 4] = [0.3, 0.5, 0.6, BAR_SHARE];

/// A server under the load.
pub struct Server<'a> {
    /// As the table calls it.
    pub name: &'a str,
    /// Where it listens.
    pub port: u16,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Prony,
    Spinning,
    Floor,
}

/// The programs that send.
pub struct Programs<'a> {
    /// The engine's example.
    pub engine: &'a Path,
    /// The floor.
    pub floor: &'a Path,
    /// The loop that only reads the clock.
    pub clock: &'a Clock,
}

/// One line of the table.
struct Line<'a> {
    server: &'a Server<'a>,
    share: f64,
    sender: Sender,
    per_s: Vec<f64>,
    busy: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    p999_us: Vec<f64>,
    /// At p99, of requests that found a free connection; the floor does not tell.
    free_us: Vec<f64>,
}

/// Measures, and says it in a table.
pub fn measure(programs: &Programs<'_>, servers: &[Server<'_>], args: &LoadArgs) -> anyhow::Result<String> {
    let lines = |server| {
        SHARES.iter().flat_map(move |share| {
            [Sender::Prony, Sender::Spinning, Sender::Floor].map(|sender| Line {
                server,
                share: *share,
                sender,
                per_s: Vec::new(),
                busy: Vec::new(),
                p50_us: Vec::new(),
                p99_us: Vec::new(),
                p999_us: Vec::new(),
                free_us: Vec::new(),
            })
        })
    };
    let mut tables: Vec<Vec<Line<'_>>> = servers.iter().map(|server| lines(server).collect()).collect();
    let mut away = Vec::new();
    for _ in 0..args.rounds {
        away.push(programs.clock.away(GENERATOR_CPU, args.seconds, LAG_US_MAX, args.realtime)?);
        for table in &mut tables {
            let closed = load(programs.engine, table[0].server, args, json!({}))?;
            let limit_per_s = number_told(&closed, "completed_per_s")?;
            for line in table {
                line.measure(programs, limit_per_s, args)?;
            }
        }
    }
    let mut text = format!(
        "## How late prony sends\n\n\
         `cargo xtask bench load --only 'schedule lag' --rounds {} --seconds {}` on {}, load average {} after.\n\n\
         Schedule lag is how much later than intended a request left. Poisson arrivals, {} connections, one thread; the limit is \
         what prony's closed loop reached on the same server in the same round. `--spin`: the thread never sleeps. The floor is a bare epoll \
         loop in C that sends by the same schedule: where it is late as well, the machine is. A request that finds all connections busy \
         waits for the server, and its lag is the server's: so the lag at p99 is told for those, too, that found a free one. Busy is the share of its CPU in which a \
         thread had work to do; above 90 % a result is called generator-limited.\n\n\
         {}\n\n\
         | server | rate: of the limit | generator | requests/s | busy | lag p50, us | p99, us: median (least to most) | p99.9, us | p99 with a free connection, us | bar | p99 holds | with a free connection |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n",
        args.rounds,
        args.seconds,
        machine(),
        load_average(),
        args.connections,
        pauses::said(&away, LAG_US_MAX)
    );
    text.extend(tables.iter().flatten().map(Line::row));
    Ok(text)
}

impl Line<'_> {
    fn measure(&mut self, programs: &Programs<'_>, limit_per_s: f64, args: &LoadArgs) -> anyhow::Result<()> {
        let per_s = limit_per_s * self.share;
        // Connections open before anything is counted, as with prony's usual warm-up.
        let engine = |spin: bool| {
            let fields =
                json!({ "rate": format!("{per_s:.0}/s"), "arrivals": "poisson", "spin": spin, "warmup": "500ms" });
            load(programs.engine, self.server, args, fields)
        };
        let said = match self.sender {
            Sender::Prony => engine(false)?,
            Sender::Spinning => engine(true)?,
            Sender::Floor => {
                let rate = format!("{per_s:.0}");
                let words: [&dyn std::fmt::Display; 6] =
                    [&self.server.port, &args.connections, &args.seconds, &rate, &"poisson", &"lag"];
                said_on(GENERATOR_CPU, programs.floor, &words, args.realtime)?
            }
        };
        self.per_s.push(number_told(&said, "completed_per_s")?);
        self.busy.push(number_told(&said, "busy_share")?);
        self.p50_us.push(number_told(&said, "lag_p50_us")?);
        self.p99_us.push(number_told(&said, "lag_p99_us")?);
        self.p999_us.push(number_told(&said, "lag_p999_us")?);
        if self.sender != Sender::Floor {
            self.free_us.push(number_told(&said, "lag_free_p99_us")?);
        }
        Ok(())
    }

    fn row(&self) -> String {
        let middle = |values: &[f64]| median(values).unwrap_or_default();
        let judged = self.share == BAR_SHARE && self.sender != Sender::Floor;
        format!(
            "| {} | {:.0} % | {} | {:.0} | {:.0} % | {:.1} | {} | {:.0} | {} | {} | {} | {} |\n",
            self.server.name,
            100.0 * self.share,
            match self.sender {
                Sender::Prony => "prony",
                Sender::Spinning => "prony `--spin`",
                Sender::Floor => "floor",
            },
            middle(&self.per_s),
            100.0 * middle(&self.busy),
            middle(&self.p50_us),
            spread(&self.p99_us, 0),
            middle(&self.p999_us),
            if self.free_us.is_empty() { "-".to_string() } else { spread(&self.free_us, 0) },
            if judged { format!("{LAG_US_MAX:.0} us") } else { "none".to_string() },
            if judged { super::table::held(&self.p99_us, LAG_US_MAX) } else { String::new() },
            if judged { super::table::held(&self.free_us, LAG_US_MAX) } else { String::new() },
        )
    }
}

/// One run of the engine; what it printed.
fn load(engine: &Path, server: &Server<'_>, args: &LoadArgs, mut fields: Value) -> anyhow::Result<String> {
    fields["connections"] = json!(args.connections);
    fields["duration"] = json!(format!("{}s", args.seconds));
    said_on(GENERATOR_CPU, engine, &[&format!("http://127.0.0.1:{}/", server.port), &fields], args.realtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_that_of_its_share() {
        let server = Server { name: "nginx", port: 1 };
        let line = |share, sender| Line {
            server: &server,
            share,
            sender,
            per_s: vec![42_000.0],
            busy: vec![0.314],
            p50_us: vec![3.7],
            p99_us: vec![12.0, 60.0, 15.0],
            p999_us: vec![300.0],
            free_us: if sender == Sender::Floor { Vec::new() } else { vec![9.0] },
        };
        let rows = [(0.5, Sender::Prony), (0.7, Sender::Spinning), (0.7, Sender::Floor)].map(|(s, g)| line(s, g).row());
        assert_eq!(
            rows,
            [
                "| nginx | 50 % | prony | 42000 | 31 % | 3.7 | 15 (12 to 60) | 300 | 9 (9 to 9) | none |  |  |\n",
                "| nginx | 70 % | prony `--spin` | 42000 | 31 % | 3.7 | 15 (12 to 60) | 300 | 9 (9 to 9) | 50 us | yes, 2 of 3 | yes, 1 of 1 |\n",
                "| nginx | 70 % | floor | 42000 | 31 % | 3.7 | 15 (12 to 60) | 300 | - | none |  |  |\n"
            ]
        );
    }
}
