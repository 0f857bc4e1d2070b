//! The tensors of feed-forward networks.
use super::{List, layer};
use crate::spec::Mlp;

impl List {
    pub(super) fn mlp(&mut self, i: usize, m: &Mlp, d: usize) {
        if m.gated {
            self.matrix(&layer(i, "ffn_gate"), m.d_ff, d, m.bias);
        }
        self.matrix(&layer(i, "ffn_up"), m.d_ff, d, m.bias);
        self.matrix(&layer(i, "ffn_down"), d, m.d_ff, m.bias);
    }
}
