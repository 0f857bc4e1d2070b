//! Checkpoints written as GGUF: what llama.cpp's converter writes of the same, and the same logits.
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
mod rig;

use rig::{LIMITS, Rig, distance, goldens, open_gguf};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::error::Result;
use rinfer_engine::export::{self, Making, Written};
use rinfer_engine::load::Opened;
use rinfer_formats::gguf::Value;
use rinfer_formats::gguf::recipe::Recipe;
use rinfer_formats::{Gguf, Weights};
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::shared::floats;
use rinfer_testkit::{Golden, chat, shared};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Writes one file.
fn save(opened: &Opened, quant: Quant, threads: usize, path: &Path) -> Result<Written> {
    export::save(opened, &Making { quant, threads, split: None, context: None }, path)
}
/// A folder of a test's own.
fn temporary(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export").join(test);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
fn logits(gguf: &Gguf, golden: &Golden) -> Vec<f32> {
    let (ids, ..) = golden.prompt(0);
    Rig::load(&open_gguf(gguf), &LIMITS, 2, Kernels::best()).run(&ids, ids.len())
}

/// Where converters differ from what a file must have: names for people, and other spellings of tokens.
fn compared(key: &str) -> bool {
    !key.starts_with("general.") && !key.starts_with("tokenizer.")
}

/// What a converter states although its readers know it, do not heed it, or have it from elsewhere.
fn implied(theirs: &Gguf, key: &str) -> bool {
    let value = theirs.metadata().get(key);
    let of = |k: &str| theirs.metadata().get(&format!("{}.{k}", theirs.architecture().unwrap()));
    let unscaled = matches!(of("rope.scaling.type"), None | Some(Value::Str("none")));
    match key.split_once('.').map_or(key, |(_, key)| key) {
        "expert_group_count" | "expert_group_used_count" => value == Some(Value::Unsigned(1)),
        "rope.scaling.type" | "rope.scaling.factor" | "rope.scaling.original_context_length" => {
            unscaled
        }
        "rope.freq_base" => value == Some(Value::Float(10_000.0)),
        // YaRN's own.
        "rope.scaling.yarn_attn_factor" => {
            let Some(Value::Float(factor)) = of("rope.scaling.factor") else { return false };
            value == Some(Value::Float((0.1 * (factor as f32).ln() + 1.0).into()))
        }
        // Of a model whose norms are no RMS norms.
        "attention.layer_norm_rms_epsilon" => of("attention.layer_norm_epsilon").is_some(),
        "tensor_data_layout" => true,
        // Another than the tensors have.
        "expert_shared_feed_forward_length" => key.starts_with("ernie"),
        // A value's before compression; the cache holds those after it.
        "attention.value_length" => of("attention.kv_lora_rank").is_some(),
        "context_length" => stated_context(theirs).is_some(),
        _ => false,
    }
}

/// The context that a converter states of all models of an architecture, if it does.
fn stated_context(theirs: &Gguf) -> Option<usize> {
    Some(match theirs.architecture().unwrap() {
        "falcon" => 2048,
        "granitehybrid" | "nemotron_h" | "nemotron_h_moe" => 1 << 20,
        "hunyuan-dense" => 1 << 18,
        _ => return None,
    })
}

/// How a written file differs from the converter's.
fn difference(ours: &Gguf, theirs: &Gguf, rounded: bool) -> Vec<String> {
    let mut found = Vec::new();
    let (a, b) = (ours.metadata(), theirs.metadata());
    for key in b.keys().filter(|key| compared(key)) {
        if plain(a.get(key)) != plain(b.get(key)) && !implied(theirs, key) {
            found.push(format!("{key} is {:?}, theirs {:?}", plain(a.get(key)), plain(b.get(key))));
        }
    }
    let (names, others) = (ours.names(), theirs.names());
    found
        .extend(names.iter().filter(|n| !others.contains(n)).map(|n| format!("{n} is ours alone")));
    found.extend(
        others.iter().filter(|n| !names.contains(n)).map(|n| format!("{n} is theirs alone")),
    );
    for name in names.iter().filter(|name| others.contains(name)) {
        let (a, b) = (ours.get(name).unwrap(), theirs.get(name).unwrap());
        // ggml has axes of one element beyond the outermost.
        let padded = |shape: &[usize]| {
            let ones = 4 - shape.len();
            [vec![1; ones], shape.to_vec()].concat()
        };
        let (ax, bx) = ((a.dtype, padded(&a.shape)), (b.dtype, padded(&b.shape)));
        let near = rounded && near(&a.bytes, &b.bytes);
        if ax != bx {
            found.push(format!("{name}: {ax:?}, theirs {bx:?}"));
        } else if a.bytes != b.bytes && !near {
            found.push(format!("{name}: {ax:?}, its bytes differ"));
        }
    }
    found
}

/// A value in words, a list of one number as that.
fn plain(value: Option<Value<'_>>) -> String {
    let number = |value: Value<'_>| match value {
        Value::Signed(n) => n.to_string(),
        Value::Unsigned(n) => n.to_string(),
        other => format!("{other:?}"),
    };
    let Some(Value::Array(array)) = value else {
        return value.map_or("nothing".into(), number);
    };
    let all: Vec<String> = match array.scalars() {
        Some(all) => all.map(number).collect(),
        None => return format!("{array:?}"),
    };
    if all.iter().all(|one| one == &all[0]) { all[0].clone() } else { all.join(" ") }
}

