//! What calls look like, in a model's tokens: grammars of the shapes that its syntax describes.
use crate::language::Language;
use rinfer_grammar::{Bare, Frame, Grammar, Keys, Mark, Notation, Quotes, Shape};
use rinfer_text::tools;

/// A shape in a model's tokens; none if a tool's arguments can't be told in its notation.
pub(super) fn shape(language: &Language, shape: &tools::Shape) -> Option<Shape> {
    let all = |parts: &[tools::Shape]| -> Option<Vec<Shape>> {
        parts.iter().map(|part| self::shape(language, part)).collect()
    };
    let one = |part: &tools::Shape| self::shape(language, part).map(Box::new);
    Some(match shape {
        tools::Shape::Text(text) => Shape::All(pieces(language, text)),
        tools::Shape::Until(end) => match &pieces(language, end)[..] {
            [Shape::Token(id)] => Shape::All(vec![Shape::Anything, Shape::Token(*id)]),
            _ => Shape::Until(end.clone()),
        },
        tools::Shape::Rest => Shape::Anything,
        tools::Shape::Object(schema, notations) => {
            let notations: Vec<Notation> =
                notations.iter().map(|notation| self::notation(language, notation)).collect();
            Shape::Object(Grammar::loosened(schema, &notations)?, notations)
        }
        tools::Shape::All(parts) => Shape::All(all(parts)?),
        tools::Shape::Any(parts) => Shape::Any(all(parts)?),
        tools::Shape::Maybe(part) => Shape::Maybe(one(part)?),
        tools::Shape::More(part) => Shape::More(one(part)?),
    })
}

fn pieces(language: &Language, text: &str) -> Vec<Shape> {
    let shape = |mark| match mark {
        Mark::Text(text) => Shape::Text(text),
        Mark::Token(id) => Shape::Token(id),
        Mark::Key => Shape::Text(String::new()),
    };
    marks(language, text).into_iter().map(shape).collect()
}

/// Text, and the tokens that it names.
pub(super) fn marks(language: &Language, text: &str) -> Vec<Mark> {
    let mut parts = Vec::new();
    let mut at = 0;
    for range in language.tokenizer.added_in(text, false) {
        let Some(id) = language.tokenizer.id_of(&text[range.clone()]) else { continue };
        parts.push(Mark::Text(text[at..range.start].to_owned()));
        parts.push(Mark::Token(id));
        at = range.end;
    }
    parts.push(Mark::Text(text[at..].to_owned()));
    parts.retain(|part| *part != Mark::Text(String::new()));
    parts
}

fn notation(language: &Language, notation: &tools::Notation) -> Notation {
    let tools::Notation { object, list, quotes, keys, without } = notation;
    let mark = |text: &str| match &marks(language, text)[..] {
        [token @ Mark::Token(_)] => token.clone(),
        _ => Mark::Text(text.to_owned()),
    };
    Notation {
        object: frame(language, object, &[Mark::Key]),
        list: frame(language, list, &[]),
        quotes: match quotes {
            tools::Quotes::Json => Quotes::Json,
            tools::Quotes::Python => Quotes::Python,
            tools::Quotes::Marks(open, end) => Quotes::Marks(mark(open), mark(end)),
        },
        keys: match keys {
            tools::Keys::Quoted => Keys::Quoted,
            tools::Keys::Plain(more) => Keys::Plain(more.clone()),
        },
        without: without.clone(),
    }
}

/// The frame of values that have such a key.
fn frame(language: &Language, frame: &tools::Frame, key: &[Mark]) -> Frame {
    let marks = |text: &str| marks(language, text);
    let around = |[before, after]: &[String; 2]| [&marks(before), key, &marks(after)].concat();
    let (after, again) = &frame.after;
    let mut after = match again {
        None => marks(after),
        Some(end) => around(&[after.clone(), end.clone()]),
    };
    let mut bare = |bare: &tools::Bare| {
        let (mut pad, mut end) = (bare.pad.clone(), Mark::Text(bare.end.clone()));
        // Where a tag has a token in it, text goes up to that.
        let parts = marks(&bare.end);
        let token = parts.iter().position(|part| matches!(part, Mark::Token(_)));
        if let Some(at) = token {
            for part in &parts[..at] {
                if let Mark::Text(text) = part {
                    pad += text;
                }
            }
            end = parts[at].clone();
            after.splice(..0, parts[at + 1..].iter().cloned());
        }
        let before = bare.before.as_ref().map(around);
        Bare { pad, end, before, keys: bare.keys.clone(), fence: bare.fence.clone() }
    };
    let bare = frame.bare.as_ref().map(&mut bare);
    Frame {
        open: marks(&frame.open),
        between: marks(&frame.between),
        before: around(&frame.before),
        after,
        close: marks(&frame.close),
        bare,
        named: frame.named,
    }
}
