//! The tensors of what reaches a layer beside the residual stream.
use super::{List, layer};
use crate::spec::{AltUp, Laurel, ModelSpec};

impl List {
    /// Those before the first layer and after the last.
    pub(super) fn ends(&mut self, spec: &ModelSpec) {
        if let Some(shape) = &spec.embed.per_layer {
            let all = shape.width * spec.layers.len();
            self.matrix("per_layer_token_embd", shape.rows, all, false);
            self.matrix("per_layer_model_proj", all, spec.d_model, false);
            self.norm("per_layer_proj_norm", Some(&shape.norm), shape.width);
        }
        if let Some(altup) = &spec.altup {
            let shape = vec![altup.streams - 1, spec.d_model, spec.d_model];
            self.add("altup_proj.weight".into(), shape.clone());
            self.add("altup_unembd_proj.weight".into(), shape);
        }
    }
    /// What mixes the streams in layer `i`.
    pub(super) fn mixer(&mut self, i: usize, altup: &AltUp, d: usize) {
        let n = altup.streams;
        self.norm(&layer(i, "altup_router_norm"), Some(&altup.norm), d);
        self.matrix(&layer(i, "altup_router"), n, d, false);
        self.matrix(&layer(i, "altup_predict_coef"), n * n, n, false);
        self.matrix(&layer(i, "altup_correct_coef"), n, n, false);
    }
    pub(super) fn laurel(&mut self, i: usize, l: &Laurel, d: usize) {
        self.matrix(&layer(i, "laurel_l"), l.rank, d, false);
        self.matrix(&layer(i, "laurel_r"), d, l.rank, false);
        self.norm(&layer(i, "laurel_post_norm"), Some(&l.norm), d);
    }
    pub(super) fn input_gate(&mut self, i: usize, spec: &ModelSpec) {
        let Some(shape) = &spec.embed.per_layer else { return };
        self.matrix(&layer(i, "inp_gate"), shape.width, spec.d_model, false);
        self.matrix(&layer(i, "proj"), spec.d_model, shape.width, false);
    }
}
