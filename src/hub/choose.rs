//! Which files of a repository are a model: one of its quants, a folder of safetensors, or an adapter.
use super::Error;
use super::listing::{Entry, Listing};
use super::quant::{Candidate, candidates};
use super::reference::Pick;

/// The files of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it is called among its repository's, such as `Q4_K_M`; none for the whole folder.
    pub tag: Option<String>,
    /// All that it consists of; of a split GGUF, in order.
    pub files: Vec<Entry>,
    /// Whether the folder is the model, instead of its first file.
    pub folder: bool,
}

impl Choice {
    /// Bytes of all files whose size is known.
    pub fn bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).sum()
    }
}

/// The model that is meant.
///
/// # Errors
/// [`Error::NoModel`], [`Error::Choice`].
pub fn choose(listing: &Listing, pick: &Pick) -> Result<Choice, Error> {
    let all = candidates(&listing.files);
    let none = |problem: String| Error::NoModel { repo: listing.repo.to_string(), problem };
    if listing.files.is_empty() {
        return Err(none("is empty: it has no files yet. Try another repository".into()));
    }
    match pick {
        Pick::File(path) => file(listing, &all, path),
        Pick::Tag(tag) if tag.eq_ignore_ascii_case("safetensors") => {
            folder(listing).ok_or_else(|| {
                none(format!("has no safetensors with a config.json; {}", instead(listing, &all)))
            })?
        }
        Pick::Tag(tag) => self::tag(listing, &all, tag),
        Pick::Default if !all.is_empty() => whole(listing, default(listing, &all)?),
        Pick::Default => folder(listing).ok_or_else(|| {
            none(format!("has nothing that rinfer runs: {}", instead(listing, &all)))
        })?,
    }
}

/// Every model that there is to choose.
pub fn models(listing: &Listing) -> Vec<Choice> {
    let quants = candidates(&listing.files).into_iter().map(|candidate| Choice {
        tag: Some(candidate.label.clone().unwrap_or_else(|| candidate.first().path.clone())),
        files: candidate.files.into_iter().cloned().collect(),
        folder: false,
    });
    quants.chain(folder(listing).and_then(Result::ok)).collect()
}

/// Q4_K_M, else another Q4, else the first.
fn default<'a, 'l>(
    listing: &Listing,
    all: &'a [Candidate<'l>],
) -> Result<&'a Candidate<'l>, Error> {
    let Some(first) = all.first() else { unreachable!("there are candidates") };
    let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<&'a Candidate<'l>> {
        let has = |c: &&Candidate| c.quant.as_deref().is_some_and(wanted);
        let found: Vec<_> = all.iter().filter(has).collect();
        // A plain quant rather than a variant of it.
        let plain: Vec<_> = found.iter().copied().filter(|c| c.label == c.quant).collect();
        if plain.is_empty() { found } else { plain }
    };
    let best = of(&|quant| quant == "Q4_K_M");
    match &best[..] {
        [one] => return Ok(one),
        [] => {}
        _ => return Err(ambiguous(listing, "several of its models are Q4_K_M", &best)),
    }
    let fours = of(&|quant| quant.starts_with("Q4"));
    let Some(four) = fours.iter().min_by_key(|c| (c.rank(), &c.first().path)) else {
        return Ok(first);
    };
    let same: Vec<_> = fours.iter().copied().filter(|c| c.quant == four.quant).collect();
    if same.len() > 1 {
        let problem =
            format!("several of its models are {}", four.quant.as_deref().unwrap_or_default());
        return Err(ambiguous(listing, &problem, &same));
    }
    Ok(four)
}

fn tag(listing: &Listing, all: &[Candidate], tag: &str) -> Result<Choice, Error> {
    let same =
        |text: &Option<String>| text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case(tag));
    let exact: Vec<_> = all.iter().filter(|c| same(&c.label)).collect();
    let loose: Vec<_> = all.iter().filter(|c| same(&c.quant)).collect();
    match if exact.is_empty() { &loose[..] } else { &exact[..] } {
        [one] => whole(listing, one),
        [] if all.is_empty() => Err(Error::NoModel {
            repo: listing.repo.to_string(),
            problem: format!("has no GGUF file, and so no {tag}; {}", instead(listing, all)),
        }),
        [] => Err(ambiguous(
            listing,
            &format!("no quant is called {tag}"),
            &all.iter().collect::<Vec<_>>(),
        )),
        several => Err(ambiguous(listing, &format!("several of its models are {tag}"), several)),
    }
}

