//! What the fuzz targets of `rinfer-text` do with an input: read all that it gives.
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::Special;

const TEXTS: [&str; 4] = [
    "",
    "Hello  world's 1234\r\n\n\tvoilà é\u{301} <s>[UNK]</s>",
    "\u{2581}▁日本語🦙\u{200d}🔥\u{0} ½ﬁ\u{2029}",
    "    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Reads a tokenizer.json and tokenizes with it, its own tokens among the texts.
pub fn tokenizer_json(bytes: &[u8]) {
    let Ok(tokenizer) = Tokenizer::from_json(bytes) else { return };
    let size = tokenizer.vocab_size();
    let own: String = (0..size.min(16) as u32).filter_map(|id| tokenizer.token(id)).collect();
    for text in TEXTS.into_iter().chain([own.as_str()]) {
        let half = 0..text.len() / 2;
        let half = std::slice::from_ref(&half);
        for special in [Special::Parse, Special::Plain, Special::Except(half)] {
            let ids = tokenizer.encode(text, special);
            assert!(ids.iter().all(|id| (*id as usize) < size));
            let _ = (tokenizer.decode(&ids, true), tokenizer.decode(&ids, false));
            let _ = (tokenizer.wrap(&ids), tokenizer.wrap_pair(&ids, &ids));
        }
    }
    for id in (0..size.min(256) as u32).chain([size as u32, u32::MAX]) {
        let _ = (tokenizer.bytes(id), tokenizer.piece(id, true), tokenizer.is_control(id));
    }
}
