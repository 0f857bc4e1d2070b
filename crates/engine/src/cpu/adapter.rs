//! What one use of weights that others share has by itself: products of low rank beside theirs.
use super::branch::Line;
use super::pack::Packer;
use super::plan::Projection;
use crate::backend::LoadError;
use crate::spec::{Adapter, Attention, Mlp, ModelSpec, Op};
use crate::state;
use crate::weights::{Owner, layer};
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Slot, Store};

/// What a use of an operation has by itself, though others use its weights too.
pub(crate) struct Own {
    /// Of an attention's keys and values.
    pub pool: usize,
    /// What is added to its projections.
    pub adapters: Vec<AdapterStep>,
}

impl Own {
    /// Of the `nth` operation of all.
    pub fn new(
        spec: &ModelSpec,
        owner: Owner,
        op: &Op,
        nth: usize,
        packer: &Packer<'_>,
    ) -> Result<Own, LoadError> {
        let step = |adapter, first: &str, seconds: &[&str]| {
            AdapterStep::new(owner, adapter, first, seconds, packer)
        };
        let adapters = match op {
            Op::Mlp(Mlp { adapter: Some(adapter), gated, .. }) => {
                let seconds = ["ffn_gate_lora_b", "ffn_up_lora_b"];
                vec![step(*adapter, "ffn_lora_a", &seconds[usize::from(!gated)..])?]
            }
            Op::Attention(Attention { adapter: Some(adapter), .. }) => ["q", "k", "v"]
                .map(|part| ["a", "b"].map(|m| format!("attn_{part}_lora_{m}")))
                .iter()
                .map(|[first, second]| step(*adapter, first, &[second]))
                .collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(Own { pool: state::pool(spec, nth), adapters })
    }
    /// Whether the input's 8-bit form is read.
    pub fn reads_q8(&self) -> bool {
        self.adapters.iter().any(|adapter| adapter.first.reads_q8())
    }
    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.adapters.iter().map(AdapterStep::bytes).sum()
    }
}

/// One product, or several of the same first one, resolved.
pub(crate) struct AdapterStep {
    first: Projection,
    seconds: Vec<Projection>,
}

impl AdapterStep {
    /// Of matrices that are called `first` and `seconds`.
    fn new(
        owner: Owner,
        Adapter { nth, .. }: Adapter,
        first: &str,
        seconds: &[&str],
        packer: &Packer<'_>,
    ) -> Result<AdapterStep, LoadError> {
        let project =
            |part: &str| Projection::new(&layer(owner, &format!("{part}.{nth}")), false, packer);
        Ok(AdapterStep {
            first: project(first)?,
            seconds: seconds.iter().map(|part| project(part)).collect::<Result<_, _>>()?,
        })
    }
    /// Adds `out += second(first(x))` of each; `low` is scratch.
    pub fn add<'a>(
        &'a self,
        line: &mut Line<'a>,
        x: &mut ActSlot<'a>,
        mut low: ActSlot<'a>,
        outs: impl IntoIterator<Item = Slot<'a>>,
    ) {
        line.product(x, &self.first, low.f32(), Store::Set);
        for (second, out) in self.seconds.iter().zip(outs) {
            line.product(&mut low, second, out, Store::Add);
        }
    }
    fn bytes(&self) -> usize {
        self.first.bytes() + self.seconds.iter().map(Projection::bytes).sum::<usize>()
    }
}
