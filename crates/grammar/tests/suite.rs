//! The official suite of JSON Schema. Of each schema that is taken, the valid instances are
//! reachable and the invalid ones are not.
//!
//! Instances are written compactly, with the properties that the schema names in the schema's order
//! and whole numbers without a fraction: what a grammar fixes.
#![expect(clippy::unwrap_used, reason = "tests")]
mod support;
use rinfer_grammar::{Fate, GrammarError, KEYWORDS};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use support::{compact, takes};

/// Instances that are valid but written as no grammar writes them.
const UNWRITTEN: [&str; 2] = [
    // Formats are kept here, which drafts let a reader choose.
    "is only an annotation by default",
    // A float of 2^53, which is written as a whole number.
    "9007199254740992.0",
];

/// All orders of an object's keys that a grammar may fix, for few keys.
fn orders(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() && f.fract() == 0.0 && f.abs() < 9e15 => vec![(f as i64).into()],
            _ => vec![value.clone()],
        },
        Value::Array(items) => {
            let mut all = vec![Vec::new()];
            for item in items {
                all = product(all, orders(item));
            }
            all.into_iter().map(Value::Array).collect()
        }
        Value::Object(map) if map.len() <= 4 => {
            let mut all = Vec::new();
            for keys in permutations(&map.keys().cloned().collect::<Vec<_>>()) {
                let mut objects = vec![Vec::new()];
                for key in &keys {
                    objects = product(objects, orders(&map[key]));
                }
                let object =
                    |values: Vec<Value>| keys.iter().cloned().zip(values).collect::<Map<_, _>>();
                all.extend(objects.into_iter().map(|v| Value::Object(object(v))));
            }
            all
        }
        _ => vec![value.clone()],
    }
}

fn product(all: Vec<Vec<Value>>, more: Vec<Value>) -> Vec<Vec<Value>> {
    let with = |a: &Vec<Value>, m: &Value| [a.clone(), vec![m.clone()]].concat();
    all.iter().flat_map(|a| more.iter().map(move |m| with(a, m))).take(300).collect()
}

fn permutations(keys: &[String]) -> Vec<Vec<String>> {
    if keys.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        let mut rest = keys.to_vec();
        rest.remove(i);
        all.extend(permutations(&rest).into_iter().map(|p| [vec![key.clone()], p].concat()));
    }
    all
}

#[derive(Default)]
struct Count {
    taken: usize,
    refused: usize,
    instances: usize,
    wrong: Vec<String>,
}

fn check(file: &Path, seven: bool, counts: &mut BTreeMap<String, Count>) {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let groups: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let count = counts.entry(name.clone()).or_default();
    for group in groups.as_array().unwrap() {
        let start = std::time::Instant::now();
        let mut schema = group["schema"].clone();
        if let (true, Some(map)) = (seven, schema.as_object_mut()) {
            map.entry("$schema").or_insert("http://json-schema.org/draft-07/schema#".into());
        }
        let never = |e: &GrammarError| e.to_string().contains("no value satisfies");
        let matcher = match compact(&schema) {
            Ok(matcher) => Some(matcher),
            Err(e) if never(&e) => None,
            Err(e) => {
                println!("{name}: {}: {e}", group["description"]);
                count.refused += 1;
                continue;
            }
        };
        count.taken += 1;
        if start.elapsed().as_millis() > 100 {
            println!("{name}: {}: {:?}", group["description"], start.elapsed());
        }
        for test in group["tests"].as_array().unwrap() {
            count.instances += 1;
            let valid = test["valid"].as_bool().unwrap();
            let written = orders(&test["data"]);
            let reached =
                matcher.as_ref().and_then(|m| written.iter().find(|v| takes(m, &v.to_string())));
            let label = format!(
                "{name}: {}: {}: {}",
                group["description"], test["description"], test["data"]
            );
            if valid != reached.is_some() && !UNWRITTEN.iter().any(|u| label.contains(u)) {
                count.wrong.push(format!(
                    "{} {label} under {schema}",
                    if valid { "unreachable" } else { "reachable" }
                ));
            }
        }
    }
}

fn run(folder: &str, seven: bool) {
    let Some(suite) = rinfer_testkit::shared::shared("suites/json-schema") else { return };
    let mut counts = BTreeMap::new();
    let mut files: Vec<_> =
        std::fs::read_dir(suite.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        check(file, seven, &mut counts);
    }
    let (mut taken, mut refused, mut instances, mut wrong) = (0, 0, 0, Vec::new());
    for (name, count) in &counts {
        println!(
            "{name}: {} schemas taken, {} refused, {} instances",
            count.taken, count.refused, count.instances
        );
        // A keyword that is kept has schemas that are taken.
        let fate = KEYWORDS.iter().find(|(keyword, _)| keyword == name).map(|(_, fate)| *fate);
        // Draft 7's file about definitions refers to the draft itself, which is elsewhere.
        if matches!(fate, Some(Fate::Kept | Fate::Partly(_))) && name != "definitions" {
            assert!(count.taken > 0, "{name}: none of its schemas is taken");
        }
        taken += count.taken;
        refused += count.refused;
        instances += count.instances;
        wrong.extend(count.wrong.iter().cloned());
    }
    println!("{folder}: {taken} schemas taken, {refused} refused, {instances} instances");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn draft_2020_12() {
    run("draft2020-12", false);
}

#[test]
fn draft_7() {
    run("draft7", true);
}

#[test]
fn formats() {
    let Some(suite) = rinfer_testkit::shared::shared("suites/json-schema") else { return };
    for (format, _, how) in rinfer_grammar::FORMATS {
        let file = suite.join(format!("draft2020-12/optional/format/{format}.json"));
        let mut counts = BTreeMap::new();
        check(&file, false, &mut counts);
        let count = &counts[format];
        let narrow = count.wrong.iter().filter(|w| w.starts_with("unreachable")).count();
        println!("{format}, {how}: {} instances, {narrow} valid ones unreachable", count.instances);
        let wrong: Vec<&String> =
            count.wrong.iter().filter(|w| how == "exact" || w.starts_with("reachable")).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
