//! A residual branch: from what it reads through its parts, and to what it joins.
use super::executor::Pass;
use super::plan::{Block, NormWeights, PartStep, Step};
use super::scratch::Scratch;
use crate::profile::Kind;
use crate::spec::{Reads, Skip};
use rinfer_kernels::mat::Store;
use rinfer_kernels::ops::{self, Ends, Pre, Residual, To};
use rinfer_kernels::{Act, Mat};

/// Adds a branch's share of its input to the stream.
pub(crate) fn run(step: &Step, pass: &mut Pass<'_>, s: &mut Scratch) {
    for (i, part) in step.weights.parts.iter().enumerate() {
        self::part(step, i, pass, s);
        if !part.joins_as_is() {
            sum(part, i == 0, pass, s);
        }
    }
    if !step.joins_as_is() && !step.joins_itself() {
        join(step, pass, s);
    }
}

/// Takes the stream, or the input that was made before, through part `i`.
fn part(step: &Step, i: usize, pass: &mut Pass<'_>, s: &mut Scratch) {
    let (weights, own) = (&*step.weights, &step.own[i]);
    let part = &weights.parts[i];
    let norm = part.pre.as_ref().or(weights.pre.as_ref()).map(NormWeights::view);
    let pre = Pre { norm, order: weights.order.as_deref(), q8: step.q8 };
    let fresh = i == 0 || weights.parts.iter().any(|part| part.pre.is_some());
    if fresh && step.reads != Reads::Stream {
        read(step, &pre, pass, s);
    }
    let pre = Some(pre).filter(|_| fresh && step.reads == Reads::Stream);
    let Scratch { stream, input, wide_input, branch, part: alone, .. } = s;
    let store = if i > 0 { Store::Add } else { Store::Set };
    let to = if !part.joins_as_is() {
        To::Out(alone, Store::Set)
    } else if step.joins_as_is() {
        To::Stream
    } else if step.joins_itself() && i + 1 == weights.parts.len() {
        To::Joined(branch, store, residual(step))
    } else {
        To::Out(branch, store)
    };
    let input = if step.reads == Reads::StreamAndTokens { wide_input } else { input };
    let ends = Ends { input, pre, stream: Some(stream), to, turned: None };
    match &part.block {
        Block::Attention(a) => a.run(pass, own, (&s.angles, &mut s.attention), ends),
        Block::Mlp(m) => m.run(pass, Some(own), &mut s.mlp, ends),
        Block::Moe(m) => {
            let (x, out, store) = begin(pass, ends, |pass, x, stream| {
                m.route(pass, &mut s.moe, x, stream);
            });
            m.run(pass, (&mut s.moe, &mut s.mlp), x, out, store);
        }
        Block::Mla(m) => {
            let (x, out, store) = begin(pass, ends, |_, _, _| ());
            m.run(pass, &s.angles, &mut s.latent, x, out, store);
        }
        Block::Recurrent(r) => {
            let (x, out, store) = begin(pass, ends, |_, _, _| ());
            r.run(pass, &mut s.recurrent, x, out, store);
        }
        Block::Laurel(l) => {
            let (x, out, store) = begin(pass, ends, |_, _, _| ());
            l.run(pass, &mut s.laurel, x, out, store);
        }
        Block::Gate(g) => {
            let (x, out, store) = begin(pass, ends, |_, _, _| ());
            let b = s.per_layer.as_mut().expect("inputs of layers, since a layer reads them");
            g.run(pass, b, x, out, store);
        }
        Block::Linear(l) => {
            let (x, out, store) = begin(pass, ends, |_, _, _| ());
            pass.linear(Kind::Projections, x, &mut [l.job(out, store)]);
        }
    }
}

/// Makes the input of a part that does not by itself, and lets `route` see it and the stream; then
/// the input, and where the output goes.
fn begin<'a>(
    pass: &mut Pass<'_>,
    mut ends: Ends<'a>,
    route: impl FnOnce(&mut Pass<'_>, &mut Act, &Mat),
) -> (&'a mut Act, &'a mut Mat, Store) {
    pass.input(&mut ends);
    let Ends { input, stream, to, .. } = ends;
    let stream = stream.expect("the stream, beside which all branches are");
    route(pass, input, stream);
    match to {
        To::Stream => (input, stream, Store::Add),
        To::Out(out, store) | To::Joined(out, store, _) => (input, out, store),
    }
}

/// Norms what a branch works on besides the stream.
fn read(step: &Step, pre: &Pre<'_>, pass: &mut Pass<'_>, s: &mut Scratch) {
    let (from, to) = match step.reads {
        Reads::Stream => (&s.stream, &mut s.input),
        Reads::Aside => (&s.aside, &mut s.input),
        Reads::StreamAndTokens => {
            let d = s.stream.cols();
            for i in 0..s.stream.rows() {
                s.wide.row_mut(i)[..d].copy_from_slice(s.stream.row(i));
            }
            (&s.wide, &mut s.wide_input)
        }
    };
    pass.norm(pre, from, to);
}

/// Adds a part's output to its branch's.
fn sum(part: &PartStep, first: bool, pass: &mut Pass<'_>, s: &mut Scratch) {
    if first {
        s.branch.resize(s.part.rows());
        s.branch.data_mut().fill(0.0);
    }
    let post = part.post.as_ref().map(NormWeights::view);
    let how = Residual { post, scale: part.scale, skip: None, then: 1.0 };
    ops::residual(pass.ctx, &how, &mut s.part, &mut s.branch);
    pass.clock.lap(Kind::Norm);
}

/// How a branch's output joins.
fn residual(step: &Step) -> Residual<'_> {
    let post = step.weights.post.as_ref().map(NormWeights::view);
    Residual { post, scale: step.scale, skip: None, then: step.then }
}

/// Makes the stream of it and a branch's output, or what is set aside.
fn join(step: &Step, pass: &mut Pass<'_>, s: &mut Scratch) {
    let how = residual(step);
    match (step.skip, s.altup.as_mut()) {
        (Skip::Others, Some(b)) => {
            let post = how.post.as_ref();
            ops::residual_of_others(pass.ctx, post, step.scale, &mut s.branch, &mut b.all);
        }
        (Skip::Aside { stream }, _) => {
            s.aside.resize(s.branch.rows());
            match stream {
                true => s.aside.data_mut().copy_from_slice(s.stream.data()),
                false => s.aside.data_mut().fill(0.0),
            }
            ops::residual(pass.ctx, &how, &mut s.branch, &mut s.aside);
        }
        (Skip::Input(by), _) => {
            let how = Residual { skip: Some((by, s.input.view())), ..how };
            ops::residual(pass.ctx, &how, &mut s.branch, &mut s.stream);
        }
        _ => ops::residual(pass.ctx, &how, &mut s.branch, &mut s.stream),
    }
    pass.clock.lap(Kind::Norm);
}
