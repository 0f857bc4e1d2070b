//! Serves a model without weights, which says what it is told to, for tests of clients: prints the
//! address, and ends with its input. Its argument is how many tokens a conversation has room for.
#![allow(clippy::unwrap_used, dead_code, reason = "tests")]
#[path = "../tests/server/client.rs"]
mod client;
#[path = "../tests/server/rig.rs"]
mod rig;

fn main() {
    let rig = rig::Rig::default();
    let config = rinfer_server::Config { web: true, ..rig.config.clone() };
    let context = std::env::args().nth(1).map_or(8000, |n| n.parse().unwrap());
    let rig = rig::Rig { says: None, vectors: true, slots: 4, context, config, ..rig };
    let server = rig.start();
    println!("http://{}", server.addr);
    let _ = std::io::stdin().read_line(&mut String::new());
}