fn near(a: &[u8], b: &[u8]) -> bool {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    floats(a).iter().zip(floats(b)).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs())
}

/// What logarithms and divisors of frequencies that are rounded otherwise may cost.
const ROUNDED: f32 = 1e-4;

/// A checkpoint that llama.cpp's converter made a file of.
struct Twin {
    /// Of the golden and the file's type.
    name: String,
    golden: Golden,
    theirs: PathBuf,
    ours: PathBuf,
    folder: PathBuf,
}

fn twins(test: &str) -> Vec<Twin> {
    let root = shared::goldens().join("gguf");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    let twin = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let GgufGolden { golden, bytes } = GgufGolden::load(&path);
        let twin = Twin::of(test, name, golden);
        std::fs::write(&twin.theirs, bytes).unwrap();
        twin
    };
    all.into_iter().map(twin).collect()
}

impl Twin {
    fn of(test: &str, name: String, golden: Golden) -> Twin {
        let dir = temporary(test);
        let [theirs, ours] = ["theirs", "ours"].map(|of| dir.join(format!("{name}.{of}.gguf")));
        let _ = std::fs::remove_file(&ours);
        // Named as the converter was told: llama.cpp reads some models' names.
        let folder = dir.join(&name).join("tiny");
        let _ = std::fs::remove_dir_all(&folder);
        chat::write_model(&golden, &folder);
        Twin { name, golden, theirs, ours, folder }
    }
    fn family(&self) -> &'static str {
        Opened::open(&self.folder).expect("a model").family.name
    }
    /// How far these logits are from the folder's.
    fn to_folder(&self, logits: &[f32]) -> f32 {
        let ids = self.golden.prompt(0).0;
        distance(logits, &Rig::golden(&self.golden, &LIMITS).run(&ids, ids.len()))
    }
    /// Once steps have no least length.
    fn without_least(&self) {
        let config = self.folder.join("config.json");
        let mut json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        json["time_step_min"] = 0.0.into();
        std::fs::write(config, json.to_string()).unwrap();
    }
    /// Writes the folder.
    fn write(&self) -> std::result::Result<(), String> {
        let opened = Opened::open(&self.folder).expect("a model");
        let quant = if self.name.ends_with(".f32") { Quant::F32 } else { Quant::Native };
        save(&opened, quant, 2, &self.ours).map(drop).map_err(|e| e.to_string())
    }
    /// How what was written differs from the converter's.
    fn differences(&self) -> Vec<String> {
        let [ours, theirs] = [&self.ours, &self.theirs].map(|path| Gguf::open(path).unwrap());
        let rounded = ROUNDED_OTHERWISE.contains(&&*self.name);
        let mut found = difference(&ours, &theirs, rounded);
        let [mine, mut spec] = [&ours, &theirs].map(|gguf| open_gguf(gguf).spec);
        if stated_context(&theirs) == Some(spec.context) {
            spec.context = mine.context;
        }
        let turned = TURNED.contains(&&*self.name);
        found.retain(|line| !turned || !line.contains("attn_q.w") && !line.contains("attn_k.w"));
        if mine != spec && !rounded {
            let (a, b) = (format!("{mine:#?}"), format!("{spec:#?}"));
            let odd = a.lines().zip(b.lines()).find(|(a, b)| a != b);
            found.push(format!("the specs differ: {odd:?}"));
        }
        let [a, b] = [&ours, &theirs].map(|gguf| logits(gguf, &self.golden));
        if distance(&a, &b) > if rounded || turned { ROUNDED } else { 0.0 } {
            found.push("the logits differ".into());
        }
        if self.to_folder(&a) > ROUNDED {
            found.push("the logits are not the folder's".into());
        }
        found
    }
}