fn file(listing: &Listing, all: &[Candidate], path: &str) -> Result<Choice, Error> {
    let exact = |file: &&Entry| file.path == path;
    let loose = |file: &&Entry| file.path.eq_ignore_ascii_case(path);
    let name = |file: &&Entry| {
        file.path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case(path))
    };
    let tests: [&dyn Fn(&&Entry) -> bool; 3] = [&exact, &loose, &name];
    let found = tests.iter().map(|test| listing.files.iter().filter(test).collect::<Vec<_>>());
    let found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
    let none = |problem: String| Error::NoModel { repo: listing.repo.to_string(), problem };
    match &found[..] {
        [] => Err(ambiguous(
            listing,
            &format!("there is no file {}", path.escape_debug()),
            &all.iter().collect::<Vec<_>>(),
        )),
        [one] => match all.iter().find(|c| c.files.iter().any(|file| file.path == one.path)) {
            Some(candidate) => whole(listing, candidate),
            None if one.path.to_ascii_lowercase().ends_with(".safetensors") => folder(listing)
                .filter(|folder| folder.as_ref().is_ok_and(|f| f.files.contains(one)))
                .unwrap_or_else(|| {
                    Err(none(format!("has {}, which is no part of a model's folder", one.path)))
                }),
            None => Err(none(format!(
                "has {}, which is no model but goes with one (a projector or an importance matrix): name a model's file",
                one.path
            ))),
        },
        _ => Err(Error::Choice {
            repo: listing.repo.to_string(),
            problem: format!("several files are called {}", path.escape_debug()),
            candidates: found.iter().map(|file| file.path.clone()).collect(),
        }),
    }
}

/// A candidate, if all its parts are there.
fn whole(listing: &Listing, candidate: &Candidate) -> Result<Choice, Error> {
    if let Some(missing) = candidate.missing() {
        let problem = format!(
            "lists no {missing}, a part of {}: the upload is not complete",
            candidate.first().path
        );
        return Err(Error::NoModel { repo: listing.repo.to_string(), problem });
    }
    Ok(Choice {
        tag: candidate.label.clone(),
        files: candidate.files.iter().map(|&file| file.clone()).collect(),
        folder: false,
    })
}

fn ambiguous(listing: &Listing, problem: &str, candidates: &[&Candidate]) -> Error {
    let candidates = candidates.iter().map(|c| c.describe()).collect();
    Error::Choice { repo: listing.repo.to_string(), problem: problem.to_owned(), candidates }
}

/// A folder of safetensors with all that goes with it, or an adapter; none if there is neither.
fn folder(listing: &Listing) -> Option<Result<Choice, Error>> {
    let has = |path: &str| listing.file(path).is_some();
    let top = |file: &&Entry| !file.path.contains('/');
    let ends = |file: &Entry, end: &str| file.path.to_ascii_lowercase().ends_with(end);
    let weights: Vec<&Entry> =
        listing.files.iter().filter(top).filter(|f| ends(f, ".safetensors")).collect();
    let adapter = has("adapter_config.json") && has("adapter_model.safetensors");
    if adapter && !has("config.json") {
        let names = ["adapter_config.json", "adapter_model.safetensors"];
        let files = names.iter().filter_map(|name| listing.file(name)).cloned().collect();
        return Some(Ok(Choice { tag: None, files, folder: true }));
    }
    if !has("config.json") || weights.is_empty() {
        return None;
    }
    // The same weights may lie there in another form too, such as consolidated.safetensors.
    let named: Vec<&Entry> =
        weights.iter().copied().filter(|f| f.path.starts_with("model")).collect();
    let weights = if named.is_empty() { weights } else { named };
    let index = has("model.safetensors.index.json");
    let sharded = |f: &&Entry| !index || f.path.contains("-of-");
    let weights: Vec<&Entry> = if weights.iter().any(sharded) {
        weights.into_iter().filter(sharded).collect()
    } else {
        weights
    };
    let goes_with = |file: &&Entry| {
        let texts = [
            ".json",
            ".jinja",
            ".model",
            ".tiktoken",
            "merges.txt",
            "vocab.txt",
            "license",
            "license.txt",
            "license.md",
        ];
        let top = !file.path.contains('/') && texts.iter().any(|end| ends(file, end));
        top || stage(&file.path)
    };
    let other_index = |file: &&Entry| {
        !file.path.ends_with(".index.json") || file.path == "model.safetensors.index.json"
    };
    let mut files: Vec<Entry> =
        listing.files.iter().filter(goes_with).filter(other_index).cloned().collect();
    files.extend(weights.into_iter().cloned());
    Some(Ok(Choice { tag: None, files, folder: true }))
}

