//! How packed weights lie: in a layout, and which way round.
use rinfer_kernels::{Layout, Packed};

/// How a matrix lies, or all of a stack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lie {
    pub layout: Layout,
    /// Whether rows and columns are swapped, which only heads' keys of latent attention are multiplied so:
    /// blocks of them, which lie along what would be rows, can't be turned.
    pub across: bool,
}

impl Lie {
    /// What a bundle calls it.
    pub fn name(self) -> String {
        format!("{}{}", if self.across { ACROSS } else { "" }, self.layout.name())
    }
    /// What is called so of a tensor, if that can lie so.
    pub fn named(tensor: &str, name: &str) -> Option<Lie> {
        let Some(name) = name.strip_prefix(ACROSS) else {
            return Layout::named(name).map(|layout| Lie { layout, across: false });
        };
        let layout = Layout::named(name).filter(|layout| layout.block() > 1)?;
        tensor.ends_with(".attn_k_b.weight").then_some(Lie { layout, across: true })
    }
    /// Rows and columns that a matrix of so many has as it lies.
    pub fn shape(self, rows: usize, cols: usize) -> [usize; 2] {
        if self.across { [cols, rows] } else { [rows, cols] }
    }
    /// Bytes of a matrix.
    pub fn size(self, rows: usize, cols: usize) -> usize {
        let [rows, cols] = self.shape(rows, cols);
        Packed::size(self.layout, rows, cols)
    }
}

const ACROSS: &str = "across ";
