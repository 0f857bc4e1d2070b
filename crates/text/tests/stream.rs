//! Text as it comes: over every border, the pieces joined are what the whole gives.
use rinfer_text::stream::Decoder;

/// Pushes `tokens`, and expects the text and the stop string.
fn check(stops: &[&str], tokens: &[&[u8]], want: &str, stop: Option<&str>) {
    let (text, stopped) = decode(stops, tokens);
    assert_eq!((text.as_str(), stopped.as_deref()), (want, stop), "{stops:?} {tokens:?}");
    let whole = tokens.concat();
    assert_eq!(decode(stops, &[&whole]), (text, stopped), "buffered, {stops:?} {tokens:?}");
}

fn decode(stops: &[&str], tokens: &[&[u8]]) -> (String, Option<String>) {
    let mut decoder = Decoder::new(stops.iter().map(|s| (*s).to_owned()).collect());
    let mut text = String::new();
    for token in tokens {
        text.push_str(decoder.push(token));
    }
    text.push_str(decoder.finish());
    (text, decoder.stopped().map(str::to_owned))
}

#[test]
fn characters_over_tokens() {
    check(&[], &[b"a", b"\xf0", b"\x9f\x98", b"\x80b"], "a😀b", None);
    check(&[], &[b"\xe6\x97", b"\xa5\xe6", b"\x9c\xac"], "日本", None);
}

#[test]
fn an_incomplete_end_is_dropped() {
    for cut in 1..4 {
        check(&[], &[b"ok ", &"😀".as_bytes()[..cut]], "ok ", None);
    }
}

#[test]
fn invalid_bytes_are_replaced() {
    check(&[], &[b"a\xff", b"\xfeb"], "a\u{fffd}\u{fffd}b", None);
    check(&[], &[b"\xf0\x9f", b"x"], "\u{fffd}x", None);
    check(&[], &[b"\xe6", b"\xe6\x97\xa5"], "\u{fffd}日", None);
    check(&[], &[b"\xed\xa0\x80", b"!"], "\u{fffd}\u{fffd}\u{fffd}!", None);
}

#[test]
fn stop_strings_over_tokens() {
    check(&["O P Q"], &[b"N O", b" P", b" Q R"], "N ", Some("O P Q"));
    check(&["Alice:"], &[b"Bob and Ali", b"ce", b"! said"], "Bob and Alice! said", None);
    check(&["\n"], &[b"\n", b"x"], "", Some("\n"));
    check(&["</s>"], &[b"a</", b"s"], "a</s", None);
    check(&["aab"], &[b"aa", b"a", b"b"], "a", Some("aab"));
    check(&["日本"], &[b"x\xe6\x97", b"\xa5\xe6\x9c", b"\xac"], "x", Some("日本"));
}

#[test]
fn of_two_stop_strings_the_first_to_end_wins() {
    check(&["abc", "b"], &[b"a", b"b", b"c"], "a", Some("b"));
    check(&["c", "abc"], &[b"ab", b"c"], "", Some("abc"));
    check(&["", "x"], &[b"wx"], "w", Some("x"));
}

#[test]
fn text_is_shown_as_soon_as_it_is_certain() {
    let mut decoder = Decoder::new(vec!["END".to_owned()]);
    assert_eq!(decoder.push(b"one E"), "one ");
    assert_eq!(decoder.push(b"N"), "");
    assert_eq!(decoder.push(b"E"), "EN");
    assert_eq!(decoder.push(b"ND more"), "");
    assert_eq!(decoder.push(b"never"), "");
    assert_eq!((decoder.finish().to_owned(), decoder.stopped()), (String::new(), Some("END")));
}

#[test]
fn a_control_token_may_be_a_stop_string() {
    let mut decoder = Decoder::new(vec!["<|eot_id|>".to_owned()]);
    assert_eq!(decoder.push(b"so <|e"), "so ");
    assert_eq!(decoder.push_control("<|other|>"), "");
    assert_eq!(decoder.push_control("<|eot_id|>"), "<|e");
    assert_eq!(decoder.stopped(), Some("<|eot_id|>"));
}

/// Random bytes of a small alphabet, cut at random: streamed text is buffered text, and without
/// stop strings it is the lossy decoding.
#[test]
fn every_cut_gives_the_same_text() {
    let alphabet: [&[u8]; 9] =
        [b"a", b"b", b"ab", b"\xf0\x9f\x98\x80", b"\xe6\x97\xa5", b"\xe6", b"\x97", b"\xff", b"\n"];
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let bytes: Vec<u8> =
            (0..random(12)).flat_map(|_| alphabet[random(9)].iter().copied()).collect();
        let stops = [&[][..], &["ab"], &["aab", "ba"], &["日\n", "b😀", "a"]][random(4)];
        let mut cuts: Vec<usize> = (0..random(5)).map(|_| random(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let tokens: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let streamed = decode(stops, &tokens);
        assert_eq!(streamed, decode(stops, &[&bytes]), "{stops:?} {tokens:?}");
        if stops.is_empty() {
            let whole = String::from_utf8_lossy(&bytes);
            let tail_is_cut = std::str::from_utf8(&bytes).is_err()
                && whole.strip_suffix('\u{fffd}') == Some(&streamed.0);
            assert!(whole == streamed.0 || tail_is_cut, "{bytes:?}");
        }
    }
}
