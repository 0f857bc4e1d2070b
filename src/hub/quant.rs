//! GGUF files by the names that people give them: quants, sets of parts, and what is no model.
use super::error::bytes;
use super::listing::Entry;
use std::collections::BTreeMap;

/// A GGUF model of a repository: one file, or all files of a set.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// What the name says of its numbers, in capitals: `Q4_K_M`.
    pub quant: Option<String>,
    /// The quant with what makes it another variant: `UD-Q4_K_M`.
    pub label: Option<String>,
    /// In the parts' order.
    pub files: Vec<&'a Entry>,
    /// How many files the set has.
    parts: usize,
}

/// All of a repository, by path. Projectors and importance matrices are none.
pub fn candidates(files: &[Entry]) -> Vec<Candidate<'_>> {
    let mut sets: BTreeMap<(String, usize), Vec<(usize, &Entry)>> = BTreeMap::new();
    for file in files {
        let lower = file.path.to_ascii_lowercase();
        let Some(stem) = lower.strip_suffix(".gguf") else { continue };
        let name = stem.rsplit('/').next().unwrap_or_default();
        if name.contains("mmproj") || name.contains("imatrix") {
            continue;
        }
        let cased = &file.path[..stem.len()];
        let (stem, part, parts) = split(cased).unwrap_or((cased, 1, 1));
        sets.entry((stem.to_owned(), parts)).or_default().push((part, file));
    }
    let mut all: Vec<Candidate> = Vec::new();
    for ((stem, parts), mut files) in sets {
        files.sort_by_key(|(part, _)| *part);
        let (quant, label) = quant(&stem).unzip();
        let files = files.into_iter().map(|(_, file)| file).collect();
        all.push(Candidate { quant, label, files, parts });
    }
    all.sort_by(|a, b| a.first().path.cmp(&b.first().path));
    all
}

impl<'a> Candidate<'a> {
    /// The file that is opened.
    pub fn first(&self) -> &'a Entry {
        self.files[0]
    }
    /// Which of several quants of four bits is the better choice.
    pub fn rank(&self) -> usize {
        const ORDER: [&str; 4] = ["Q4_K_L", "Q4_K_S", "Q4_K_XL", "Q4_1"];
        let at = ORDER.iter().position(|name| Some(*name) == self.quant.as_deref());
        at.unwrap_or(ORDER.len())
    }
    /// A part that is not there.
    pub fn missing(&self) -> Option<String> {
        let first = &self.first().path;
        let stem = &first[..first.len() - ".gguf".len()];
        let (stem, ..) = split(stem)?;
        let name = |part: usize| format!("{stem}-{part:05}-of-{:05}.gguf", self.parts);
        let has = |part: &usize| {
            self.files.iter().any(|file| file.path.eq_ignore_ascii_case(&name(*part)))
        };
        (1..=self.parts).find(|part| !has(part)).map(name)
    }
    /// A line for people: quant, size, file.
    pub fn describe(&self) -> String {
        let known: Option<u64> = self.files.iter().map(|file| file.size).sum();
        let size = known.map_or_else(|| "?".to_owned(), bytes);
        format!("{:<12} {size:>7}  {}", self.label.as_deref().unwrap_or("-"), self.first().path)
    }
}

/// `stem-00002-of-00003` to the stem, 2 and 3.
fn split(name: &str) -> Option<(&str, usize, usize)> {
    let (rest, parts) = name.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        let plain = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let (part, parts) = (number(part)?, number(parts)?);
    (1..=parts).contains(&part).then_some((stem, part, parts))
}

/// The quant that a name ends with, plain and with its variant; of the folder's name if the file's has none.
fn quant(stem: &str) -> Option<(String, String)> {
    stem.rsplit('/').find_map(|name| {
        let words: Vec<&str> = name.split(['-', '.']).collect();
        let at = words.iter().rposition(|word| is_quant(&word.to_ascii_uppercase()))?;
        let quant = words[at].to_ascii_uppercase();
        let variant = at.checked_sub(1).map(|at| words[at].to_ascii_uppercase());
        let label = match variant.as_deref() {
            Some(before @ ("UD" | "I1")) => format!("{before}-{quant}"),
            _ => quant.clone(),
        };
        Some((quant, label))
    })
}

/// Whether a word is what a quant is called: `Q4_K_M`, `IQ2_XXS`, `BF16`.
fn is_quant(word: &str) -> bool {
    if ["F16", "F32", "BF16", "FP16", "FP32", "F64"].contains(&word) {
        return true;
    }
    let rest = ["IQ", "TQ", "Q", "MXFP", "NVFP"].iter().find_map(|start| word.strip_prefix(start));
    let mut rest = rest.unwrap_or_default().bytes();
    rest.next().is_some_and(|b| b.is_ascii_digit())
        && rest.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quants_in_names() {
        let check = |stem: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(quant, label)| (quant.to_owned(), label.to_owned()));
            assert_eq!(quant(stem), expected, "{stem}");
        };
        check("SmolLM2-135M-Instruct.Q4_1", Some(("Q4_1", "Q4_1")));
        check("Qwen3-0.6B-UD-Q4_K_XL", Some(("Q4_K_XL", "UD-Q4_K_XL")));
        check("model.i1-IQ2_XXS", Some(("IQ2_XXS", "I1-IQ2_XXS")));
        check("gpt-oss-20b-mxfp4", Some(("MXFP4", "MXFP4")));
        check("m-bf16", Some(("BF16", "BF16")));
        check("Q8_0/m", Some(("Q8_0", "Q8_0")));
        check("gemma-3-270m-it-qat-Q4_0", Some(("Q4_0", "Q4_0")));
        check("m-TQ1_0", Some(("TQ1_0", "TQ1_0")));
        for none in ["model", "Qwen3-8B", "q-learning", "m-Q", "quantised"] {
            check(none, None);
        }
    }

    #[test]
    fn names_of_parts() {
        assert_eq!(split("m-00002-of-00003"), Some(("m", 2, 3)));
        for none in [
            "m-2-of-3",
            "m-00004-of-00003",
            "m-00000-of-00001",
            "m-00001-of-0000x",
            "00001-of-00001",
        ] {
            assert_eq!(split(none), None, "{none}");
        }
    }
}
