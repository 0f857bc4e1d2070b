//! Serves a file of 2 GB (or of as many bytes as the first argument says) to measure fetching with: prints its hub's URL.
use rinfer_fakehub::{Content, Hub};

fn main() {
    let size = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000_000_000);
    let tls = std::env::args().nth(2).is_some_and(|text| text == "tls");
    let hub = if tls { Hub::tls() } else { Hub::start() };
    let content = Content::noise(size, 1);
    content.digest();
    hub.repo("owner/repo", &[("m-Q4_K_M.gguf", content)]);
    println!("{}", hub.url());
    loop {
        std::thread::park();
    }
}
