//! Embedders and rerankers as programs use them: a tiny model with all companions, and real ones.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_engine::backend::{Kv, Quant};
use rinfer_engine::batch::TokenId;
use rinfer_engine::bundle;
use rinfer_engine::embed::{Embed, Embedder, Input, Prompt, Reranker};
use rinfer_engine::export::{Making, save};
use rinfer_engine::load::{Load, Opened};
use rinfer_engine::model::Model;
use rinfer_engine::spec::Pool;
use rinfer_testkit::embed::{
    CONTEXT, WIDTH, numbers, write_dense, write_model, write_plain, write_reranker,
};
use rinfer_testkit::shared::{goldens, model, shared};
use rinfer_testkit::{Golden, chat, safetensors};
use serde_json::{Value, json};
use std::path::PathBuf;

fn exact() -> Load {
    Load { quant: Quant::F32, kv: Kv::F32, threads: Some(2), ..Load::default() }
}

fn golden() -> Golden {
    Golden::load(&goldens().join("embed/bert"))
}

fn folder(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("embedder").join(test);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn tiny(test: &str) -> PathBuf {
    let dir = folder(test);
    write_model(&golden(), &dir);
    dir
}

fn error<T>(result: Result<T, rinfer_engine::error::Error>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

fn check(found: &str, says: &[&str]) {
    says.iter().for_each(|word| assert!(found.contains(word), "{word}: {found}"));
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Pooling, the dense layer and unit length are what the files say, of the golden's tokens.
#[test]
fn companions_are_followed() {
    let (golden, embedder) = (golden(), Embedder::load(tiny("companions"), exact()).unwrap());
    assert_eq!((embedder.dimensions(), embedder.context()), (WIDTH, CONTEXT));
    let ids: Vec<TokenId> =
        golden.recorded["input_ids"].i32()[..37].iter().map(|id| TokenId(*id as u32)).collect();
    let found = embedder.embed_all(&[Input::Tokens(&ids)], &Embed::default()).unwrap();
    let mean = &golden.recorded["mean"].f32()[..64];
    let (weight, bias) = (numbers(&[WIDTH, 64]).f32(), numbers(&[WIDTH]).f32());
    let mut want: Vec<f32> = weight
        .chunks(64)
        .zip(bias)
        .map(|(row, bias)| (row.iter().zip(mean).map(|(w, x)| w * x).sum::<f32>() + bias).tanh())
        .collect();
    let length = want.iter().map(|x| x * x).sum::<f32>().sqrt();
    want.iter_mut().for_each(|x| *x /= length);
    let far = found[0].vector.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 1e-5, "{far}");
    assert_eq!((found[0].tokens, found[0].cut), (37, 0));
}

#[test]
fn a_text_alone_and_among_many_is_the_same() {
    let embedder = Embedder::load(tiny("many"), Load { batch: 64, ..exact() }).unwrap();
    let texts: Vec<String> = (0..100).map(|i| "ab".repeat(i % 20)).collect();
    let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
    let all = embedder.embed_all(&inputs, &Embed::default()).unwrap();
    assert_eq!(all.len(), texts.len());
    for (text, found) in texts.iter().zip(&all) {
        let alone = embedder.embed(text).unwrap();
        let same = alone.iter().zip(&found.vector).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && found.tokens == text.len() + 2, "{text}");
    }
    assert!(embedder.embed_all(&[], &Embed::default()).unwrap().is_empty());
}

#[test]
fn prompts_dimensions_and_lengths() {
    let embedder = Embedder::load(tiny("prompts"), exact()).unwrap();
    let with = |text, how: Embed| embedder.embed_all(&[Input::Text(text)], &how);
    let vector = |text, how| with(text, how).unwrap().swap_remove(0).vector;
    let named = |name: &str| Embed { prompt: Prompt::Named(name.into()), ..Embed::default() };
    assert_eq!(vector("x", named("query")), embedder.embed("query: x").unwrap());
    let own = Embed { prompt: Prompt::Text("text: ".into()), ..Embed::default() };
    assert_eq!(vector("x", own), vector("x", named("document")));
    check(&error(with("x", named("passage"))), &["passage", "document, query"]);
    // Space around a text goes; control tokens in one are text.
    assert_eq!(embedder.embed(" x\n").unwrap(), embedder.embed("x").unwrap());
    assert_eq!(with("</s>", Embed::default()).unwrap()[0].tokens, 6);

    let cut = |dimensions| Embed { dimensions: Some(dimensions), ..Embed::default() };
    let (whole, short) = (embedder.embed("x").unwrap(), vector("x", cut(8)));
    assert!((cosine(&whole[..8], &short) - 1.0).abs() < 1e-6);
    assert!((short.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-6);
    assert_eq!(vector("x", cut(WIDTH)), whole);
    for dimensions in [0, WIDTH + 1] {
        check(&error(with("x", cut(dimensions))), &["dimensions", "1 to 40"]);
    }

    let long = "y".repeat(60);
    check(&error(with(&long, Embed::default())), &["62 tokens", "at most 48", "truncate"]);
    let found = with(&long, Embed { truncate: true, ..Embed::default() }).unwrap();
    assert_eq!((found[0].tokens, found[0].cut), (48, 14));
    assert_eq!(found[0].vector, embedder.embed(&long[..46]).unwrap());
    let tokens = embedder.embed_all(&[Input::Tokens(&[TokenId(9)])], &named("query"));
    check(&error(tokens), &["prompt", "input 0 is tokens"]);
    let none = embedder.embed_all(&[Input::Tokens(&[])], &Embed::default());
    check(&error(none), &["input 0", "no tokens"]);
    let unknown = embedder.embed_all(&[Input::Tokens(&[TokenId(256)])], &Embed::default());
    check(&error(unknown), &["256", "no token"]);
}

/// What writes, what makes vectors and what scores are not taken for each other.
#[test]
fn models_for_another_use_are_refused() {
    let (embeds, ranks, writes) = (tiny("embeds"), folder("ranks"), folder("writes"));
    write_reranker(&golden(), &ranks);
    chat::write_model(&Golden::load(&goldens().join("llama3")), &writes);
    check(&error(Model::load(&embeds, exact())), &["vectors", "rinfer embed"]);
    check(&error(Model::load(&ranks, exact())), &["scores pairs"]);
    check(&error(Embedder::load(&writes, exact())), &["writes texts", "mean, cls, last"]);
    check(&error(Embedder::load(&ranks, exact())), &["scores pairs"]);
    check(&error(Reranker::load(&embeds, exact())), &["reranker"]);
    let opened = Opened::open(&writes).unwrap().pooled(Pool::Last).unwrap();
    let vector = Embedder::of(&opened, &exact()).unwrap().embed("x").unwrap();
    assert_eq!(vector.len(), 64);
    assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    let other = |how| Embedder::of(&Opened::open(&embeds).unwrap().pooled(how).unwrap(), &exact());
    let [mean, cls] = [Pool::Mean, Pool::Cls].map(|how| other(how).unwrap().embed("x").unwrap());
    assert_eq!(mean, Embedder::load(&embeds, exact()).unwrap().embed("x").unwrap());
    assert_ne!(mean, cls);
}

#[test]
fn broken_companions_are_named() {
    let dir = tiny("broken");
    let change = |file: &str, json: Value, says: &[&str]| {
        let path = dir.join(file);
        let before = std::fs::read(&path).unwrap();
        std::fs::write(&path, json.to_string()).unwrap();
        check(&error(Embedder::load(&dir, exact())), says);
        std::fs::write(&path, before).unwrap();
    };
    let module = |path: &str, kind: &str| json!([{"path": path, "type": kind}]);
    change("modules.json", json!({}), &["modules.json", "list"]);
    change("modules.json", module("../x", "a.Dense"), &["modules.json", "../x"]);
    change("modules.json", module("", "a.CLIPModel"), &["modules.json", "CLIPModel", "Pooling"]);
    let two = json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true});
    change("1_Pooling/config.json", two, &["1_Pooling/config.json", "pooling_mode"]);
    let act = json!({"out_features": WIDTH, "activation_function": "torch.nn.ReLU"});
    change("2_Dense/config.json", act, &["activation_function", "ReLU"]);
    let wide = json!({"out_features": 39, "bias": true});
    change("2_Dense/config.json", wide, &["dense_2.weight", "[40, 64]", "[39, 64]"]);
    let prompts = json!({"prompts": {"query": 1}});
    change("config_sentence_transformers.json", prompts, &["prompts", "strings"]);
    change("sentence_bert_config.json", json!({"max_seq_length": 0}), &["max_seq_length", "0"]);
    assert_eq!(error(Embedder::load(&dir, exact())), "");
    std::fs::remove_file(dir.join("2_Dense/model.safetensors")).unwrap();
    check(&error(Embedder::load(&dir, exact())), &["2_Dense", "model.safetensors"]);
}

