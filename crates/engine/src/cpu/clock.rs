//! What a pass spends on each kind of operation, counted only while someone asks: a lap ends at the
//! end of an operation, so that all of a pass is in some lap.
use crate::profile::{Kind, Profile};
use rinfer_kernels::Packed;
use rinfer_kernels::layout::Reads;
use rinfer_kernels::ops::{Stage, Watch};
use std::time::Instant;

/// Off until it is asked for; then it neither reads the time nor counts.
#[derive(Default)]
pub(crate) struct Clock {
    /// Where the current lap began, while on.
    lap: Option<Instant>,
    counted: Profile,
}

impl Clock {
    /// What was counted since the last time, and whether to count on.
    pub fn take(&mut self, on: bool) -> Profile {
        self.lap = on.then(Instant::now);
        std::mem::take(&mut self.counted)
    }

    /// A pass begins. What was before it is not counted.
    pub fn start(&mut self) {
        if let Some(lap) = &mut self.lap {
            *lap = Instant::now();
        }
    }

    /// What was done since the last lap was of this kind.
    pub fn lap(&mut self, kind: Kind) {
        if let Some(lap) = &mut self.lap {
            let now = Instant::now();
            self.counted[kind].seconds += (now - *lap).as_secs_f64();
            *lap = now;
        }
    }

    /// Has `run` report the operations of a chain, each of which is a lap, while on.
    pub fn watched(&mut self, run: impl FnOnce(Watch<'_>)) {
        if self.lap.is_none() {
            return run(None);
        }
        run(Some(&mut |stage| self.lap(stage.into())));
    }

    /// Whether someone asks.
    pub fn on(&self) -> bool {
        self.lap.is_some()
    }

    /// Each of `weights` was multiplied with `rows` rows, for which it streamed once.
    pub fn products<'a>(
        &mut self,
        kind: Kind,
        rows: usize,
        weights: impl IntoIterator<Item = &'a Packed>,
    ) {
        if self.lap.is_none() {
            return;
        }
        let work = &mut self.counted[kind];
        for weights in weights {
            let products = (rows * weights.rows() * weights.cols()) as u64;
            match weights.layout().reads() {
                Reads::Q8 => work.q8 += products,
                Reads::F32 => work.f32 += products,
            }
            work.bytes += weights.bytes().len() as u64;
        }
    }
}

impl From<Stage> for Kind {
    fn from(stage: Stage) -> Kind {
        match stage {
            Stage::Norm => Kind::Norm,
            Stage::Products => Kind::Projections,
            Stage::Heads => Kind::Rotate,
            Stage::Attention => Kind::Attention,
            Stage::Unit => Kind::Glu,
            Stage::State => Kind::State,
            Stage::Router => Kind::Router,
            Stage::Experts => Kind::Experts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Work;
    use rinfer_kernels::Layout;
    use rinfer_kernels::room::Room;
    use std::time::Duration;

    /// Two laps around a pause between passes, which is no one's.
    fn check(on: bool) {
        const NAP: Duration = Duration::from_millis(5);
        let mut clock = Clock::default();
        clock.take(on);
        let start = Instant::now();
        std::thread::sleep(NAP);
        clock.start();
        let counts = Instant::now();
        std::thread::sleep(NAP);
        clock.lap(Kind::Norm);
        clock.lap(Kind::Glu);
        let (counts, all) = (counts.elapsed(), start.elapsed());
        let profile = clock.take(false);
        let total = profile.total().seconds;
        if on {
            assert!(profile[Kind::Norm].seconds >= NAP.as_secs_f64());
            assert!(total == profile[Kind::Norm].seconds + profile[Kind::Glu].seconds);
            assert!(total <= counts.as_secs_f64() + 1e-3 && total < all.as_secs_f64());
        } else {
            assert_eq!(profile, Profile::default());
        }
        assert_eq!(clock.take(false), Profile::default(), "taken once");
    }

    #[test]
    fn laps_are_of_passes() {
        check(true);
        check(false);
    }

    #[test]
    fn products_are_counted_by_what_they_read() {
        let packed = |layout, rows, cols| {
            let bytes = Packed::size(layout, rows, cols);
            let room = Room::new(bytes).take(bytes);
            Packed::from_bytes(layout, rows, cols, room.into()).expect("as many bytes")
        };
        let (codes, floats) = (packed(Layout::W8, 16, 64), packed(Layout::F32, 32, 64));
        let mut clock = Clock::default();
        clock.take(true);
        clock.products(Kind::Head, 3, [&codes, &floats]);
        clock.products(Kind::Head, 1, [&codes]);
        let bytes = (2 * codes.bytes().len() + floats.bytes().len()) as u64;
        let expect = Work { seconds: 0.0, q8: 4 * 16 * 64, f32: 3 * 32 * 64, bytes };
        assert_eq!(clock.take(false)[Kind::Head], expect);
    }
}
