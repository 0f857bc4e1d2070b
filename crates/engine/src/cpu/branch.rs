//! Residual branches: from what they read through their parts, and to what they join. All of a layer is
//! one chain of operations, unless two of its parts write to the same buffers.
use super::attention;
use super::clock::Clock;
use super::executor::Pass;
use super::flow::Flow;
use super::plan::{Block, NormWeights, PartStep, Projection, Step};
use super::scratch::Scratch;
use super::{altup, angles::Angles, laurel, mla, mlp, moe, per_layer, recurrent};
use crate::profile::Kind;
use crate::spec::{Reads, Skip};
use crate::state::{Cache, Group, Recurrent};
use rinfer_kernels::Act;
use rinfer_kernels::act::ActSlot;
use rinfer_kernels::mat::{Seen, Slot, Store};
use rinfer_kernels::ops::{
    AttendRow, Chain, PerHead, Plain, Product, Residual, Room, Run, Stage, Turn, Turned,
};

/// A chain, and what its operations are about.
pub(crate) struct Line<'a> {
    /// The operations.
    pub chain: Chain<'a>,
    /// Where each row stands.
    pub rows: &'a [AttendRow],
    /// How each sequence's recurrent states go on.
    pub runs: &'a [Run],
    /// By group of layers: which pages the sequences' positions lie in.
    pub groups: &'a [Group],
    /// By rotary table.
    pub angles: &'a [Angles],
    /// Where the time goes.
    pub clock: &'a mut Clock,
    /// Which weights come and go.
    pub flow: &'a mut Flow,
    turned: &'a Turned,
}

impl<'a> Line<'a> {
    /// Adds products, counted.
    pub fn products(&mut self, stage: Stage, x: &mut ActSlot<'a>, jobs: &[Option<Product<'a>>]) {
        let weights = jobs.iter().flatten().map(|((weights, _), ..)| *weights);
        self.clock.products(stage.into(), x.f32().rows(), weights);
        self.chain.products(stage, x, jobs, self.turned);
    }
    /// Adds one.
    pub fn product(
        &mut self,
        x: &mut ActSlot<'a>,
        projection: &'a Projection,
        out: Slot<'a>,
        store: Store,
    ) {
        self.products(Stage::Products, x, &[Some(projection.to(out, store))]);
    }
    /// Adds products by heads, counted.
    pub fn per_head(&mut self, how: PerHead<'a>, x: Slot<'a>, parts: &'a mut Act, out: Slot<'a>) {
        self.clock.products(Kind::Projections, x.rows(), how.weights);
        self.chain.per_head(how, x, parts, out);
    }
    /// Does what was added.
    pub fn run(&mut self) {
        let Line { chain, clock, .. } = self;
        clock.watched(|watch| chain.run(watch));
    }
}

/// What the parts of a chain write on the way, and what they keep: each for one part.
struct Buffers<'a> {
    attention: Option<&'a mut [attention::Buffers]>,
    latent: Option<&'a mut mla::Latent>,
    cache: Option<&'a mut Cache>,
    recurrent: Option<(&'a mut [recurrent::Buffers], &'a mut Recurrent)>,
    mlp: Option<&'a mut [mlp::Buffers]>,
    moe: Option<&'a mut [moe::Buffers]>,
    laurel: Option<&'a mut [laurel::Buffers]>,
    per_layer: Option<&'a mut per_layer::Buffers>,
}

impl Buffers<'_> {
    /// Whether those that a part needs are there still.
    fn fit(&self, block: &Block) -> bool {
        match block {
            Block::Attention(_) => self.attention.is_some() && self.cache.is_some(),
            Block::Mla(_) => self.latent.is_some() && self.cache.is_some(),
            Block::Recurrent(_) => self.recurrent.is_some(),
            Block::Mlp(_) => self.mlp.is_some(),
            Block::Moe(m) => self.moe.is_some() && (self.mlp.is_some() || !m.shares()),
            Block::Laurel(_) => self.laurel.is_some(),
            Block::Gate(_) => self.per_layer.is_some(),
            Block::Linear(_) => true,
        }
    }
}

