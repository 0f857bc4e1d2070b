//! GGUF metadata that no golden has, in config.json's words.
use rinfer_formats::{Cause, Gguf};
use rinfer_testkit::gguf_builder::{Builder, array};
use serde_json::{Value, json};

/// The keys that every decoder has.
fn decoder(name: &str, layers: u32, width: u32, heads: u32) -> Builder {
    let key = |k: &str| format!("{name}.{k}");
    Builder::of(name)
        .u32(&key("embedding_length"), width)
        .u32(&key("block_count"), layers)
        .u32(&key("context_length"), 8192)
        .u32(&key("feed_forward_length"), 4 * width)
        .u32(&key("attention.head_count"), heads)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-5)
}

fn check(file: Builder, expected: Value) {
    let config = Gguf::parse("x", file.build()).expect("a file").config().expect("a config");
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(config.get(key).unwrap_or(&Value::Null), value, "{key} in {config:#}");
    }
}

#[test]
fn plain_decoders() {
    check(
        decoder("llama", 2, 64, 4),
        json!({"model_type": "llama", "num_key_value_heads": 4, "rope_theta": 10_000.0,
               "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "attention_bias": false,
               "rope_scaling": null, "partial_rotary_factor": null, "hidden_act": "silu"}),
    );
    let biased = decoder("qwen2", 2, 64, 4)
        .tensor("output.weight", &[64, 8], 0, &[0; 2048])
        .tensor("token_embd.weight", &[64, 8], 0, &[0; 2048])
        .tensor("blk.0.attn_q.bias", &[64], 0, &[0; 256])
        .tensor("blk.0.ffn_up.bias", &[256], 0, &[0; 1024])
        .strs("tokenizer.ggml.tokens", &["a", "b"]);
    check(
        biased,
        json!({"model_type": "qwen2", "tie_word_embeddings": false, "attention_bias": true,
               "attention_out_bias": false, "mlp_bias": true, "vocab_size": 8}),
    );
    let tokens = decoder("llama", 2, 64, 4).strs("tokenizer.ggml.tokens", &["a", "b", "c"]);
    check(tokens, json!({"vocab_size": 3}));
    let experts = decoder("llama", 2, 64, 4).u32("llama.expert_count", 8);
    check(experts, json!({"model_type": "mixtral", "num_local_experts": 8}));
    let per_layer = [4u32, 2].map(u32::to_le_bytes).concat();
    let list = decoder("llama", 2, 64, 4).key(
        "llama.attention.head_count_kv",
        9,
        &array(4, 2, &per_layer),
    );
    check(list, json!({"num_key_value_heads": [4, 2]}));
    let partial = decoder("llama", 2, 64, 4).u32("llama.rope.dimension_count", 4);
    check(partial, json!({"partial_rotary_factor": 0.25}));
}

