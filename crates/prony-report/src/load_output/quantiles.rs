//! HdrHistogram's quantile distribution: the text that `HdrHistogramVisualizer` and
//! hdrhistogram.github.io/HdrHistogram/plotFiles.html draw.
//!
//! Columns and footer are those of `AbstractHistogram.outputPercentileDistribution` (HdrHistogram 2.2) with three digits and
//! a scaling of 1,000,000: values in milliseconds.

use prony_model::Latency;
use prony_stats::Histogram;

/// Sub-buckets of a histogram with three digits: the power of two above 2 * 10^3.
const SUB_BUCKETS: u32 = 2048;

/// The distribution; without values only heading and footer.
pub fn hgrm(latency: &Latency) -> String {
    let histogram = Histogram::from_hdr_v2(&latency.hdr_v2).unwrap_or_default();
    let mut out = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    for row in histogram.quantile_rows() {
        out.push_str(&format!("{:>12.3} {:>14.12} {:>10}", row.value_us / 1e3, row.quantile, row.count));
        if row.quantile < 1.0 {
            out.push_str(&format!(" {:>14.2}", 1.0 / (1.0 - row.quantile)));
        }
        out.push('\n');
    }
    let (mean, stdev, max) = (histogram.mean_us() / 1e3, histogram.stdev_us() / 1e3, histogram.max_us() / 1e3);
    out.push_str(&format!("#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]\n"));
    out.push_str(&format!("#[Max     = {max:>12.3}, Total count    = {:>12}]\n", histogram.count()));
    out.push_str(&format!("#[Buckets = {:>12}, SubBuckets     = {SUB_BUCKETS:>12}]\n", histogram.buckets()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::sample;
    use expect_test::expect;

    #[test]
    fn is_laid_out_as_by_hdrhistogram() {
        let text = hgrm(&sample::latency([1, 2, 3, 4]));
        expect![[r#"
                   Value     Percentile TotalCount 1/(1-Percentile)

                   1.000 0.000000000000          1           1.00
                   1.000 0.100000000000          1           1.11
                   1.000 0.200000000000          1           1.25
                   2.001 0.300000000000          2           1.43
                   2.001 0.400000000000          2           1.67
                   2.001 0.500000000000          2           2.00
                   3.000 0.550000000000          3           2.22
                   3.000 0.600000000000          3           2.50
                   3.000 0.650000000000          3           2.86
                   3.000 0.700000000000          3           3.33
                   4.002 0.750000000000          4           4.00
                   4.002 1.000000000000          4
            #[Mean    =        2.500, StdDeviation   =        1.118]
            #[Max     =        4.002, Total count    =            4]
            #[Buckets =           20, SubBuckets     =         2048]
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn nothing_recorded_is_a_heading_and_a_footer() {
        expect![[r#"
                   Value     Percentile TotalCount 1/(1-Percentile)

            #[Mean    =        0.000, StdDeviation   =        0.000]
            #[Max     =        0.000, Total count    =            0]
            #[Buckets =           20, SubBuckets     =         2048]
        "#]]
        .assert_eq(&hgrm(&Latency::default()));
    }

    /// As plotFiles.html does: lines of four numbers, the fourth is x and the first is y.
    #[test]
    fn the_plotter_finds_its_points() {
        let result = sample::result();
        let text = hgrm(&result.latency);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().starts_with("Value"))
            .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
            .filter(|fields: &Vec<f64>| fields.len() == 4)
            .collect();
        assert!(rows.len() > 20);
        assert!(rows.windows(2).all(|w| w[0][0] <= w[1][0] && w[0][2] <= w[1][2] && w[0][3] < w[1][3]), "{text}");
        let median = rows.iter().find(|row| row[1] >= 0.5).unwrap();
        assert!((median[0] * 1e3 / result.latency.p50_us - 1.0).abs() < 1e-3, "{median:?}");
    }
}
