//! The tensors of mixers with a state of fixed size.
use super::{List, layer};
use crate::spec::{Decay, DeltaNet, Lightning, Mamba1, Mamba2, RgLru, ShortConv};

impl List {
    fn conv(&mut self, name: &str, channels: usize, width: usize, bias: bool) {
        self.numbers(format!("{name}.weight"), &[channels, width]);
        if bias {
            self.add(format!("{name}.bias"), vec![channels]);
        }
    }
    /// A projection, or two through a waist.
    fn waisted(&mut self, i: usize, parts: [&str; 3], rank: usize, rows: usize, d: usize) {
        let [direct, first, last] = parts.map(|part| layer(i, part));
        if rank == 0 {
            return self.matrix(&direct, rows, d, false);
        }
        self.matrix(&first, rank, d, false);
        self.matrix(&last, rows, rank, false);
    }
    pub(super) fn delta_net(&mut self, i: usize, n: &DeltaNet, d: usize) {
        let (k, v) = (n.k_heads * n.k_dim, n.v_heads * n.v_dim);
        for (part, rows) in [("q", k), ("k", k), ("v", v)] {
            self.matrix(&layer(i, &format!("attn_{part}")), rows, d, false);
            self.conv(&layer(i, &format!("ssm_conv1d_{part}")), rows, n.conv, false);
        }
        self.matrix(&layer(i, "ssm_beta"), n.v_heads, d, false);
        let decays = match n.decay {
            Decay::PerHead => {
                self.matrix(&layer(i, "ssm_alpha"), n.v_heads, d, false);
                n.v_heads
            }
            Decay::PerChannel | Decay::PerChannelBounded { .. } => {
                let parts = ["ssm_f", "ssm_f_a", "ssm_f_b"];
                self.waisted(i, parts, n.decay_rank, n.v_heads * n.k_dim, d);
                n.v_heads * n.k_dim
            }
        };
        self.waisted(i, ["attn_gate", "ssm_g_a", "ssm_g_b"], n.gate_rank, v, d);
        self.add(layer(i, "ssm_a"), vec![n.v_heads]);
        self.add(layer(i, "ssm_dt.bias"), vec![decays]);
        self.norm(&layer(i, "ssm_norm"), Some(&n.norm), n.v_dim);
        self.matrix(&layer(i, "ssm_out"), d, v, false);
    }
    pub(super) fn lightning(&mut self, i: usize, l: &Lightning, d: usize) {
        let n = l.heads * l.head_dim;
        for part in ["attn_q", "attn_k", "attn_v", "attn_gate"] {
            self.matrix(&layer(i, part), n, d, false);
        }
        self.norm(&layer(i, "attn_sub_norm"), Some(&l.norm), n);
        self.matrix(&layer(i, "attn_output"), d, n, false);
    }
    pub(super) fn mamba1(&mut self, i: usize, m: &Mamba1, d: usize) {
        for part in ["ssm_in_x", "ssm_in_z"] {
            self.matrix(&layer(i, part), m.inner, d, m.bias);
        }
        self.conv(&layer(i, "ssm_conv1d"), m.inner, m.conv, m.conv_bias);
        for (part, norm, rows) in [
            ("ssm_x_dt", "ssm_dt_norm", m.dt_rank),
            ("ssm_x_b", "ssm_b_norm", m.state),
            ("ssm_x_c", "ssm_c_norm", m.state),
        ] {
            self.matrix(&layer(i, part), rows, m.inner, false);
            self.norm(&layer(i, norm), m.norm.as_ref(), rows);
        }
        self.matrix(&layer(i, "ssm_dt"), m.inner, m.dt_rank, true);
        self.numbers(layer(i, "ssm_a"), &[m.inner, m.state]);
        self.add(layer(i, "ssm_d"), vec![m.inner]);
        self.matrix(&layer(i, "ssm_out"), d, m.inner, m.bias);
    }
    pub(super) fn mamba2(&mut self, i: usize, m: &Mamba2, d: usize) {
        let parts = [("ssm_in_z", m.inner()), ("ssm_in_x", m.channels()), ("ssm_in_dt", m.heads)];
        for (part, rows) in parts {
            self.matrix(&layer(i, part), rows, d, m.bias);
        }
        self.conv(&layer(i, "ssm_conv1d"), m.channels(), m.conv, m.conv_bias);
        for part in ["ssm_dt.bias", "ssm_a", "ssm_d"] {
            self.add(layer(i, part), vec![m.heads]);
        }
        self.norm(&layer(i, "ssm_norm"), m.norm.as_ref(), m.inner());
        self.matrix(&layer(i, "ssm_out"), d, m.inner(), m.bias);
    }
    pub(super) fn rg_lru(&mut self, i: usize, r: &RgLru, d: usize) {
        for part in ["rec_x", "rec_y"] {
            self.matrix(&layer(i, part), r.width, d, true);
        }
        self.conv(&layer(i, "rec_conv1d"), r.width, r.conv, true);
        let block = r.width / r.heads;
        for part in ["rec_forget", "rec_take"] {
            self.numbers(layer(i, &format!("{part}.weight")), &[r.heads, block, block]);
            self.numbers(layer(i, &format!("{part}.bias")), &[r.heads, block]);
        }
        self.add(layer(i, "rec_a"), vec![r.width]);
        self.matrix(&layer(i, "rec_out"), d, r.width, true);
    }
    pub(super) fn short_conv(&mut self, i: usize, s: &ShortConv, d: usize) {
        for part in ["shortconv.in_b", "shortconv.in_c", "shortconv.in_x", "shortconv.out_proj"] {
            self.matrix(&layer(i, part), d, d, s.bias);
        }
        self.conv(&layer(i, "shortconv.conv"), d, s.width, s.bias);
    }
}
