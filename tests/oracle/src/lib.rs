//! Random texts, and one comparison of our tokenizer with Hugging Face's.
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::Special;

/// A generator of reproducible choices (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
    /// One of `of`.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Words by a space.
const WORDS: &str = "Hello world the don't I'LL it's x user assistant ſ ﬁne naïve cafe\u{301} Ångström ½ ² Ⅷ \
    ① 你好 日本語 テスト 한국어 สวัสดี नमस्ते مرحبا שלום Привет Γειά İstanbul ǅ 🦙 👨‍👩‍👧‍👦 🏳️‍🌈 é e\u{301}\u{323} 0 \
    12345 3.14 ٣٤٥ 1,234 foo_bar C:\\x ... !!! -- «» $€ < > | ▁ ▁▁the Ġ ##ing <0x0A> \u{200B} \
    \u{FEFF} \u{0} \u{7F} \u{85} \u{2028} \u{FFFD} \u{AD} \u{10FFFF}";
const SPACES: [&str; 12] =
    [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u{A0}", "\u{3000}", " \n "];

/// A text of `specials`, words of many scripts, spaces and stray characters.
pub fn text(dice: &mut Dice, specials: &[String]) -> String {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let mut out = String::new();
    for _ in 0..dice.below(12) {
        match dice.below(10) {
            0 | 1 if !specials.is_empty() => out.push_str(&specials[dice.below(specials.len())]),
            0..=2 => out.push_str(dice.pick(&SPACES[..])),
            // Unicode 9 made marks of the letters U+1885 and U+1886; their tables are older.
            3 => out.extend(
                char::from_u32(dice.below(0x3000) as u32)
                    .filter(|c| !('\u{1885}'..='\u{1886}').contains(c)),
            ),
            4 => out.push(dice.pick(&['a', 'b', 'e', ' ', '\'', '7'][..])),
            _ => {
                out.push_str(dice.pick(&words));
                if dice.below(2) == 0 {
                    out.push(' ');
                }
            }
        }
    }
    out
}

/// A `tokenizer.json` in both programs.
pub struct Both {
    pub ours: Tokenizer,
    pub theirs: tokenizers::Tokenizer,
    /// The same, with special tokens in a text read as text.
    pub plain: tokenizers::Tokenizer,
    pub specials: Vec<String>,
    pub name: String,
}

impl Both {
    /// Reads `json`, called `name` in failures.
    pub fn new(name: &str, json: &[u8]) -> Self {
        let theirs =
            tokenizers::Tokenizer::from_bytes(json).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut plain = theirs.clone();
        plain.set_encode_special_tokens(true);
        let ours = Tokenizer::from_json(json).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut specials: Vec<String> =
            theirs.get_added_tokens_decoder().values().map(|t| t.content.clone()).collect();
        specials.sort();
        Self { ours, theirs, plain, specials, name: name.to_owned() }
    }

    /// Compares `count` random texts: markup, plain text, whole inputs, and back.
    pub fn compare(&mut self, seed: u64, count: usize) {
        let mut dice = Dice(seed);
        for _ in 0..count {
            let text = text(&mut dice, &self.specials);
            self.compare_text(&text);
            self.compare_ids(&mut dice);
        }
    }

    fn compare_text(&mut self, text: &str) {
        let name = &self.name;
        let encode = |t: &tokenizers::Tokenizer, add: bool| {
            t.encode_fast(text, add).unwrap_or_else(|e| panic!("{name}: {e}")).get_ids().to_vec()
        };
        let ids = encode(&self.theirs, false);
        let ours = self.ours.encode(text, Special::Parse);
        assert_eq!(ours, ids, "{name}: {text:?} as markup");
        assert_eq!(self.ours.wrap(&ours), encode(&self.theirs, true), "{name}: {text:?} whole");
        for skip in [false, true] {
            self.compare_decoded(&ids, skip);
        }
        let plain = self.ours.encode(text, Special::Plain);
        let unk = self.ours.roles().unk;
        let control = |id: &&u32| self.ours.is_control(**id) && Some(**id) != unk;
        assert_eq!(plain.iter().find(control), None, "{name}: {text:?} as plain text");
        // Theirs may find a control token in plain text all the same, as a word of the model's.
        let theirs = encode(&self.plain, false);
        if !theirs.iter().any(|id| self.ours.is_control(*id)) {
            assert_eq!(plain, theirs, "{name}: {text:?} as plain text");
        }
        // What is all plain is as one plain text; what is not is as markup.
        let whole = 0..text.len();
        let all = self.ours.encode(text, Special::Except(std::slice::from_ref(&whole)));
        assert_eq!(all, plain, "{name}: {text:?}");
        assert_eq!(self.ours.encode(text, Special::Except(&[])), ours, "{name}: {text:?}");
    }

    fn compare_decoded(&self, ids: &[u32], skip: bool) {
        // Theirs does not skip a special token whose text normalization changes.
        let added = self.theirs.get_added_tokens_decoder();
        let odd = |id| added.get(id).is_some_and(|t| t.special && t.normalized);
        if skip && ids.iter().any(odd) {
            return;
        }
        let theirs = self.theirs.decode(ids, skip).unwrap();
        assert_eq!(self.ours.decode(ids, skip), theirs, "{}: {ids:?} decoded", self.name);
    }

    fn compare_ids(&self, dice: &mut Dice) {
        let n = self.ours.vocab_size();
        let ids: Vec<u32> = (0..dice.below(9)).map(|_| dice.below(n) as u32).collect();
        for skip in [false, true] {
            self.compare_decoded(&ids, skip);
        }
        // A stream's pieces are the text, where the bytes are one.
        let pieces = ids.iter().enumerate().flat_map(|(i, &id)| self.ours.piece(id, i == 0));
        let bytes = pieces.collect();
        if let Ok(text) = String::from_utf8(bytes) {
            let whole = self.ours.decode(&ids, false);
            if !whole.contains('\u{FFFD}') {
                assert_eq!(text, whole, "{}: {ids:?} in pieces", self.name);
            }
        }
    }
}
