//! A vocabulary's tokens in groups that are judged together.
use toktrie::{SimpleVob, TokTrie};

/// Characters by their bytes: alternatives of sequences of ranges.
pub(super) type Alphabet = &'static [&'static [(u8, u8)]];

/// Most characters of a token of a group, and so how far characters are followed.
pub(super) const FARTHEST: usize = 64;
/// Most characters of tokens that have a set for each length.
const LONGEST: usize = 16;

/// Alphabets, by their numbers: none within one that comes later.
pub(super) const ALPHABETS: [Alphabet; 7] = [TEXT, ASCII, ATOM, WORDS, WORD, LOWER, CONTROL];
/// What JSON strings hold as it is.
pub(super) const IS_TEXT: usize = 0;
const IS_WORD: usize = 4;
/// What they don't; of no group.
pub(super) const IS_CONTROL: usize = 6;

const TEXT: Alphabet = &[
    &[(0x20, 0x21)],
    &[(0x23, 0x5B)],
    &[(0x5D, 0x7E)],
    &[(0xC2, 0xDF), (0x80, 0xBF)],
    &[(0xE0, 0xE0), (0xA0, 0xBF), (0x80, 0xBF)],
    &[(0xE1, 0xEC), (0x80, 0xBF), (0x80, 0xBF)],
    &[(0xED, 0xED), (0x80, 0x9F), (0x80, 0xBF)],
    &[(0xEE, 0xEF), (0x80, 0xBF), (0x80, 0xBF)],
    &[(0xF0, 0xF0), (0x90, 0xBF), (0x80, 0xBF), (0x80, 0xBF)],
    &[(0xF1, 0xF3), (0x80, 0xBF), (0x80, 0xBF), (0x80, 0xBF)],
    &[(0xF4, 0xF4), (0x80, 0x8F), (0x80, 0xBF), (0x80, 0xBF)],
];
const ASCII: Alphabet = &[&[(0x20, 0x21)], &[(0x23, 0x5B)], &[(0x5D, 0x7E)]];
/// What the names of e-mail addresses are made of.
const ATOM: Alphabet = &[
    &[(b'!', b'!')],
    &[(b'#', b'\'')],
    &[(b'*', b'+')],
    &[(b'-', b'-')],
    &[(b'/', b'9')],
    &[(b'=', b'=')],
    &[(b'?', b'?')],
    &[(b'A', b'Z')],
    &[(b'^', b'~')],
];
const WORDS: Alphabet = &[&[(b' ', b' ')], &[(b'0', b'9')], &[(b'A', b'Z')], &[(b'a', b'z')]];
const WORD: Alphabet = &[&[(b'0', b'9')], &[(b'A', b'Z')], &[(b'a', b'z')]];
const LOWER: Alphabet = &[&[(b'a', b'z')]];
const CONTROL: Alphabet = &[&[(0x00, 0x1F)]];

/// Characters before words, as tokens have them: what is of one of these and a word is a group.
const LEADS: [u8; 8] = *b" .(,:<[@";

/// A vocabulary's tokens, sorted.
pub(crate) struct Tables {
    pub(super) all: TokTrie,
    pub(super) groups: Vec<Group>,
    /// Tokens of text and control characters.
    pub(super) controls: TokTrie,
    /// Tokens of neither.
    pub(super) rest: TokTrie,
}

/// Tokens of one alphabet that are in no other group.
pub(super) struct Group {
    /// By number.
    pub alphabet: usize,
    /// A character that comes before those of the alphabet.
    pub lead: Option<u8>,
    /// The groups, with this one, of which the alphabet has all characters.
    pub within: Vec<usize>,
    /// Its tokens, to be walked.
    pub walked: TokTrie,
    /// Its tokens of up to so many characters, and longer ones with their lengths.
    up_to: Vec<SimpleVob>,
    long: Vec<(usize, u32)>,
}

