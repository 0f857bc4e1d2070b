//! Phases one after another in one run of the team, whatever operations they are of.
use super::Ctx;
use crate::team::{PHASES, Worker};

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Norms of the stream, and what joins it through one.
    Norm,
    /// Products with weights.
    Products,
    /// Norms and rotation of heads.
    Heads,
    /// Over the cache.
    Attention,
    /// Activations between products.
    Unit,
}

/// Who is told of each phase that has ended. While someone watches, each is a run by itself; the
/// numbers are the same.
pub type Watch<'a> = Option<&'a mut dyn FnMut(Stage)>;

/// Has the team do `phase(_, i)` for `i` in `0..phases`, each of which is one phase, or nothing on
/// every thread: `stage(i)` says what it does, if anything.
pub(super) fn chain(
    ctx: &Ctx,
    watch: Watch<'_>,
    phases: usize,
    stage: impl Fn(usize) -> Option<Stage>,
    phase: impl Fn(&Worker<'_>, usize) + Sync,
) {
    let Some(watch) = watch else {
        for from in (0..phases).step_by(PHASES) {
            let some = from..phases.min(from + PHASES);
            ctx.team.run(|worker| some.clone().for_each(|i| phase(worker, i)));
        }
        return;
    };
    for (i, stage) in (0..phases).filter_map(|i| Some((i, stage(i)?))) {
        ctx.team.run(|worker| phase(worker, i));
        watch(stage);
    }
}
