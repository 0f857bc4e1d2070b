//! The entrance: from tokens and their positions to the stream.
use super::executor::Pass;
use super::pack::Packer;
use super::plan::NormWeights;
use crate::backend::LoadError;
use crate::profile::Kind;
use crate::spec::{ModelSpec, Positions};
use rinfer_kernels::ops::{self, Residual};
use rinfer_kernels::{Mat, Packed};

/// The embedding, resolved.
pub(crate) struct EmbedStep {
    /// By token.
    pub table: Packed,
    scale: f32,
    /// By kind of text.
    types: Option<Packed>,
    /// By position, and how many rows come before the first position's.
    positions: Option<(Packed, usize)>,
    norm: Option<NormWeights>,
}

impl EmbedStep {
    /// Of a model.
    pub fn new(spec: &ModelSpec, packer: &Packer<'_>) -> Result<EmbedStep, LoadError> {
        let by_position = |p: Positions| -> Result<_, LoadError> {
            Ok((packer.matrix("position_embd.weight")?, p.offset))
        };
        Ok(EmbedStep {
            table: packer.matrix("token_embd.weight")?,
            scale: spec.embed.scale,
            types: spec.embed.types.map(|_| packer.matrix("token_types.weight")).transpose()?,
            positions: spec.embed.positions.map(by_position).transpose()?,
            norm: NormWeights::new(spec.embed.norm.as_ref(), "token_embd_norm", packer)?,
        })
    }

    /// Replaces `stream` with what tokens `ids` of kinds `types` are at the pass's positions. `vectors`
    /// and `places` are scratch.
    pub fn run(
        &self,
        pass: &mut Pass<'_>,
        (ids, types): (&[u32], &[u32]),
        places: &mut Vec<u32>,
        vectors: &mut Mat,
        stream: &mut Mat,
    ) {
        ops::embed(pass.ctx, &self.table, ids, self.scale, stream);
        let mut add = |table, places: &[u32]| {
            ops::embed(pass.ctx, table, places, 1.0, vectors);
            let how = Residual { post: None, scale: 1.0, skip: None, then: 1.0 };
            ops::residual(pass.ctx, &how, vectors, stream);
        };
        if let Some(table) = &self.types {
            add(table, types);
        }
        if let Some((table, offset)) = &self.positions {
            places.clear();
            places.extend(pass.rows.iter().map(|row| (row.pos + offset) as u32));
            add(table, places);
        }
        if let Some(norm) = &self.norm {
            ops::norm_in_place(pass.ctx, &norm.view(), stream);
        }
        pass.clock.lap(Kind::Embed);
    }

    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        let positions = self.positions.as_ref().map_or(0, |(table, _)| table.bytes().len());
        let types = self.types.as_ref().map_or(0, |table| table.bytes().len());
        let norm = self.norm.as_ref().map_or(0, NormWeights::bytes);
        self.table.bytes().len() + types + positions + norm
    }
}
