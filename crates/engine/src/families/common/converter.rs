//! What GGUF's converter does to a family's rows and says in no key.
use crate::families::Family;

/// Families of which GGUF's converter permutes q and k rows of heads that nothing rotates.
const PERMUTED: [&str; 1] = ["nemotron_h"];
/// Families whose GGUF files have matrices that are multiplied by numbers which no key keeps.
const FOLDED: [&str; 1] = ["falcon_h1"];

impl Family {
    /// Whether a GGUF file's heads are in pairs, even if nothing rotates them.
    pub fn permutes(&self) -> bool {
        PERMUTED.contains(&self.name)
    }
    /// Whether a GGUF file's matrices are not the folder's in another order, but multiplied by numbers
    /// that the file does not say.
    pub fn folds(&self) -> bool {
        FOLDED.contains(&self.name)
    }
}