/// One of them, which is there, since it was asked for.
fn take<T>(buffers: &mut Option<T>) -> T {
    buffers.take().expect("buffers that a part needs")
}

/// What branches read and join.
#[derive(Clone, Copy)]
struct Streams<'a> {
    /// The stream.
    stream: Slot<'a>,
    /// A branch's input, and that of one that reads twice as much.
    inputs: [ActSlot<'a>; 2],
    wide: Slot<'a>,
    /// A branch's output.
    branch: Slot<'a>,
    /// A part's.
    part: Slot<'a>,
    aside: Slot<'a>,
}

/// Takes the rows through all branches of a layer.
pub(crate) fn layer(steps: &[Step], pass: &mut Pass<'_>, s: &mut Scratch) {
    let mut at = (0, 0);
    while at.0 < steps.len() {
        at = some(steps, at, pass, s);
    }
}

/// As many parts as find their buffers free, from part `from.1` of branch `from.0` on; where the next
/// is.
fn some(
    steps: &[Step],
    from: (usize, usize),
    pass: &mut Pass<'_>,
    s: &mut Scratch,
) -> (usize, usize) {
    let (rows, mut room) = (pass.rows.len(), Room::default());
    let mut line = Line {
        chain: Chain::new(pass.ctx, &mut room, pass.clock.on()),
        rows: pass.rows,
        runs: pass.runs,
        groups: pass.groups,
        angles: &s.angles,
        clock: pass.clock,
        flow: pass.flow,
        turned: pass.turned,
    };
    let if_held = |held: usize| if held > 0 { rows } else { 0 };
    let streams = Streams {
        inputs: [
            s.input.lend(pass.ctx, rows, true),
            s.wide_input.lend(pass.ctx, if_held(s.wide.bytes()), true),
        ],
        stream: s.stream.slot(),
        wide: s.wide.lend(if_held(s.wide.bytes())),
        branch: s.branch.lend(rows),
        part: s.part.lend(if_held(s.part.bytes())),
        aside: s.aside.lend(if_held(s.aside.bytes())),
    };
    let mut altup = s.altup.as_mut().map(|b| b.lend(pass.ctx, rows));
    let mut buffers = Buffers {
        attention: Some(&mut s.attention),
        latent: Some(&mut s.latent),
        cache: Some(pass.cache),
        recurrent: Some((&mut s.recurrent, pass.recurrent)),
        mlp: Some(&mut s.mlp),
        moe: Some(&mut s.moe),
        laurel: Some(&mut s.laurel),
        per_layer: s.per_layer.as_mut(),
    };
    for (b, step) in steps.iter().enumerate().skip(from.0) {
        let first = if b == from.0 { from.1 } else { 0 };
        for i in first..step.weights.parts.len() {
            if !buffers.fit(&step.weights.parts[i].block) {
                line.run();
                return (b, i);
            }
            if let (Some(turn), Some(of), 0) = (step.turn, altup.as_mut(), i) {
                pass.altup.iter().for_each(|altup| altup.turn(&mut line, turn, streams.stream, of));
            }
            part(step, i, &mut line, streams, &mut buffers);
        }
        if !step.joins_as_is() {
            join(step, &mut line, streams, altup.as_ref());
        }
    }
    line.run();
    (steps.len(), 0)
}