/// Whether a file belongs to a stage of a sentence encoder: `1_Pooling/config.json`.
fn stage(path: &str) -> bool {
    let Some((folder, file)) = path.split_once('/') else { return false };
    let number = folder
        .split_once('_')
        .is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    number && ["config.json", "model.safetensors"].contains(&file)
}

/// What a repository without a model has, and what to do.
fn instead(listing: &Listing, all: &[Candidate]) -> String {
    let any = |ends: &[&str]| {
        listing
            .files
            .iter()
            .any(|f| ends.iter().any(|end| f.path.to_ascii_lowercase().ends_with(end)))
    };
    if !all.is_empty() {
        "it has GGUF files: leave out the tag, or name a quant".into()
    } else if any(&[".gguf"]) {
        "its GGUF files go with a model and are none (projectors, importance matrices)".into()
    } else if any(&[".safetensors"]) {
        "it has safetensors without a config.json beside them, so they are not a language model's folder".into()
    } else if any(&[".bin", ".pt", ".pth", ".ckpt"]) {
        "it has PyTorch's pickles, which can run code and are not read: look for the same model as safetensors or GGUF".into()
    } else {
        format!("it has {} files, and none is a .gguf or .safetensors file", listing.files.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::reference::{Reference, Repo};

    fn listing(files: &[&str]) -> Listing {
        let mut files: Vec<Entry> = files
            .iter()
            .map(|path| Entry { path: (*path).into(), size: Some(1), digest: None })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Listing { repo: Repo::new("a/b").unwrap(), commit: "0".repeat(40), licence: None, files }
    }

    fn pick(text: &str) -> Pick {
        Reference::new(&format!("hf:a/b{text}")).unwrap().pick
    }

    fn check(files: &[&str], text: &str, expected: &[&str]) {
        let choice = choose(&listing(files), &pick(text)).unwrap();
        let chosen: Vec<&str> = choice.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(chosen, expected, "{text} of {files:?}");
    }

    fn refuses(files: &[&str], text: &str, says: &[&str]) {
        let error = choose(&listing(files), &pick(text)).unwrap_err().to_string();
        says.iter().for_each(|word| assert!(error.contains(word), "{word}: {error}"));
    }

    const MANY: &[&str] = &[
        "README.md",
        "m.v1.5-IQ4_XS.gguf",
        "m.v1.5-Q2_K.gguf",
        "m.v1.5-Q4_0.gguf",
        "m.v1.5-Q4_K_M.gguf",
        "m.v1.5-Q4_K_S.gguf",
        "m.v1.5-Q8_0.gguf",
        "m.v1.5-UD-Q4_K_M.gguf",
        "m.v1.5-f16.gguf",
        "mmproj-m-Q4_K_M.gguf",
        "imatrix.gguf",
    ];

    #[test]
    fn d8_quants_by_tag_and_default() {
        check(MANY, "", &["m.v1.5-Q4_K_M.gguf"]);
        check(MANY, ":q4_k_m", &["m.v1.5-Q4_K_M.gguf"]);
        check(MANY, ":ud-q4_k_m", &["m.v1.5-UD-Q4_K_M.gguf"]);
        check(MANY, ":F16", &["m.v1.5-f16.gguf"]);
        check(MANY, ":iq4_xs", &["m.v1.5-IQ4_XS.gguf"]);
        check(MANY, ":M.V1.5-q2_k.gguf", &["m.v1.5-Q2_K.gguf"]);
        check(&["m-Q8_0.gguf", "m-Q4_0.gguf", "m-Q4_K_S.gguf"], "", &["m-Q4_K_S.gguf"]);
        check(&["m-Q8_0.gguf", "m-Q4_1.gguf"], "", &["m-Q4_1.gguf"]);
        check(&["m-Q8_0.gguf", "m-F16.gguf"], "", &["m-F16.gguf"]);
        check(&["sub/model.gguf"], "", &["sub/model.gguf"]);
        check(&["sub/model.gguf"], ":model.gguf", &["sub/model.gguf"]);
        check(&["m.UD-Q3_K_XL.gguf"], ":Q3_K_XL", &["m.UD-Q3_K_XL.gguf"]);
        check(&["Q4_K_M/m.gguf", "Q8_0/m.gguf"], ":q8_0", &["Q8_0/m.gguf"]);
    }

    #[test]
    fn d8_ambiguity_lists_the_candidates() {
        refuses(
            MANY,
            ":Q5_K_M",
            &["no quant is called Q5_K_M", "Q4_0", "m.v1.5-f16.gguf", "hf:a/b:QUANT"],
        );
        refuses(MANY, ":mmproj-m-Q4_K_M.gguf", &["no model but goes with one"]);
        let two = &["a-Q4_K_M.gguf", "b-Q4_K_M.gguf", "b-Q8_0.gguf"];
        refuses(two, "", &["several of its models are Q4_K_M", "a-Q4_K_M.gguf", "b-Q4_K_M.gguf"]);
        refuses(two, ":q4_k_m", &["several"]);
        check(two, ":q8_0", &["b-Q8_0.gguf"]);
        refuses(&["a-Q4_0.gguf", "b-Q4_0.gguf"], "", &["several of its models are Q4_0"]);
        refuses(&["x/m.gguf", "y/m.gguf"], ":m.gguf", &["several files", "x/m.gguf"]);
        refuses(&["a.gguf"], ":b.gguf", &["no file b.gguf", "a.gguf"]);
    }

    #[test]
    fn d8_split_sets_are_whole() {
        let set: &[&str] = &[
            "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf",
            "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf",
            "m-Q8_0-00001-of-00001.gguf",
        ];
        let whole: &[&str] =
            &["Q4_K_M/m-Q4_K_M-00001-of-00002.gguf", "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf"];
        check(set, "", whole);
        check(set, ":q4_k_m", whole);
        check(set, ":m-Q4_K_M-00002-of-00002.gguf", whole);
        check(set, ":q8_0", &["m-Q8_0-00001-of-00001.gguf"]);
        refuses(&set[..1], "", &["m-Q4_K_M-00001-of-00002.gguf", "not complete"]);
    }

    #[test]
    fn folders_with_their_companions() {
        let files: &[&str] = &[
            ".gitattributes",
            "README.md",
            "config.json",
            "consolidated.safetensors",
            "generation_config.json",
            "merges.txt",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "consolidated.safetensors.index.json",
            "onnx/model.onnx",
            "original/x.safetensors",
            "pytorch_model.bin",
            "tokenizer.json",
            "tokenizer.model",
            "chat_template.jinja",
            "LICENSE",
        ];
        let whole: &[&str] = &[
            "LICENSE",
            "chat_template.jinja",
            "config.json",
            "generation_config.json",
            "merges.txt",
            "model.safetensors.index.json",
            "tokenizer.json",
            "tokenizer.model",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ];
        check(files, "", whole);
        check(files, ":safetensors", whole);
        check(files, ":model-00002-of-00002.safetensors", whole);
        let both: Vec<&str> = files.iter().copied().chain(["m-Q4_K_M.gguf"]).collect();
        check(&both, "", &["m-Q4_K_M.gguf"]);
        check(&both, ":safetensors", whole);
        let encoder: &[&str] = &[
            "1_Pooling/config.json",
            "config.json",
            "modules.json",
            "model.safetensors",
            "x/config.json",
        ];
        check(
            encoder,
            "",
            &["1_Pooling/config.json", "config.json", "modules.json", "model.safetensors"],
        );
        let adapter: &[&str] =
            &["README.md", "adapter_config.json", "adapter_model.safetensors", "tokenizer.json"];
        check(adapter, "", &["adapter_config.json", "adapter_model.safetensors"]);
    }

    #[test]
    fn d4_what_has_no_model_says_what_it_has() {
        refuses(&[], "", &["is empty"]);
        refuses(&["README.md"], "", &["1 files", "none is a .gguf"]);
        refuses(&["README.md"], ":Q4_0", &["no GGUF file"]);
        refuses(&["mmproj.gguf"], "", &["projectors"]);
        refuses(&["pytorch_model.bin", "config.json"], "", &["pickles"]);
        refuses(&["x.safetensors"], "", &["config.json"]);
        refuses(&["m-Q4_0.gguf"], ":safetensors", &["leave out the tag"]);
        refuses(
            &["m.gguf", "config.json", "x/y.safetensors"],
            ":y.safetensors",
            &["no part of a model's folder"],
        );
    }
}
