//! An answer as a value of a type: `cargo run --release --example typed -- model.gguf`
use rinfer::{Load, Model, Sampling, Schema};

#[derive(Debug, serde::Deserialize, Schema)]
#[expect(dead_code, reason = "shown by Debug")]
struct City {
    name: String,
    country: Country,
    inhabitants: u32,
}

#[derive(Debug, serde::Deserialize, Schema)]
enum Country {
    Norway,
    Sweden,
    Elsewhere,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: typed MODEL")?;
    let model = Model::load(&path, Load::default())?;
    let mut chat = model.session();
    *chat.sampling() = Sampling { max_tokens: Some(200), ..Sampling::greedy() };
    println!("{:#?}", chat.ask::<City>("Name a city on a fjord.")?);
    Ok(())
}
