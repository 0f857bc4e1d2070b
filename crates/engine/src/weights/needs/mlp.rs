//! The tensors of feed-forward networks and mixtures of them.
use super::{List, layer};
use crate::spec::{Mlp, Moe, RouterInput};

impl List {
    /// Of an MLP, whose tensors' names end with `suffix`.
    pub(super) fn mlp(&mut self, i: usize, suffix: &str, m: &Mlp, d: usize) {
        let name = |part| layer(i, &format!("{part}{suffix}"));
        if m.gated {
            self.matrix(&name("ffn_gate"), m.d_ff, d, m.bias);
        }
        self.matrix(&name("ffn_up"), m.d_ff, d, m.bias);
        self.matrix(&name("ffn_down"), d, m.d_ff, m.bias);
    }

    pub(super) fn moe(&mut self, i: usize, m: &Moe, d: usize) {
        let how = &m.router;
        if how.input != RouterInput::Same {
            self.add(layer(i, "ffn_gate_inp.scale"), vec![d]);
        }
        self.matrix(&layer(i, "ffn_gate_inp"), m.experts, d, how.bias);
        if how.select_bias {
            self.add(layer(i, "exp_probs_b.bias"), vec![m.experts]);
        }
        if m.expert.gated {
            self.stack(&layer(i, "ffn_gate_exps"), m, [m.expert.d_ff, d]);
        }
        self.stack(&layer(i, "ffn_up_exps"), m, [m.expert.d_ff, d]);
        self.stack(&layer(i, "ffn_down_exps"), m, [d, m.expert.d_ff]);
        if how.expert_scale {
            self.add(layer(i, "ffn_down_exps.scale"), vec![m.experts]);
        }
        let Some(shared) = &m.shared else { return };
        if shared.sigmoid_gate {
            self.matrix(&layer(i, "ffn_gate_inp_shexp"), 1, d, false);
        }
        self.mlp(i, "_shexp", &shared.mlp, d);
    }

    /// A matrix of each expert.
    fn stack(&mut self, name: &str, m: &Moe, [rows, cols]: [usize; 2]) {
        self.add(format!("{name}.weight"), vec![m.experts, rows, cols]);
        if m.expert.bias {
            self.vectors(format!("{name}.bias"), vec![m.experts, rows]);
        }
    }
}