#[test]
fn documents_are_ranked() {
    let dir = folder("ranked");
    write_reranker(&golden(), &dir);
    let reranker = Reranker::load(&dir, Load { context: Some(64), ..exact() }).unwrap();
    let documents = ["first", "second text", "a third", "second text"];
    let all = reranker.rank("what", &documents, false).unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.is_sorted_by(|a, b| a.score >= b.score));
    for ranked in &all {
        let alone = reranker.rank("what", &documents[ranked.index..=ranked.index], false).unwrap();
        assert_eq!(alone[0].score.to_bits(), ranked.score.to_bits());
        assert_eq!(ranked.tokens, documents[ranked.index].len() + 4 + 3);
    }
    let places: Vec<usize> = all.iter().map(|r| r.index).filter(|i| i % 2 == 1).collect();
    assert_eq!(places, [1, 3]);
    let long = "z".repeat(100);
    check(&error(reranker.rank("q", &[&long], false)), &["104 tokens", "at most 64"]);
    let cut = reranker.rank("q", &[&long], true).unwrap();
    assert_eq!((cut[0].tokens, cut[0].cut), (64, 40));
}

/// What is written as GGUF makes the same vectors, if it can be.
#[test]
fn files_make_the_same_vectors() {
    let making = Making { quant: Quant::F32, threads: 1, split: None, context: None };
    let written = |name: &str, write: fn(&Golden, &std::path::Path)| {
        let (dir, file) =
            (folder("written").join(name), folder("files").join(format!("{name}.gguf")));
        write(&Golden::load(&goldens().join("embed").join(name)), &dir);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        save(&Opened::open(&dir).unwrap(), &making, &file).map(|written| (dir, file, written))
    };
    for name in
        ["bert", "xlm_roberta", "nomic_bert", "modernbert", "embeddinggemma", "qwen3_embedding"]
    {
        let (dir, file, saved) = written(name, write_plain).unwrap();
        assert!(saved.unsaid.is_empty(), "{name}: {:?}", saved.unsaid);
        let [own, back] = [dir, file].map(|path| Embedder::load(path, exact()).unwrap());
        for text in ["", "x", "what is written is read, and read alike: by anybody, anywhere"] {
            // A factor of scores may lie in other weights.
            let cosine = cosine(&own.embed(text).unwrap(), &back.embed(text).unwrap());
            assert!(cosine > 1.0 - 1e-9, "{name}, {text}: {cosine}");
        }
    }
    let (dir, file, _) = written("embeddinggemma", |golden, dir| {
        let identity = "torch.nn.modules.linear.Identity";
        write_dense(golden, dir, &[(96, false, identity), (64, false, identity)]);
    })
    .unwrap();
    let [own, back] = [dir, file].map(|path| Embedder::load(path, exact()).unwrap());
    let [own, back] = [own, back].map(|embedder| embedder.embed("through two layers").unwrap());
    assert!(cosine(&own, &back) > 1.0 - 1e-9);
    check(&error(written("bert", write_model)), &["dense", "rinf"]);
}

