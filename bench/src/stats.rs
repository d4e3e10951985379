//! Figures of many measurements of one thing.

use std::time::Duration;

use serde::Serialize;

/// One line of the result: what was measured, how often, and what it must not exceed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) measured: String,
    pub(crate) n: usize,
    /// Milliseconds.
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) bound: String,
    pub(crate) holds: bool,
}

/// What a row is held against, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Row {
    /// Summarises measurements. Percentiles are the smallest value that at least that share does not exceed.
    pub(crate) fn of(measured: &str, mut values: Vec<Duration>, bound: Bound) -> Row {
        values.sort();
        let ms = |d: Option<&Duration>| d.map_or(f64::NAN, |d| d.as_secs_f64() * 1000.0);
        let percentile = |p: f64| {
            let index = (values.len() as f64 * p).ceil() as usize;
            ms(values.get(index.saturating_sub(1)))
        };
        let (p50, p99, max) = (percentile(0.5), percentile(0.99), ms(values.last()));
        let within = |value: f64, bound: Option<f64>| bound.is_none_or(|b| value <= b);
        let named = |name: &str, bound: Option<f64>| bound.map(|b| format!("{name} ≤ {b} ms"));
        let bounds = [named("p50", bound.p50), named("p99", bound.p99), named("max", bound.max)];
        Row {
            measured: measured.to_owned(),
            n: values.len(),
            min: ms(values.first()),
            p50,
            p99,
            max,
            bound: bounds.into_iter().flatten().collect::<Vec<_>>().join(", "),
            holds: !values.is_empty()
                && within(p50, bound.p50)
                && within(p99, bound.p99)
                && within(max, bound.max),
        }
    }
}

/// Prints rows for people.
pub(crate) fn print(rows: &[Row]) {
    let width = rows.iter().map(|r| r.measured.chars().count()).max().unwrap_or(0);
    println!(
        "{:<width$}  {:>5}  {:>9}  {:>9}  {:>9}  {:>9}  bound",
        "measured (ms)", "n", "min", "p50", "p99", "max"
    );
    for r in rows {
        let verdict = if r.holds { "holds" } else { "MISSED" };
        println!(
            "{:<width$}  {:>5}  {:>9.2}  {:>9.2}  {:>9.2}  {:>9.2}  {} ({verdict})",
            r.measured, r.n, r.min, r.p50, r.p99, r.max, r.bound
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = (1..=200).map(Duration::from_millis).collect();
        let row = Row::of("x", values, Bound { p50: Some(100.0), p99: Some(197.0), max: None });
        assert_eq!((row.min, row.p50, row.p99, row.max), (1.0, 100.0, 198.0, 200.0));
        assert!(!row.holds, "p99 is above its bound");
        assert!(!Row::of("x", Vec::new(), Bound::default()).holds, "nothing measured is nothing held");
    }
}
