//! Which of some texts is nearest to a question: cargo run --example embed -- path/to/model "a question"
use rinfer::{Embed, Embedder, Error, Input, Load};

const TEXTS: [&str; 3] = [
    "Air scatters blue light more than red.",
    "Yeast makes bread rise.",
    "A compiler turns text into machine code.",
];

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let model = args.next().unwrap_or_else(|| "embedding-model".into());
    let question = args.next().unwrap_or_else(|| "Why is the sky blue?".into());
    let embedder = Embedder::load(model, Load::default())?;
    let asked = embedder.embed(&question)?;
    // All texts share a pass, and none of their vectors is another for it.
    let found = embedder.embed_all(&TEXTS.map(Input::Text), &Embed::default())?;
    for (text, found) in TEXTS.iter().zip(&found) {
        let cosine: f32 = asked.iter().zip(&found.vector).map(|(a, b)| a * b).sum();
        println!("{cosine:.3}  {text}");
    }
    Ok(())
}
