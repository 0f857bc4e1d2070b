//! The causal convolution before a state.
use crate::backend::LoadError;
use crate::cpu::pack::Packer;
use rinfer_kernels::ops;

/// A convolution's weights.
pub(super) struct Conv {
    /// `[width, channels]`
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
    width: usize,
    silu: bool,
}

impl Conv {
    /// The convolution called `name`, of `width` inputs.
    pub fn new(
        name: &str,
        width: usize,
        bias: bool,
        silu: bool,
        packer: &Packer<'_>,
    ) -> Result<Conv, LoadError> {
        let by_channel = packer.vector(&format!("{name}.weight"))?;
        let channels = by_channel.len() / width;
        let turned = |i: usize| by_channel[i % channels * width + i / channels];
        Ok(Conv {
            weights: (0..by_channel.len()).map(turned).collect(),
            bias: bias.then(|| packer.vector(&format!("{name}.bias"))).transpose()?,
            width,
            silu,
        })
    }
    /// The same of inputs that are a number of times as large, by channel.
    pub fn of_scaled(mut self, by: impl Fn(usize) -> f32) -> Conv {
        let channels = self.weights.len() / self.width;
        self.weights.iter_mut().enumerate().for_each(|(i, w)| *w *= by(i % channels));
        self
    }
    /// What [`ops::conv`] takes.
    pub fn view(&self) -> ops::Conv<'_> {
        let Conv { weights, bias, width, silu } = self;
        ops::Conv { weights, bias: bias.as_deref(), width: *width, silu: *silu }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, Vec::len))
    }
}
