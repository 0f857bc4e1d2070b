//! A real model's GGUF file with other types: our greedy ids of what is written, and llama.cpp's.
mod rig;

use rig::{NATIVE, Rig, best, open_gguf};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::export::{self, Making};
use rinfer_engine::load::Opened;
use rinfer_formats::Gguf;
use rinfer_formats::gguf::recipe::Recipe;
use rinfer_kernels::Kernels;
use rinfer_testkit::shared::{llama, model};
use rinfer_text::tokenizer::Special;
use std::path::PathBuf;

const PROMPT: &str = "The three largest cities of France are";
const COUNT: usize = 48;

/// By how much a logit may fall short of the best where llama.cpp, which rounds activations otherwise,
/// chose another token.
const NEAR: f32 = 0.5;

/// `tools/bench_peer/quantise` makes the file. The ids agree, but where two tokens are almost as likely: then ours is asked of theirs what comes next.
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
        let files = export::save(&opened, &Making { quant, threads: cpus, split }, &out).unwrap();
        assert_eq!(files.len() > 1, split.is_some());
        let job = serde_json::json!({"file": files[0], "ids": ids, "greedy": COUNT});
        let theirs = llama.ask(&[job]).remove(0);
        let theirs: Vec<i32> =
            serde_json::from_value(theirs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let gguf = Gguf::open(&files[0]).unwrap();
        let limits = Limits { context: 128, positions: 128, slots: 1, batch: 64, ..NATIVE };
        let mut rig = Rig::load(&open_gguf(&gguf), &limits, cpus, Kernels::best());
        let ours = rig.greedy(&ids, COUNT);
        let alike = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let all = [&ids[..], &theirs].concat();
        let logits = rig.run(&all, 64);
        let rows = logits.chunks(rig.vocab).skip(ids.len() - 1).zip(&theirs);
        let short = rows.map(|(row, id)| row[best(row)] - row[*id as usize]);
        let (mut same, mut most) = (0, 0f32);
        short.for_each(|short| {
            same += usize::from(short == 0.0);
            most = most.max(short);
        });
        println!("{name}: the first {alike} ids alike, {same} of {COUNT} after theirs, by {most}");
        if most > NEAR || name == "f16" && alike < COUNT {
            wrong.push(format!("{name}: {most} short, {ours:?}, not {theirs:?}"));
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
