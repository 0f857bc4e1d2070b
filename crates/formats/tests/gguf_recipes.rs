//! Recipes choose what llama.cpp chose: `goldens/gguf_recipes.json` has the types of every tensor of
//! the goldens' GGUF copies, in the order of their names, as its quantiser made them.
use rinfer_formats::gguf::Value;
use rinfer_formats::gguf::recipe::{Facts, RECIPES};
use rinfer_formats::{DType, Gguf, Weights};
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::shared::goldens;
use serde_json::Value as Json;

/// The letters of the types.
const LETTERS: [(DType, char); 15] = [
    (DType::F32, 'f'),
    (DType::F16, 'h'),
    (DType::Bf16, 'b'),
    (DType::Q4_0, '0'),
    (DType::Q4_1, '1'),
    (DType::Q5_0, '5'),
    (DType::Q5_1, '6'),
    (DType::Q8_0, '8'),
    (DType::Q2_K, 'B'),
    (DType::Q3_K, 'C'),
    (DType::Q4_K, 'D'),
    (DType::Q5_K, 'E'),
    (DType::Q6_K, 'F'),
    (DType::IQ4_NL, 'N'),
    (DType::MXFP4, 'M'),
];

#[test]
fn types_are_llama_cpps() {
    let text = std::fs::read(goldens().join("gguf_recipes.json")).expect("the recorded types");
    let recorded: Json = serde_json::from_slice(&text).expect("JSON");
    let mut wrong = Vec::new();
    for (case, recipes) in recorded.as_object().expect("an object") {
        // It has fewer bits than others for MLPs, and 8 for its head.
        if case.starts_with("falcon_") && !case.starts_with("falcon_h1") {
            continue;
        }
        let path = goldens().join("gguf").join(case);
        let gguf = Gguf::parse(&path, GgufGolden::load(&path).bytes).expect("a GGUF");
        let mut names = gguf.names();
        names.sort_unstable();
        for recipe in RECIPES {
            let tensors: Vec<_> =
                names.iter().map(|n| (*n, gguf.get(n).expect("a tensor"))).collect();
            let chosen = recipe.types(tensors.iter().map(|(n, t)| (*n, &*t.shape)), &facts(&gguf));
            let letter = |(name, tensor): &(&str, rinfer_formats::Tensor<'_>)| {
                let dtype = chosen.get(name).copied().unwrap_or(tensor.dtype);
                LETTERS.iter().find(|l| l.0 == dtype).expect("a type of recipes").1
            };
            let found: String = tensors.iter().map(letter).collect();
            let expected = recipes[recipe.name].as_str().expect("letters");
            let odd =
                |((name, a), b): ((&&str, char), char)| (a != b).then(|| format!("{name} {a} {b}"));
            let odd: Vec<String> =
                names.iter().zip(found.chars()).zip(expected.chars()).filter_map(odd).collect();
            if !odd.is_empty() {
                wrong.push(format!("{case} {}: {}", recipe.name, odd.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "name, found, expected\n{}", wrong.join("\n"));
}

fn facts(gguf: &Gguf) -> Facts {
    let name = gguf.architecture().expect("an architecture");
    let first = |key: &str| match gguf.metadata().get(&format!("{name}.{key}")) {
        Some(Value::Array(all)) => all.scalars().and_then(|mut all| all.next()),
        one => one,
    };
    let number = |key: &str| match first(key) {
        Some(Value::Unsigned(n)) => n as usize,
        Some(Value::Signed(n)) => n as usize,
        _ => 0,
    };
    let heads = number("attention.head_count");
    let keys =
        first("attention.head_count_kv").map_or(heads, |_| number("attention.head_count_kv"));
    Facts {
        layers: number("block_count"),
        experts: number("expert_count"),
        shared: heads.checked_div(keys).unwrap_or(0),
    }
}
