//! Writes a tiny model that chats, as a Hugging Face folder, for scripts that need one: tiny_model FOLDER
use rinfer_testkit::{Golden, chat, shared};
use std::path::PathBuf;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).expect("a folder");
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &folder);
}