/// Those of which not all numbers can be equal: PyTorch's exponentials and powers are not rounded
/// correctly.
const ROUNDED_OTHERWISE: [&str; 4] =
    ["exaone4_1b.bf16", "falcon_h1.bf16", "jamba.bf16", "mamba.bf16"];

/// Those that are refused for the least length of their steps, which the converter leaves out, and
/// written without one. It turns heads that do not rotate, to no end.
const TURNED: [&str; 2] = ["nemotron_h.bf16", "nemotron_h_moe.bf16"];

/// Every checkpoint that llama.cpp's converter made a file of is written as that: the same keys, the
/// same tensors, the same model, the same bits of logits. Or it is refused. Others are written as what
/// they are, or refused. `docs/bundles.md` says which.
#[test]
fn folders_become_files() {
    let (mut wrong, mut table) = (Vec::new(), Table::default());
    let twins = twins("folders");
    for twin in &twins {
        let name = &twin.name;
        let case = name.rsplit_once('.').unwrap().0;
        let (mut written, family) = (twin.write(), twin.family());
        if TURNED.contains(&&**name) {
            let error = written.unwrap_err();
            let why = "time_step_min 0 in its config.json";
            assert!(error.contains(why) && error.contains(".rinf"), "{error}");
            assert!(!twin.ours.exists());
            table.refused.push((case.to_owned(), error));
            twin.without_least();
            written = twin.write();
        } else {
            table.add(family, case);
        }
        match written {
            Ok(()) => {
                wrong.extend(twin.differences().into_iter().map(|line| format!("{name}: {line}")));
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    for golden in goldens() {
        if twins.iter().any(|twin| twin.golden.name == golden.name) {
            continue;
        }
        let name = golden.name.clone();
        let twin = Twin::of("folders", name.clone(), golden);
        match twin.write() {
            Ok(()) => {
                let gguf = Gguf::open(&twin.ours).unwrap();
                let apart = twin.to_folder(&logits(&gguf, &twin.golden));
                if apart > ROUNDED {
                    wrong.push(format!("{name}: the logits are {apart} from the folder's"));
                }
                table.others.push(name);
            }
            Err(error) => {
                assert!(error.contains("pack it as .rinf instead"), "{error}");
                table.refused.push((name, error));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    table.check();
}

/// What `docs/bundles.md` says.
#[derive(Default)]
struct Table {
    /// By family, cases that are as the converter's.
    written: BTreeMap<&'static str, Vec<String>>,
    others: Vec<String>,
    refused: Vec<(String, String)>,
}

impl Table {
    fn add(&mut self, family: &'static str, case: &str) {
        let cases = self.written.entry(family).or_default();
        if !cases.iter().any(|known| known == case) {
            cases.push(case.to_owned());
        }
    }
    fn check(&self) {
        let mut text =
            "| family | cases that are as llama.cpp's converter writes them |\n|---|---|\n"
                .to_owned();
        for (family, cases) in &self.written {
            text += &format!("| {family} | {} |\n", cases.join(", "));
        }
        text += "\nWritten as well, where there is no file of the converter's to compare with, with the logits of the folder:\n";
        text += &format!("{}.\n\nRefused, by what is not said:\n\n", self.others.join(", "));
        text += "| case | why |\n|---|---|\n";
        for (case, error) in &self.refused {
            let why = error.split_once(" is not written as GGUF: ").unwrap().1;
            let why = why.replace("; pack it as .rinf instead", "").replace('|', "\\|");
            text += &format!("| {case} | {why} |\n");
        }
        let path = "docs/bundles.md";
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let file = std::fs::read_to_string(format!("{root}{path}")).unwrap();
        let [before, after] = ["<!-- written -->\n", "<!-- end -->"];
        let (head, rest) = file.split_once(before).expect("a place for the table");
        let (_, tail) = rest.split_once(after).expect("the table's end");
        shared::up_to_date(path, &format!("{head}{before}{text}{after}{tail}"));
    }
}

/// Where llama.cpp reads the converter's file, it reads ours, and to the same logits.
#[test]
fn llama_cpp_reads_them() {
    let Some(llama) = shared::llama() else { return };
    let twins = twins("read");
    let turned = twins.iter().filter(|twin| TURNED.contains(&&*twin.name));
    turned.for_each(Twin::without_least);
    let twins: Vec<Twin> = twins.into_iter().filter(|twin| twin.write().is_ok()).collect();
    let job = |path: &Path, twin: &Twin| serde_json::json!({"file": path, "ids": twin.golden.prompt(0).0, "all": true});
    let jobs: Vec<_> = { twins.iter() }
        .flat_map(|twin| [job(&twin.ours, twin), job(&twin.theirs, twin)])
        .collect();
    let answers = llama.ask(&jobs);
    let (mut read, mut unread, mut wrong) = (0, Vec::new(), Vec::new());
    for (twin, answers) in twins.iter().zip(answers.chunks(2)) {
        let name = &twin.name;
        let [ours, theirs] = [0, 1].map(|i| answers[i].as_str().map(floats));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                read += 1;
                let most = match &**name {
                    name if ROUNDED_OTHERWISE.contains(&name) => ROUNDED,
                    // Rows in another order are summed in another, of what is rounded to 8 bits.
                    name if TURNED.contains(&name) => 0.05,
                    _ => 0.0,
                };
                let apart = distance(&ours, &theirs);
                if apart > most || ours.is_empty() {
                    wrong.push(format!("{name}: the logits differ by {apart}"));
                }
            }
            (None, Some(_)) => wrong.push(format!("{name}: ours is not read")),
            (ours, None) => unread.push(format!("{name} (ours: {})", ours.is_some())),
        }
    }
    println!("read: {read}; of the converter's, these are not: {}", unread.join(", "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 40, "{read}");
}

/// What llama.cpp computes of files that the converter was not asked for: in f32, the folder's logits.
#[test]
fn llama_cpp_computes_the_same() {
    let Some(llama) = shared::llama() else { return };
    let mut all = Vec::new();
    for golden in goldens() {
        let twin = Twin::of("computed", golden.name.clone(), golden);
        let opened = Opened::open(&twin.folder).expect("a model");
        if save(&opened, Quant::F32, 2, &twin.ours).is_ok() {
            all.push(twin);
        }
    }
    let job = |twin: &Twin| serde_json::json!({"file": twin.ours, "ids": twin.golden.prompt(0).0, "all": true});
    let answers = llama.ask(&all.iter().map(job).collect::<Vec<_>>());
    let (mut unread, mut wrong) = (Vec::new(), Vec::new());
    for (twin, answer) in all.iter().zip(answers) {
        let name = &twin.name;
        let Some(hex) = answer.as_str() else {
            unread.push(&**name);
            continue;
        };
        let apart = twin.to_folder(&floats(hex));
        println!("{name}: {apart:.1e}");
        // Its GELU is a table of f16.
        if apart > 0.02 {
            wrong.push(format!("{name}: the logits are {apart} from the folder's"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(unread, UNREAD);
    assert!(all.len() > 60);
}

/// What llama.cpp reads of other sizes alone: it has heads of no other width than the model's share,
/// layers and widths of released models, or no layers without experts among others.
const UNREAD: [&str; 7] =
    ["cohere2", "cohere_plus", "deepseek_v2_lite", "exaone4", "gemma3n_text", "olmoe", "qwen2_moe"];

/// Windows of as many positions as a file states do not matter, so it is written whatever its readers heed.
#[test]
fn fewer_positions_have_no_windows() {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for golden in goldens() {
        let twin = Twin::of("short", golden.name.clone(), golden);
        let opened = Opened::open(&twin.folder).expect("a model");
        let write = |context| {
            let making = Making { quant: Quant::F32, threads: 2, split: None, context };
            export::save(&opened, &making, &twin.ours)
        };
        let Err(error) = write(None) else { continue };
        let error = error.to_string();
        let Some((_, rest)) = error.split_once("--context ") else { continue };
        let digits = rest.split(' ').next().unwrap();
        let context: usize = digits.parse().unwrap();
        assert!(write(Some(context + 1)).is_err() && !twin.ours.exists());
        write(Some(context)).unwrap();
        let gguf = Gguf::open(&twin.ours).unwrap();
        let ids = twin.golden.prompt(0).0[..context].to_vec();
        let checkpoint = open_gguf(&gguf);
        assert_eq!(checkpoint.spec.context, context);
        let ours = Rig::load(&checkpoint, &LIMITS, 2, Kernels::best()).run(&ids, context);
        let folder = Rig::golden(&twin.golden, &LIMITS).run(&ids, context);
        if distance(&ours, &folder) > ROUNDED {
            wrong.push(format!("{}: {} apart", twin.name, distance(&ours, &folder)));
        }
        all.push((twin, ids, folder));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: Vec<&str> = all.iter().map(|(twin, ..)| &*twin.name).collect();
    assert_eq!(names, ["ministral", "mistral", "phi3_sliding", "qwen2_sliding", "starcoder2"]);
    let Some(llama) = shared::llama() else { return };
    let job = |(twin, ids, _): &(Twin, Vec<i32>, Vec<f32>)| serde_json::json!({"file": twin.ours, "ids": ids, "all": true});
    let answers = llama.ask(&all.iter().map(job).collect::<Vec<_>>());
    for ((twin, _, folder), answer) in all.iter().zip(answers) {
        let apart = distance(&floats(answer.as_str().expect("logits")), folder);
        println!("{}: {apart:.1e}", twin.name);
        assert!(apart < 0.02, "{}: {apart}", twin.name);
    }
    // It is the model's at most, and a GGUF file keeps its own.
    let (twin, ..) = &all[0];
    let making =
        |context| Making { quant: Quant::Native, threads: 1, split: None, context: Some(context) };
    for (from, context, problem) in
        [(&twin.folder, 513, "1 to 512"), (&twin.folder, 0, "1 to 512"), (&twin.ours, 4, "folder")]
    {
        let opened = Opened::open(from).unwrap();
        let error = export::save(&opened, &making(context), &other("short.gguf")).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// Multipliers that have no keys are in weights, in as many digits as they take if nothing else is asked.
#[test]
fn multipliers_go_into_weights() {
    for tied in [false, true] {
        let mut golden = goldens().into_iter().find(|g| g.name == "falcon_h1").unwrap();
        if tied {
            golden.config["tie_word_embeddings"] = true.into();
            golden.weights.remove("lm_head.weight").unwrap();
        }
        let twin = Twin::of("folded", format!("tied_{tied}"), golden);
        let opened = Opened::open(&twin.folder).unwrap();
        for (quant, most) in [(Quant::Native, ROUNDED), (Quant::F32, ROUNDED), (Quant::Bf16, 0.1)] {
            save(&opened, quant, 2, &twin.ours).unwrap();
            let gguf = Gguf::open(&twin.ours).unwrap();
            let apart = twin.to_folder(&logits(&gguf, &twin.golden));
            assert!(apart <= most, "{tied}, {quant:?}: {apart}");
            // What is both matrices has two factors.
            assert!(gguf.get("output.weight").is_some());
            let unsaid = |key: &str| !key.contains("scale") || key.contains("scaling");
            assert!(gguf.metadata().keys().all(unsaid));
            if let Some(llama) = shared::llama() {
                let job = serde_json::json!({"file": twin.ours, "ids": twin.golden.prompt(0).0, "all": true});
                let answer = llama.ask(&[job]).remove(0);
                let theirs = twin.to_folder(&floats(answer.as_str().expect("logits")));
                println!("{tied}, {quant:?}: {apart:.1e}, llama.cpp's {theirs:.1e}");
                // It rounds activations to the 16 bits of matrices.
                assert!(theirs < 0.02 || quant != Quant::F32, "{theirs}");
            }
        }
    }
}

/// A file is what `--quant` loads: the same bits, whatever is written it.
#[test]
fn files_are_converted() {
    let golden = goldens().into_iter().find(|g| g.name == "qwen2").unwrap();
    let dir = temporary("converted").join("model");
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&golden, &dir);
    let (opened, out) =
        (Opened::open(&dir).unwrap(), temporary("converted").join("converted.gguf"));
    let run = |opened: &Opened, quant| {
        let limits = Limits { quant, ..LIMITS };
        let cpu = rinfer_engine::cpu::Cpu::new(2, Kernels::best());
        let mut executor = opened.executor(&cpu, &limits).unwrap();
        rig_of(&mut *executor, opened.spec.vocab, &golden)
    };
    for name in ["q8_0", "q4_k_m", "q5_1", "iq4_nl", "mxfp4_moe"] {
        let quant = Quant::Gguf(Recipe::of_name(name).unwrap());
        for threads in [1, 3] {
            save(&opened, quant, threads, &out).expect(name);
            let written = Opened::open(&out).unwrap();
            assert_eq!(run(&written, Quant::Native), run(&opened, quant), "{name}");
        }
        // What is quantised is not quantised again; as it is, it is copied.
        let (again, written) = (other("again.gguf"), Opened::open(&out).unwrap());
        let _ = std::fs::remove_file(&again);
        let q5_0 = Quant::Gguf(Recipe::of_name("q5_0").unwrap());
        let error = save(&written, q5_0, 1, &again).unwrap_err().to_string();
        assert!(error.contains("already") && !again.exists(), "{error}");
        let copied = other("copied.gguf");
        save(&Opened::open(&out).unwrap(), Quant::Native, 2, &copied).unwrap();
        assert_eq!(run(&Opened::open(&copied).unwrap(), Quant::Native), run(&opened, quant));
    }
    let error = save(&opened, Quant::Int4, 1, &other("int4.gguf")).unwrap_err();
    assert!(error.to_string().contains("q4_0"), "{error}");
}

/// A set of files is one model, whichever of them is opened, to us and to llama.cpp.
#[test]
fn files_are_split() {
    let golden = goldens().into_iter().find(|g| g.name == "qwen3_moe").unwrap();
    let twin = Twin::of("split", "whole".into(), golden);
    let opened = Opened::open(&twin.folder).unwrap();
    save(&opened, Quant::F32, 2, &twin.ours).unwrap();
    let whole = logits(&Gguf::open(&twin.ours).unwrap(), &twin.golden);
    let dir = temporary("split").join("set");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("model.gguf");
    let set = |split| {
        export::save(
            &opened,
            &Making { quant: Quant::F32, threads: 2, split, context: None },
            &path,
        )
    };
    assert_eq!(set(Some(1 << 40)).unwrap().files, [&*path]);
    let files = set(Some(100_000)).unwrap().files;
    assert!(files.len() > 2, "{files:?}");
    let count = files.len();
    for (i, file) in files.iter().enumerate() {
        let name = format!("model-{:05}-of-{count:05}.gguf", i + 1);
        assert_eq!(file.file_name().unwrap().to_str(), Some(&*name));
        assert_eq!(logits(&Gguf::open(file).unwrap(), &twin.golden), whole, "{name}");
    }
    // What is split is split otherwise, or becomes one.
    let split = Opened::open(&files[1]).unwrap();
    let one = dir.join("one.gguf");
    save(&split, Quant::Native, 1, &one).unwrap();
    assert_eq!(logits(&Gguf::open(&one).unwrap(), &twin.golden), whole);
    let again = export::save(
        &split,
        &Making { quant: Quant::Native, threads: 1, split: Some(100_000), context: None },
        &path,
    );
    let again = again.unwrap_err().to_string();
    assert!(again.contains("the model itself"), "{again}");
    let many = set(Some(1)).unwrap().files;
    assert_eq!(logits(&Gguf::open(&many[3]).unwrap(), &twin.golden), whole);
    if let Some(llama) = shared::llama() {
        let ids = twin.golden.prompt(0).0;
        let job = |file: &Path| serde_json::json!({"file": file, "ids": ids, "all": true});
        let answers = llama.ask(&[job(&one), job(&files[0]), job(&many[0])]);
        assert!(answers[0].is_string() && answers.iter().all(|answer| answer == &answers[0]));
    }
    // Without its first file it is named as missing it.
    std::fs::remove_file(&files[0]).unwrap();
    let error = Gguf::open(&files[1]).unwrap_err().to_string();
    assert!(error.contains("model-00001-of-"), "{error}");
}

fn other(name: &str) -> PathBuf {
    temporary("converted").join(name)
}

fn rig_of(
    executor: &mut dyn rinfer_engine::backend::Executor,
    vocab: usize,
    golden: &Golden,
) -> Vec<f32> {
    use rinfer_engine::batch::{Batch, Logits, Row, Span, TokenId, Want};
    let (ids, ..) = golden.prompt(0);
    let slot = executor.state().open().unwrap();
    assert!(executor.state().reserve(slot, ids.len()));
    let mut batch = Batch::default();
    batch.rows.extend(ids.iter().map(|id| Row::Token(TokenId(*id as u32))));
    batch.seqs.push(Span { slot, len: ids.len(), past: 0, want: Want::Every });
    let mut out = Logits { vocab, data: Vec::new() };
    executor.forward(&batch, &mut out).unwrap();
    out.data
}

/// A file that can't be written whole leaves what was there.
#[test]
fn what_fails_leaves_nothing() {
    let golden = goldens().into_iter().find(|g| g.name == "llama3").unwrap();
    let dir = temporary("alone").join("alone");
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&golden, &dir.join("model"));
    let opened = Opened::open(dir.join("model")).unwrap();
    let nowhere = Path::new("/nowhere/at/all.gguf");
    let error = save(&opened, Quant::Native, 1, nowhere).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all.gguf"), "{error}");
    let taken = dir.join("taken.gguf");
    std::fs::create_dir_all(&taken).unwrap();
    assert!(save(&opened, Quant::Native, 1, &taken).is_err() && taken.is_dir());
    let left = std::fs::read_dir(&dir).unwrap();
    let parts =
        left.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "part"));
    assert_eq!(parts.count(), 0);
}
