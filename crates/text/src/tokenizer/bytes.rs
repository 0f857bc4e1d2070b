//! The byte alphabet of byte-level vocabularies: each byte is written as one printable character
//! (GPT-2's `bytes_to_unicode`), so that token texts are text.

const fn is_itself(b: u8) -> bool {
    matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

const fn alphabet() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut next = 256;
    let mut b = 0;
    while b < 256 {
        let code = if is_itself(b as u8) {
            b as u32
        } else {
            next += 1;
            next - 1
        };
        table[b] = match char::from_u32(code) {
            Some(c) => c,
            None => '\0',
        };
        b += 1;
    }
    table
}

/// The character of each byte.
pub(crate) const CHARS: [char; 256] = alphabet();

/// The byte that a character stands for.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0..256 if is_itself(code as u8) => Some(code as u8),
        256..=288 => Some((code - 256) as u8),
        289..=322 => Some((code - 289) as u8 + 127),
        323 => Some(0xAD),
        _ => None,
    }
}

/// The bytes that a token text stands for, or none if a character is not of the alphabet.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

/// Appends `text` in the alphabet.
pub(crate) fn encode_into(text: &str, out: &mut String) {
    out.extend(text.bytes().map(|b| CHARS[usize::from(b)]));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_alphabet_is_a_bijection() {
        for b in 0..=255u8 {
            assert_eq!(super::byte_of(super::CHARS[usize::from(b)]), Some(b));
        }
        assert_eq!((super::CHARS[32], super::CHARS[10], super::CHARS[173]), ('Ġ', 'Ċ', 'Ń'));
        let known = (0..0x500).filter_map(char::from_u32).filter_map(super::byte_of).count();
        assert_eq!(known, 256);
    }
}