/// Takes the stream, or the input that was made before, through part `i`.
fn part<'a>(
    step: &'a Step,
    i: usize,
    line: &mut Line<'a>,
    streams: Streams<'a>,
    buffers: &mut Buffers<'a>,
) {
    let (weights, own) = (&*step.weights, &step.own[i]);
    let part = &weights.parts[i];
    let input = streams.inputs[usize::from(step.reads == Reads::StreamAndTokens)];
    let mut x = input.in_forms(step.q8);
    if i == 0 || weights.parts.iter().any(|part| part.pre.is_some()) {
        let norm = part.pre.as_ref().or(weights.pre.as_ref()).map(NormWeights::view);
        let from = read(step, line, streams);
        line.chain.norm(norm, weights.order.as_deref(), from, x);
    }
    let (out, store) = match () {
        () if !part.joins_as_is() => (streams.part, Store::Set),
        () if step.joins_as_is() => (streams.stream, Store::Add),
        () if i == 0 => (streams.branch, Store::Set),
        () => (streams.branch, Store::Add),
    };
    match &part.block {
        Block::Attention(a) => {
            let buffers = (take(&mut buffers.attention), take(&mut buffers.cache));
            a.add(line, own, buffers, &mut x, (out, store));
        }
        Block::Mla(m) => {
            let buffers = (take(&mut buffers.latent), take(&mut buffers.cache));
            m.add(line, buffers, &mut x, (out, store));
        }
        Block::Recurrent(r) => {
            r.add(line, take(&mut buffers.recurrent), &mut x, (out, store));
        }
        Block::Mlp(m) => m.add(line, Some(own), take(&mut buffers.mlp), &mut x, (out, store)),
        Block::Moe(m) => {
            let shared = if m.shares() { Some(take(&mut buffers.mlp)) } else { None };
            let buffers = (take(&mut buffers.moe), shared);
            m.add(line, buffers, (&mut x, streams.stream), (out, store));
        }
        Block::Laurel(l) => l.add(line, take(&mut buffers.laurel), &mut x, (out, store)),
        Block::Gate(g) => g.add(line, take(&mut buffers.per_layer), &mut x, (out, store)),
        Block::Linear(l) => line.product(&mut x, l, out, store),
    }
    if !part.joins_as_is() {
        sum(part, i == 0, line, streams);
    }
}

/// What a branch works on.
fn read<'a>(step: &Step, line: &mut Line<'a>, streams: Streams<'a>) -> Slot<'a> {
    let Streams { stream, wide, aside, .. } = streams;
    match step.reads {
        Reads::Stream => stream,
        Reads::Aside => aside,
        Reads::StreamAndTokens => {
            let to = wide.some_columns(0..stream.cols());
            line.chain.plain(Stage::Norm, Plain::Copy(stream.into()), to);
            wide
        }
    }
}

/// Adds a part's output to its branch's.
fn sum<'a>(part: &'a PartStep, first: bool, line: &mut Line<'a>, streams: Streams<'a>) {
    if first {
        line.chain.plain(Stage::Norm, Plain::Zero, streams.branch);
    }
    let post = part.post.as_ref().map(NormWeights::view);
    let how = Residual { post, scale: part.scale, skip: None, then: 1.0 };
    line.chain.residual(how, streams.part, streams.branch);
}

/// Makes the stream of it and a branch's output, or what is set aside.
fn join<'a>(
    step: &'a Step,
    line: &mut Line<'a>,
    streams: Streams<'a>,
    altup: Option<&altup::Slots<'a>>,
) {
    let Streams { inputs, stream, branch, aside, .. } = streams;
    let post = step.weights.post.as_ref().map(NormWeights::view);
    let how = Residual { post, scale: step.scale, skip: None, then: step.then };
    match (step.skip, altup) {
        (Skip::Others, Some(of)) => {
            line.chain.turn(Turn::Others(post, step.scale), of.all, branch, of.new);
        }
        (Skip::Aside { stream: of_stream }, _) => {
            let begin = if of_stream { Plain::Copy(stream.into()) } else { Plain::Zero };
            line.chain.plain(Stage::Norm, begin, aside);
            line.chain.residual(how, branch, aside);
        }
        (Skip::Input(by), _) => {
            let skip = Some((by, Seen::from(inputs[0].f32())));
            line.chain.residual(Residual { skip, ..how }, branch, stream);
        }
        _ => line.chain.residual(how, branch, stream),
    }
}
