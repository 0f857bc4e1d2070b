//! What was measured, to read or for a program.
use super::On;
use super::measure::{Measured, mean_and_deviation, median};
use super::roofline::FIGURES;
use super::table::table;
use rinfer_engine::profile::{Kind, Profile};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Rates are in tokens per second; units have no prefixes.
pub fn json(results: &[Measured], on: &On) -> String {
    let results: Vec<Value> = results.iter().map(|r| result(r, on)).collect();
    let report = json!({
        "model": on.model, "size_bytes": on.bytes, "parameters": on.parameters,
        "backend": on.backend, "tier": on.tier, "results": results,
    });
    format!("{report:#}\n")
}

fn result(r: &Measured, on: &On) -> Value {
    let rates = r.rates();
    let (mean, deviation) = mean_and_deviation(&rates);
    let mut result = json!({
        "test": r.test.name, "tokens": r.test.tokens, "depth": r.test.depth,
        "parallel": on.args.parallel, "threads": on.threads, "tok_per_s": median(rates.clone()),
        "mean": mean, "deviation": deviation, "least": least(&rates), "most": most(&rates),
        "runs": rates,
    });
    if on.args.profile {
        let profile = r.profile();
        let kind = |kind: Kind| {
            let (seconds, percent) = (profile[kind].seconds, percent(&profile, kind));
            (kind.name().to_owned(), json!({"seconds": seconds, "percent": percent}))
        };
        result["profile"] = Value::Object(Kind::ALL.into_iter().map(kind).collect());
    }
    if on.args.roofline {
        let figures = FIGURES.iter().map(|f| (f.key.to_owned(), json!(f.median(r))));
        result["roofline"] = Value::Object(figures.collect::<Map<_, _>>());
    }
    result
}

/// The columns of llama-bench, and how far the runs lie apart.
pub fn markdown(results: &[Measured], on: &On) -> String {
    let mut text = format!("{}, {} tier\n\n{}", on.model, on.tier, speeds(results, on));
    if on.args.profile {
        text += "\nWhere the time goes: microseconds a token and percent of the whole, all runs \
                 together\n\n";
        text += &profile(results);
    }
    if on.args.roofline {
        text += &format!(
            "\nAgainst what {} threads of this machine read from memory and what they multiply in \
             registers,\neach measured before and after a run, of which the better counts; medians \
             of the runs.\nGB: 10^9 bytes. TOP: 10^12 operations on weights, a multiply-add being \
             two; of matmuls (without\nthe head) in their own time, which in passes of more than 16 rows has \
             MLPs' activations in it,\nof the whole in all of it\n\n",
            on.threads
        );
        text += &roofline(results);
    }
    text
}

fn speeds(results: &[Measured], on: &On) -> String {
    let many = on.args.parallel > 1;
    let mut headers = vec!["model", "size", "params", "backend", "threads"];
    headers.extend(many.then_some("parallel"));
    headers.extend(["test", "t/s", "median", "least", "most"]);
    let row = |r: &Measured| {
        let rates = r.rates();
        let (mean, deviation) = mean_and_deviation(&rates);
        let mut row = vec![name(&on.model), size(on.bytes), count(on.parameters)];
        row.extend([on.backend.clone(), on.threads.to_string()]);
        row.extend(many.then(|| on.args.parallel.to_string()));
        row.extend([r.test.label(), format!("{mean:.2} ± {deviation:.2}")]);
        row.extend([median(rates.clone()), least(&rates), most(&rates)].map(|x| format!("{x:.2}")));
        row
    };
    table(&headers, &results.iter().map(row).collect::<Vec<_>>())
}

fn profile(results: &[Measured]) -> String {
    let units = results.iter().map(|r| format!("{} µs", r.test.label())).collect::<Vec<_>>();
    let mut headers = vec!["operation"];
    headers.extend(units.iter().flat_map(|unit| [unit.as_str(), "%"]));
    let row = |name: &str, of: &dyn Fn(&Profile) -> (f64, f64)| {
        let mut row = vec![name.to_owned()];
        for r in results {
            let (seconds, percent) = of(&r.profile());
            let micros = 1e6 * seconds / r.tokens() as f64;
            row.extend([format!("{micros:.1}"), format!("{percent:.1}")]);
        }
        row
    };
    let kind = |kind: Kind| row(kind.name(), &|p| (p[kind].seconds, percent(p, kind)));
    let mut rows: Vec<_> = Kind::ALL.into_iter().map(kind).collect();
    rows.push(row("whole", &|p| (p.total().seconds, 100.0)));
    table(&headers, &rows)
}

fn roofline(results: &[Measured]) -> String {
    let mut headers = vec!["test", "t/s"];
    headers.extend(FIGURES.iter().map(|figure| figure.header));
    let row = |r: &Measured| {
        let mut row = vec![r.test.label(), format!("{:.2}", median(r.rates()))];
        row.extend(FIGURES.iter().map(|figure| match figure.median(r) {
            Some(x) if figure.unit == 1.0 => format!("{x:.1}"),
            Some(x) => three(x / figure.unit),
            None => "-".to_owned(),
        }));
        row
    };
    table(&headers, &results.iter().map(row).collect::<Vec<_>>())
}

/// Percent of the whole.
fn percent(profile: &Profile, kind: Kind) -> f64 {
    100.0 * profile[kind].seconds / profile.total().seconds
}

fn least(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}

/// Three digits or, in front of the point, as many as there are.
fn three(x: f64) -> String {
    let decimals = [1.0, 10.0, 100.0].iter().filter(|limit| x < **limit).count();
    format!("{x:.decimals$}")
}

/// The file's or folder's.
fn name(model: &str) -> String {
    let name = Path::new(model).file_name().map_or(model.into(), |name| name.to_string_lossy());
    name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
}

fn size(bytes: usize) -> String {
    let (mib, gib) = (f64::from(1 << 20), f64::from(1 << 30));
    let bytes = bytes as f64;
    if bytes < gib { format!("{:.2} MiB", bytes / mib) } else { format!("{:.2} GiB", bytes / gib) }
}

fn count(parameters: usize) -> String {
    let n = parameters as f64;
    if n < 1e9 { format!("{:.2} M", n / 1e6) } else { format!("{:.2} B", n / 1e9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_llama_bench_writes_them() {
        assert_eq!((size(3_822_024_704), size(98 << 20)), ("3.56 GiB".into(), "98.00 MiB".into()));
        assert_eq!(
            (count(6_738_415_616), count(134_515_008)),
            ("6.74 B".into(), "134.52 M".into())
        );
        assert_eq!((name("a/b-1.5.gguf"), name("a/b-1.5/")), ("b-1.5".into(), "b-1.5".into()));
    }

    #[test]
    fn digits() {
        assert_eq!([1234.4, 34.56, 3.456, 0.012].map(three), ["1234", "34.6", "3.46", "0.012"]);
    }

    #[test]
    fn percents_are_of_the_whole() {
        let mut profile = Profile::default();
        profile[Kind::Norm].seconds = 1.0;
        profile[Kind::Head].seconds = 3.0;
        let all = Kind::ALL.map(|kind| percent(&profile, kind));
        assert_eq!(all, [0.0, 25.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 75.0, 0.0]);
    }
}