impl Tables {
    pub(crate) fn new(trie: &TokTrie) -> Tables {
        let kinds = kinds();
        let (mut rest, mut controls) = (trie.alloc_token_set(), trie.alloc_token_set());
        let mut sorted: Vec<Vec<(usize, u32)>> = vec![Vec::new(); kinds.len()];
        for id in 0..trie.vocab_size() as u32 {
            let text = std::str::from_utf8(trie.token(id)).ok();
            let text = text.filter(|t| (1..=FARTHEST).contains(&t.chars().count()));
            let kind = text.and_then(|text| kinds.iter().rposition(|kind| kind.has(text)));
            match (text, kind) {
                (Some(text), Some(at)) => sorted[at].push((text.chars().count(), id)),
                (Some(text), None) if text.chars().all(written) => controls.allow_token(id),
                _ => rest.allow_token(id),
            }
        }
        let groups = sorted.iter().zip(&kinds).map(|(tokens, kind)| {
            let within = (0..kinds.len()).filter(|at| kind.holds(&kinds[*at])).collect();
            Group::new(kind, within, tokens, trie)
        });
        let groups = groups.collect();
        let (controls, rest) = (trie.filter(&controls), trie.filter(&rest));
        Tables { all: trie.clone(), groups, controls, rest }
    }
}

impl Group {
    fn new(kind: &Kind, within: Vec<usize>, tokens: &[(usize, u32)], trie: &TokTrie) -> Group {
        let set = |most: usize| {
            let mut within = trie.alloc_token_set();
            let ids = tokens.iter().filter(|(count, _)| *count <= most);
            ids.for_each(|(_, id)| within.allow_token(*id));
            within
        };
        Group {
            alphabet: kind.alphabet,
            lead: kind.lead,
            within,
            walked: trie.filter(&set(FARTHEST)),
            up_to: (0..=LONGEST).map(set).collect(),
            long: tokens.iter().filter(|(count, _)| *count > LONGEST).copied().collect(),
        }
    }

    /// Adds its tokens of up to so many characters.
    pub fn add(&self, most: usize, set: &mut SimpleVob) {
        set.or(&self.up_to[most.min(LONGEST)]);
        if most > LONGEST {
            let ids = self.long.iter().filter(|(count, _)| *count <= most);
            ids.for_each(|(_, id)| set.allow_token(*id));
        }
    }
}

/// What the tokens of a group are.
struct Kind {
    alphabet: usize,
    lead: Option<u8>,
}

/// All kinds; a token is of the last that has it.
fn kinds() -> Vec<Kind> {
    let plain = |alphabet| Kind { alphabet, lead: None };
    let leads = LEADS.iter().map(|lead| Kind { alphabet: IS_WORD, lead: Some(*lead) });
    (0..IS_WORD).map(plain).chain(leads).chain((IS_WORD..IS_CONTROL).map(plain)).collect()
}

impl Kind {
    fn has(&self, text: &str) -> bool {
        let rest = match self.lead {
            Some(lead) => text.strip_prefix(char::from(lead)).filter(|rest| !rest.is_empty()),
            None => Some(text),
        };
        rest.is_some_and(|rest| rest.chars().all(|c| holds(ALPHABETS[self.alphabet], c)))
    }

    /// Whether every text of another is one of this.
    fn holds(&self, other: &Kind) -> bool {
        let has = |c| holds(ALPHABETS[self.alphabet], c);
        let mut ascii = (' '..='~').filter(|c| holds(ALPHABETS[other.alphabet], *c));
        let wider = self.alphabet == IS_TEXT || other.alphabet != IS_TEXT;
        match (self.lead, other.lead) {
            (None, lead) => {
                wider && ascii.all(has) && lead.is_none_or(|lead| has(char::from(lead)))
            }
            (lead, other) => lead == other,
        }
    }
}

/// Whether a character can be in a token of text and controls.
fn written(c: char) -> bool {
    holds(TEXT, c) || holds(CONTROL, c)
}

fn holds(alphabet: Alphabet, c: char) -> bool {
    let mut bytes = [0; 4];
    let bytes = c.encode_utf8(&mut bytes).as_bytes();
    let within = |ranges: &[(u8, u8)]| {
        let mut pairs = ranges.iter().zip(bytes);
        ranges.len() == bytes.len() && pairs.all(|((low, high), b)| (low..=high).contains(&b))
    };
    alphabet.iter().any(|ranges| within(ranges))
}
