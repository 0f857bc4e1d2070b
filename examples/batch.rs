//! Several prompts at once, in tokens, with log-probabilities: cargo run --example batch -- model.gguf
use rinfer::{Error, Event, Load, Model, Request, Sampling};

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "model.gguf".into());
    let model = Model::load(path, Load { sequences: 3, ..Load::default() })?;
    let sampling = Sampling { max_tokens: Some(8), ..Sampling::greedy() };
    let prompts = ["The capital of France is", "Two and two are", "The opposite of hot is"];
    // All are under way before the first is read: they share every forward pass.
    let answers = prompts.map(|prompt| {
        let ids = model.language().encode(prompt);
        model.submit(Request { logprobs: Some(0), ..model.request(ids, &sampling) })
    });
    for (prompt, events) in prompts.iter().zip(answers) {
        println!("{prompt}");
        for event in events? {
            if let Event::Token(chosen) = event {
                let piece = model.language().tokenizer.piece(chosen.id.0, false);
                let logprob = chosen.logprob.unwrap_or_default();
                println!("  {logprob:8.3}  {:?}", String::from_utf8_lossy(&piece));
            }
        }
    }
    Ok(())
}
