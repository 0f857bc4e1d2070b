//! Where the time of forward passes went, by kind of operation, and how much of what was done.
use std::iter::Sum;
use std::ops::{Index, IndexMut};

/// A kind of operation in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tokens to rows of the stream.
    Embed,
    /// Norms of the stream, and what joins it through a norm or a scale.
    Norm,
    /// Products with the weights of attentions and MLPs, the input's 8-bit form among them and, in
    /// passes of more than 16 rows, MLPs' activations.
    Projections,
    /// Rotary angles, and norms and rotation of heads.
    Rotate,
    /// Scores, softmax and sums over the cache.
    Attention,
    /// Convolutions and states of recurrent mixers, and the gates of both.
    State,
    /// The activation between an MLP's products, in passes of up to 16 rows.
    Glu,
    /// Routers: which experts a row visits, and what a shared one counts.
    Router,
    /// Experts that rows chose: bringing rows together, products, activations and sums.
    Experts,
    /// From the stream to logits: norm, product and what follows it.
    Head,
    /// Keeping account of rows and pages.
    Other,
}

impl Kind {
    /// All kinds, in the order of a pass.
    pub const ALL: [Kind; 11] = [
        Kind::Embed,
        Kind::Norm,
        Kind::Projections,
        Kind::Rotate,
        Kind::Attention,
        Kind::State,
        Kind::Glu,
        Kind::Router,
        Kind::Experts,
        Kind::Head,
        Kind::Other,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Embed => "embed",
            Kind::Norm => "norm",
            Kind::Projections => "projections",
            Kind::Rotate => "rotate",
            Kind::Attention => "attention",
            Kind::State => "state",
            Kind::Glu => "glu",
            Kind::Router => "router",
            Kind::Experts => "experts",
            Kind::Head => "head",
            Kind::Other => "other",
        }
    }
}

/// What operations took and did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Wall time.
    pub seconds: f64,
    /// Multiply-adds of weights with 8-bit activations. A head that reads a row as the sum of two
    /// does twice as many.
    pub q8: u64,
    /// Multiply-adds of weights with f32 activations.
    pub f32: u64,
    /// Bytes of packed weights, once for each time that they stream through the processor.
    pub bytes: u64,
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Work>>(all: I) -> Work {
        all.fold(Work::default(), |a, b| Work {
            seconds: a.seconds + b.seconds,
            q8: a.q8 + b.q8,
            f32: a.f32 + b.f32,
            bytes: a.bytes + b.bytes,
        })
    }
}

/// The work of some passes by [`Kind`]: all their time is some kind's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Profile([Work; Kind::ALL.len()]);

impl Profile {
    /// All kinds together.
    pub fn total(&self) -> Work {
        self.0.iter().copied().sum()
    }
}

impl Index<Kind> for Profile {
    type Output = Work;
    fn index(&self, kind: Kind) -> &Work {
        &self.0[kind as usize]
    }
}

impl IndexMut<Kind> for Profile {
    fn index_mut(&mut self, kind: Kind) -> &mut Work {
        &mut self.0[kind as usize]
    }
}

impl Sum for Profile {
    fn sum<I: Iterator<Item = Profile>>(all: I) -> Profile {
        all.fold(Profile::default(), |a, b| {
            Profile(std::array::from_fn(|kind| [a.0[kind], b.0[kind]].into_iter().sum()))
        })
    }
}
