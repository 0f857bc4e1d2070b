//! A real model's GGUF file with other types: our greedy ids of what is written, and llama.cpp's.
mod rig;

use rig::{NATIVE, Rig, best, open_gguf};
use rinfer_engine::backend::{Kv, Limits, Quant};
use rinfer_engine::export::{self, Making};
use rinfer_engine::load::Opened;
use rinfer_formats::Gguf;
use rinfer_formats::gguf::recipe::Recipe;
use rinfer_kernels::Kernels;
use rinfer_testkit::shared::{floats, llama, model};
use rinfer_text::tokenizer::Special;
use std::path::PathBuf;

const PROMPT: &str = "The three largest cities of France are";
const COUNT: usize = 48;

/// By how much our logits may be further from those of exact products than llama.cpp's are: both round
/// activations to 8 bits, each in its own way.
const FURTHER: f32 = 1.25;

/// Below this, distances say nothing: exact products are summed in another order.
const SUMMED: f32 = 1e-3;

/// What the engines make of a row: ours, llama.cpp's, and that of exact products of the same weights.
struct Step<'a> {
    ours: &'a [f32],
    theirs: &'a [f32],
    exact: &'a [f32],
}

impl Step<'_> {
    /// The best tokens of ours and theirs.
    fn best(&self) -> (usize, usize) {
        (best(self.ours), best(self.theirs))
    }
    /// By how much the first is better than the second: in ours, in theirs and exactly.
    fn gaps(&self, (a, b): (usize, usize)) -> [f32; 3] {
        [self.ours, self.theirs, self.exact].map(|row| row[a] - row[b])
    }
    /// Whether rounding decides between two tokens: exactly, they are no further apart than what rounding
    /// did to any logit of the row, in the engine that it did more to, up and down.
    fn tied(&self, pair: (usize, usize)) -> bool {
        let far = |row: &[f32]| {
            row.iter().zip(self.exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        self.gaps(pair)[2].abs() <= far(self.ours) + far(self.theirs)
    }
}

/// The root of the mean square of how far numbers are apart.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    (sum / a.len() as f64).sqrt() as f32
}

/// `tools/bench_peer/quantise` makes the file. Where ours is given what theirs said, the best tokens are the
/// same or tied, and our logits are as near to those of exact products as theirs.
#[test]
fn greedy_ids_are_llama_cpps() {
    let Some(llama) = llama() else { return };
    let Some(path) = model("smollm2-135m-instruct-f16.gguf") else { return };
    let opened = Opened::open(&path).unwrap();
    let ids = opened.language().unwrap().tokenizer.encode(PROMPT, Special::Plain);
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export_real");
    std::fs::create_dir_all(&dir).unwrap();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut wrong = Vec::new();
    let mut names = vec!["f16"];
    match cfg!(debug_assertions) {
        true => println!("quantising takes minutes without optimisation: only f16 was checked"),
        false => names.extend(["q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "iq4_nl", "mxfp4_moe"]),
    }
    for name in names {
        let quant = Recipe::of_name(name).map_or(Quant::Native, Quant::Gguf);
        // Named as a set where it is one.
        let out = dir.join(format!("{name}.gguf"));
        let split = (name == "q8_0").then_some(60_000_000);
        let making = Making { quant, threads: cpus, split, context: None };
        let files = export::save(&opened, &making, &out).unwrap().files;
        assert_eq!(files.len() > 1, split.is_some());
        let job = serde_json::json!({"file": files[0], "ids": ids, "greedy": COUNT});
        let said: Vec<i32> = serde_json::from_value(llama.ask(&[job]).remove(0))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let all = [&ids[..], &said].concat();
        let job = serde_json::json!({"file": files[0], "ids": all, "all": true});
        let theirs = floats(llama.ask(&[job]).remove(0).as_str().expect("logits"));
        let gguf = Gguf::open(&files[0]).unwrap();
        let run = |quant| {
            let limits = Limits {
                context: 128,
                positions: 128,
                slots: 1,
                batch: 64,
                quant,
                kv: Kv::F32,
                ..NATIVE
            };
            let mut rig = Rig::load(&open_gguf(&gguf), &limits, cpus, Kernels::best());
            (rig.run(&all, 64), rig.greedy(&ids, COUNT), rig.vocab)
        };
        let ((ours, own, vocab), (exact, ..)) = (run(Quant::Native), run(Quant::F32));
        let alike = own.iter().zip(&said).take_while(|(a, b)| a == b).count();
        let rows = |all: &[f32]| -> Vec<Vec<f32>> {
            all.chunks(vocab).skip(ids.len() - 1).take(COUNT).map(<[f32]>::to_vec).collect()
        };
        let (ours, theirs, exact) = (rows(&ours), rows(&theirs), rows(&exact));
        let mut other = Vec::new();
        for i in 0..COUNT {
            let step = Step { ours: &ours[i], theirs: &theirs[i], exact: &exact[i] };
            let pair = step.best();
            if pair.0 != pair.1 {
                println!("{name}, step {i}: {pair:?}, by {:?}", step.gaps(pair));
                other.push(i);
                if !step.tied(pair) {
                    wrong.push(format!("{name}: step {i} is no tie: {:?}", step.gaps(pair)));
                }
            }
        }
        let far = [&ours, &theirs].map(|all| apart(&all.concat(), &exact.concat()));
        println!(
            "{name}: the first {alike} of {COUNT} ids are alike; after theirs all but {other:?}; exact \
             logits are {:.4} from ours, {:.4} from theirs",
            far[0], far[1]
        );
        if far[0] > FURTHER * far[1] + SUMMED || name == "f16" && alike < COUNT {
            wrong.push(format!("{name}: {far:?}, {own:?}, not {said:?}"));
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
