//! The post-processors and decoders of a `tokenizer.json`.
use super::node::Node;
use super::stages::{pattern, prepend_scheme};
use crate::tokenizer::TokenizerError;
use crate::tokenizer::decode::Decoder;
use crate::tokenizer::pretokenize::Prepend;
use crate::tokenizer::template::{Slot, Template};

const PROCESSORS: &str =
    "Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing";
const DECODERS: &str = "Sequence, ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, \
    WordPiece, BPEDecoder";

/// What a post-processor adds, if it adds anything.
pub(super) fn post_processor(n: &Node<'_>) -> Result<Option<Template>, TokenizerError> {
    if n.value.is_null() {
        return Ok(None);
    }
    match n.kind()? {
        "Sequence" => {
            let mut found = None;
            for n in n.get("processors").items()? {
                if let Some(template) = post_processor(&n)? {
                    if found.is_some() {
                        return Err(n.wrong("more than one post-processor adds tokens"));
                    }
                    found = Some(template);
                }
            }
            Ok(found)
        }
        // It only trims offsets, and ids have none.
        "ByteLevel" => Ok(None),
        "TemplateProcessing" => {
            Ok(Some(Template { single: slots(n, "single")?, pair: slots(n, "pair")? }))
        }
        "BertProcessing" => {
            let (cls, sep) = (named_id(&n.get("cls"))?, named_id(&n.get("sep"))?);
            let token = |id, kind| Slot::Tokens(vec![id], kind);
            let single = vec![token(cls, 0), Slot::First(0), token(sep, 0)];
            let mut pair = single.clone();
            pair.extend([Slot::Second(1), token(sep, 1)]);
            Ok(Some(Template { single, pair }))
        }
        "RobertaProcessing" => {
            let (cls, sep) = (named_id(&n.get("cls"))?, named_id(&n.get("sep"))?);
            let token = |id| Slot::Tokens(vec![id], 0);
            let single = vec![token(cls), Slot::First(0), token(sep)];
            let mut pair = single.clone();
            pair.extend([token(sep), Slot::Second(0), token(sep)]);
            Ok(Some(Template { single, pair }))
        }
        _ => Err(n.unsupported(PROCESSORS)),
    }
}

/// `["</s>", 2]`.
fn named_id(n: &Node<'_>) -> Result<u32, TokenizerError> {
    match n.items()?.as_slice() {
        [_, id] => id.id(),
        _ => Err(n.wrong("expected a token and its id")),
    }
}

fn slots(n: &Node<'_>, key: &str) -> Result<Vec<Slot>, TokenizerError> {
    let tokens = n.get("special_tokens");
    let mut out: Vec<Slot> = vec![];
    for item in n.get(key).items()? {
        let (sequence, token) = (item.get("Sequence"), item.get("SpecialToken"));
        if !sequence.value.is_null() {
            let kind = sequence.get("type_id").id()?;
            let slot = match sequence.get("id").str()? {
                "A" => Slot::First(kind),
                "B" => Slot::Second(kind),
                _ => return Err(sequence.get("id").wrong("expected A or B")),
            };
            let same =
                |other: &Slot| std::mem::discriminant(other) == std::mem::discriminant(&slot);
            if out.iter().any(same) {
                return Err(sequence.wrong("the sequence occurs twice"));
            }
            out.push(slot);
        } else {
            let name = token.get("id").str()?;
            let ids = tokens.get(name).get("ids").items()?;
            let ids = ids.iter().map(Node::id).collect::<Result<_, _>>()?;
            out.push(Slot::Tokens(ids, token.get("type_id").id()?));
        }
    }
    Ok(out)
}

/// Appends the steps of a decoder.
pub(super) fn decoder(n: &Node<'_>, out: &mut Vec<Decoder>) -> Result<(), TokenizerError> {
    if n.value.is_null() {
        return Ok(());
    }
    out.push(match n.kind()? {
        "Sequence" => {
            return n.get("decoders").items()?.iter().try_for_each(|n| decoder(n, out));
        }
        "ByteLevel" => Decoder::ByteLevel,
        "ByteFallback" => Decoder::ByteFallback,
        "Fuse" => Decoder::Fuse,
        "Metaspace" => Decoder::Metaspace {
            replacement: n.get("replacement").char()?,
            prepended: prepend_scheme(n)? != Prepend::Never,
        },
        "Replace" => {
            Decoder::Replace(pattern(&n.get("pattern"))?, n.get("content").str()?.to_owned())
        }
        "Strip" => Decoder::Strip {
            content: n.get("content").char()?,
            start: n.get("start").usize()?,
            stop: n.get("stop").usize()?,
        },
        "WordPiece" => Decoder::WordPiece {
            prefix: n.get("prefix").str()?.to_owned(),
            cleanup: n.get("cleanup").bool_or(true)?,
        },
        "BPEDecoder" => Decoder::Suffix(n.get("suffix").str()?.to_owned()),
        _ => return Err(n.unsupported(DECODERS)),
    });
    Ok(())
}
