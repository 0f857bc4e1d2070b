//! What a token gives each layer besides: computed once a pass, and the gates that let it in.
use super::branch::Line;
use super::executor::Pass;
use super::mlp::glu;
use super::pack::Packer;
use super::plan::{NormWeights, Projection};
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{InputGate, ModelSpec, PerLayer};
use crate::weights::layer;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{self, Glu, HeadNorm, Residual, Rotate, Stage};
use rinfer_kernels::{Act, Mat, Packed};

/// Where the inputs of all layers come from, resolved.
pub(crate) struct PerLayerStep {
    shape: PerLayer,
    table: Packed,
    projection: Projection,
    norm: NormWeights,
}

impl PerLayerStep {
    /// Of a model whose tokens have such inputs.
    pub fn new(shape: &PerLayer, packer: &Packer<'_>) -> Result<PerLayerStep, LoadError> {
        let norm = NormWeights::new(Some(&shape.norm), "per_layer_proj_norm", packer)?;
        Ok(PerLayerStep {
            shape: *shape,
            table: packer.matrix("per_layer_token_embd.weight")?,
            projection: Projection::new("per_layer_model_proj", false, packer)?,
            norm: norm.expect("a norm, since there is one in the spec"),
        })
    }
    /// Fills `b` for the rows of tokens `ids`, whose embeddings are `embedded`; `input` is scratch.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        ids: &[u32],
        embedded: &Mat,
        input: &mut Act,
        b: &mut Buffers,
    ) {
        let PerLayer { width, rows, table_scale, scale, .. } = self.shape;
        let known = ids.iter().map(|id| if (*id as usize) < rows { *id } else { 0 });
        b.ids.clear();
        b.ids.extend(known);
        ops::embed(pass.ctx, &self.table, &b.ids, table_scale, &mut b.inputs);
        pass.clock.lap(Kind::Embed);
        ops::norm(pass.ctx, None, embedded, input, self.projection.reads_q8());
        let mut jobs = [self.projection.job(&mut b.projected, Store::Set)];
        pass.linear(Kind::Projections, input, &mut jobs);
        let norm = Some(HeadNorm::PerHead(self.norm.view()));
        let how = Rotate { head_dim: width, norm, ..Rotate::default() };
        ops::rotate(pass.ctx, &how, &mut b.projected);
        let how = Residual { post: None, scale, skip: None, then: 1.0 };
        ops::residual(pass.ctx, &how, &mut b.projected, &mut b.inputs);
        pass.clock.lap(Kind::Norm);
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.table.bytes().len() + self.projection.bytes() + self.norm.bytes()
    }
}

/// One layer's gate, resolved.
pub(crate) struct GateStep {
    layer: usize,
    act: Glu,
    gate: Projection,
    out: Projection,
}

impl GateStep {
    /// Layer `i`'s.
    pub fn new(i: usize, g: &InputGate, packer: &Packer<'_>) -> Result<GateStep, LoadError> {
        Ok(GateStep {
            layer: i,
            act: glu(g.act),
            gate: Projection::new(&layer(i, "inp_gate"), false, packer)?,
            out: Projection::new(&layer(i, "proj"), false, packer)?,
        })
    }
    /// Adds `out (+)= project(act(gate(x)) · input)`.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        b: &'a mut Buffers,
        x: &mut ActSlot<'a>,
        (out, store): (Slot<'a>, Store),
    ) {
        let (ctx, n) = (line.chain.ctx(), line.rows.len());
        let gate = b.gate.lend(n);
        let (width, from) = (gate.cols(), self.layer * gate.cols());
        let input = Seen::from(&b.inputs).columns(from..from + width);
        let mut hidden = b.hidden.lend(ctx, n, self.out.reads_q8_as_is());
        line.product(x, &self.gate, gate, Store::Set);
        line.chain.glu(Stage::Unit, self.act, gate, Some(input), hidden);
        line.product(&mut hidden, &self.out, out, store);
    }
    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.gate.reads_q8()
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.gate.bytes() + self.out.bytes()
    }
}

/// The inputs of all layers, and what they and a gate write on the way.
pub(crate) struct Buffers {
    ids: Vec<u32>,
    /// `[rows, layers · width]`
    inputs: Mat,
    projected: Mat,
    gate: Mat,
    hidden: Act,
}

impl Buffers {
    /// For batches of up to `rows` rows; none if the model has no such inputs.
    pub fn new(spec: &ModelSpec, rows: usize) -> Option<Buffers> {
        let width = spec.embed.per_layer?.width;
        let all = width * spec.layers.len();
        Some(Buffers {
            ids: Vec::with_capacity(rows),
            inputs: Mat::new(rows, all),
            projected: Mat::new(rows, all),
            gate: Mat::new(rows, width),
            hidden: Act::new(rows, width),
        })
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let mats = [&self.inputs, &self.projected, &self.gate].map(Mat::bytes);
        mats.iter().sum::<usize>() + self.hidden.bytes()
    }
}