/// Heads of latent attention, as files state them now and as they did before.
#[test]
fn latent_heads() {
    let file = |of: &[(&str, u32)]| {
        let start = decoder("deepseek2", 2, 64, 4)
            .u32("deepseek2.attention.kv_lora_rank", 32)
            .u32("deepseek2.rope.dimension_count", 8);
        of.iter().fold(start, |file, (key, value)| file.u32(&format!("deepseek2.{key}"), *value))
    };
    let heads = json!({"model_type": "deepseek_v2", "kv_lora_rank": 32, "q_lora_rank": null,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 20, "scoring_func": "softmax"});
    let absorbed = [
        ("attention.key_length", 40),
        ("attention.value_length", 32),
        ("attention.key_length_mla", 24),
        ("attention.value_length_mla", 20),
    ];
    check(file(&absorbed), heads.clone());
    check(file(&[("attention.key_length", 24), ("attention.value_length", 20)]), heads);
    let v3 = file(&[("expert_gating_func", 2), ("attention.q_lora_rank", 24)]);
    check(v3, json!({"scoring_func": "sigmoid", "q_lora_rank": 24}));
    let yarn = file(&[])
        .str("deepseek2.rope.scaling.type", "yarn")
        .f32("deepseek2.rope.scaling.factor", 40.0)
        .f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.1);
    let scaling =
        json!({"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0});
    check(yarn, json!({"rope_scaling": scaling}));
}

#[test]
fn rotary_scaling() {
    let file = || decoder("llama", 2, 64, 4);
    let key = |k: &str| format!("llama.rope.{k}");
    let linear = json!({"rope_scaling": {"rope_type": "linear", "factor": 4.0}});
    check(file().f32(&key("scaling.factor"), 4.0), linear.clone());
    check(file().f32(&key("scale_linear"), 4.0), linear);
    check(file().str(&key("scaling.type"), "none"), json!({"rope_scaling": null}));
    check(file().f32(&key("scaling.factor"), 0.0), json!({"rope_scaling": null}));
    let yarn = || {
        file()
            .str(&key("scaling.type"), "yarn")
            .f32(&key("scaling.factor"), 4.0)
            .u32(&key("scaling.original_context_length"), 2048)
    };
    check(
        yarn(),
        json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
               "original_max_position_embeddings": 2048}}),
    );
    let full = yarn()
        .f32(&key("scaling.yarn_beta_fast"), 16.0)
        .f32(&key("scaling.yarn_beta_slow"), 2.0)
        .f32(&key("scaling.yarn_ext_factor"), 1.0)
        .f32(&key("scaling.attn_factor"), 0.5);
    check(
        full,
        json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
               "original_max_position_embeddings": 2048, "beta_fast": 16.0, "beta_slow": 2.0,
               // (0.1 ln 4 + 1) / 2
               "attention_factor": 0.569_314_7}}),
    );
    for (key, value) in [("yarn_ext_factor", 0.5), ("factor", f32::NAN)] {
        let file = file().str("llama.rope.scaling.type", "yarn");
        let file = file.f32(&format!("llama.rope.scaling.{key}"), value).build();
        let error = Gguf::parse("x", file).unwrap().config().unwrap_err();
        assert!(matches!(*error.cause, Cause::WrongType { .. }), "{error}");
    }
}

/// `query_pre_attn_scalar` is the head's width, but in the 27B sizes the model's width by its heads.
#[test]
fn gemma_leaves_much_unsaid() {
    let headed = |name: &str, layers, width, heads, dim| {
        decoder(name, layers, width, heads).u32(&format!("{name}.attention.key_length"), dim)
    };
    check(
        headed("gemma2", 26, 2304, 8, 256),
        json!({"query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0,
               "final_logit_softcapping": 30.0, "sliding_window": 4096,
               "hidden_activation": "gelu_pytorch_tanh"}),
    );
    let large = headed("gemma2", 46, 4608, 32, 128).f32("gemma2.final_logit_softcapping", 7.5);
    check(large, json!({"query_pre_attn_scalar": 144, "final_logit_softcapping": 7.5}));
    check(
        headed("gemma3", 62, 5376, 32, 128).f32("gemma3.rope.scaling.factor", 8.0),
        json!({"model_type": "gemma3_text", "query_pre_attn_scalar": 168,
               "sliding_window_pattern": 6, "rope_local_base_freq": 10_000.0,
               "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    );
    let list =
        |element: u32, parts: &[[u8; 4]]| array(element, parts.len() as u64, &parts.concat());
    let thresholds = [1.5, f32::NEG_INFINITY].map(f32::to_le_bytes);
    let several = headed("gemma3n", 2, 64, 4, 24)
        .key("gemma3n.activation_sparsity_scale", 9, &list(6, &thresholds))
        .key("gemma3n.attention.sliding_window_pattern", 9, &array(7, 2, &[1, 0]))
        .u32("gemma3n.attention.shared_kv_layers", 1)
        .u32("gemma3n.embedding_length_per_layer_input", 16)
        .tensor("blk.0.laurel_l.weight", &[64, 8], 0, &[0; 2048])
        .tensor("blk.0.attn_k.weight", &[64, 1], 0, &[0; 256]);
    check(
        several,
        json!({"model_type": "gemma3n_text", "activation_sparsity_scale": [1.5, null],
               "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 1,
               "sliding_window_pattern": null, "hidden_size_per_layer_input": 16,
               "laurel_rank": 8, "attention_k_eq_v": true, "final_logit_softcapping": 30.0}),
    );
    check(
        headed("gemma4", 2, 64, 4, 32).u32("gemma4.attention.key_length_swa", 16),
        json!({"model_type": "gemma4_text", "head_dim": 32, "head_dim_swa": 16,
               "attention_k_eq_v": false}),
    );
    check(
        headed("gemma", 18, 2048, 8, 256),
        json!({"query_pre_attn_scalar": null, "head_dim": 256}),
    );
}
