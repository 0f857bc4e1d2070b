//! A conversation of two turns: cargo run --example chat -- model.gguf
use rinfer::{Error, Load, Model};
use std::io::Write;

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "model.gguf".into());
    let model = Model::load(path, Load::default())?;
    let mut chat = model.session();
    chat.system("Answer in one sentence.");
    for question in ["Why is the sky blue?", "And why is it red in the evening?"] {
        println!("> {question}");
        for piece in chat.say(question)? {
            print!("{}", piece?);
            std::io::stdout().flush()?;
        }
        println!();
    }
    Ok(())
}