/// A bundle is the model with all that lies beside it.
#[test]
fn bundles_make_the_same_vectors() {
    let (dir, file) = (tiny("bundled"), folder("bundles").join("bert.rinf"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let making = bundle::Making { quant: Quant::Native, threads: 1, name: None, license: None };
    bundle::save(&Opened::open(&dir).unwrap(), &making, &file).unwrap();
    let [own, back] = [dir, file].map(|path| Embedder::load(path, Load::default()).unwrap());
    assert_eq!((own.context(), own.prompts()), (back.context(), back.prompts()));
    assert_eq!(own.embed("x").unwrap(), back.embed("x").unwrap());
}

fn real(name: &str, load: Load) {
    let (Some(path), Some(references)) = (model(name), shared("reference/hf")) else { return };
    let texts = std::fs::read(references.join(format!("{name}.json"))).unwrap();
    let texts: Value = serde_json::from_slice(&texts).unwrap();
    let texts: Vec<&str> =
        texts["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let golden = std::fs::read(references.join(format!("{name}.golden.safetensors"))).unwrap();
    let golden = safetensors::read(&golden);
    let embedder = Embedder::load(path, load).unwrap();
    let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
    let found = embedder.embed_all(&inputs, &Embed::default()).unwrap();
    for (i, found) in found.iter().enumerate() {
        assert_eq!(found.tokens, golden[&format!("input_ids_{i}")].i32().len(), "{}", texts[i]);
        let cosine = cosine(&found.vector, &golden[&format!("normed_{i}")].f32());
        println!("{name}, text {i}: cosine {cosine:.7}");
        assert!(cosine >= 0.9999, "{}: {cosine}", texts[i]);
        assert_eq!(found.vector, embedder.embed(texts[i]).unwrap(), "alone");
    }
}

#[test]
fn minilm_is_transformers() {
    real("all-minilm-l6-v2", exact());
    real("all-minilm-l6-v2", Load::default());
}

#[test]
#[ignore = "needs EmbeddingGemma-300M, which CI does not fetch: --run-ignored all, with RINFER_TEST_MODELS"]
fn embeddinggemma_is_transformers() {
    real("embeddinggemma-300m", exact());
}
