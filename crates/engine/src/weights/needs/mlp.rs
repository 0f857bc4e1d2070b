//! The tensors of feed-forward networks and mixtures of them.
use super::{List, Owner, layer};
use crate::spec::{Adapter, Mlp, Moe, RouterInput};

impl List {
    /// Of an MLP, whose tensors' names end with `suffix`.
    pub(super) fn mlp(&mut self, i: Owner, suffix: &str, m: &Mlp, d: usize) {
        let name = |part| layer(i, &format!("{part}{suffix}"));
        if m.gated {
            self.matrix(&name("ffn_gate"), m.d_ff, d, m.bias);
        }
        self.matrix(&name("ffn_up"), m.d_ff, d, m.bias);
        self.matrix(&name("ffn_down"), d, m.d_ff, m.bias);
        if let Some(adapter) = m.adapter {
            let seconds = [("ffn_gate_lora_b", m.d_ff), ("ffn_up_lora_b", m.d_ff)];
            let seconds = &seconds[usize::from(!m.gated)..];
            self.adapter(i, adapter, "ffn_lora_a", d, seconds);
        }
    }

    /// One first matrix over rows of `width`, and those that read its product, with their rows.
    pub(super) fn adapter(
        &mut self,
        i: Owner,
        Adapter { rank, nth }: Adapter,
        first: &str,
        width: usize,
        seconds: &[(&str, usize)],
    ) {
        self.matrix(&layer(i, &format!("{first}.{nth}")), rank, width, false);
        for (second, rows) in seconds {
            self.matrix(&layer(i, &format!("{second}.{nth}")), *rows, rank, false);
        }
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
        self.mlp(i.into(), "_shexp", &shared.mlp, d);
    }

    /// A matrix of each expert.
    fn stack(&mut self, name: &str, m: &Moe, [rows, cols]: [usize; 2]) {
        self.add(format!("{name}.weight"), vec![m.experts, rows, cols]);
        if m.expert.bias {
            self.vectors(format!("{name}.bias"), vec![m.experts, rows]);
        }
    }
}
