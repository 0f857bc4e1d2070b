//! How each model is: away, coming or here, who uses it, and what it takes.
use super::keep::Keep;
use super::source::{Brought, Failure};
use crate::gate::Gate;
use crate::refusal::Refusal;
use std::time::Instant;
use tokio::sync::watch;

/// Of each offer.
pub struct Slots {
    pub all: Vec<Slot>,
    /// Counts up with each use.
    pub time: u64,
}

#[derive(Default)]
pub struct Slot {
    pub stage: Stage,
    /// Bytes that it takes, or is about to.
    pub bytes: usize,
    /// What it took when it was last to be loaded.
    pub known: Option<usize>,
    pub users: usize,
    /// Who wants it to be unloaded.
    pub closing: usize,
    /// Who is about to use it.
    pub waiting: usize,
    /// When it was last used, in the slots' time and the system's.
    pub last: u64,
    pub since: Option<Instant>,
}

#[derive(Default)]
pub enum Stage {
    #[default]
    Away,
    /// It is being loaded, and whoever wants to is told how that went.
    Coming(watch::Receiver<Option<Outcome>>),
    Here(Box<Loaded>, Keep),
}

/// A model that is loaded.
#[derive(Clone)]
pub struct Loaded {
    pub model: Brought,
    pub gate: Gate,
}

/// How loading went.
#[derive(Clone)]
pub enum Outcome {
    Here,
    /// Those who asked for it are told; who asks later tries anew.
    Failed(Failure, Refusal),
    /// There will be room when others are done.
    Full(Refusal),
}

impl Stage {
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Away => "unloaded",
            Stage::Coming(_) => "loading",
            Stage::Here(..) => "loaded",
        }
    }
}

impl Slot {
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Here(..)) && self.users + self.waiting == 0
    }
    pub fn come(&mut self) -> watch::Sender<Option<Outcome>> {
        let (sender, outcome) = watch::channel(None);
        self.stage = Stage::Coming(outcome);
        sender
    }
    /// Takes the model out.
    pub fn leave(&mut self) -> Stage {
        self.bytes = 0;
        std::mem::take(&mut self.stage)
    }
}

impl Slots {
    /// Bytes of all but one.
    pub fn held(&self, but: usize) -> usize {
        self.all.iter().enumerate().filter(|(i, _)| *i != but).map(|(_, slot)| slot.bytes).sum()
    }
    /// What is idle but for one, the longest idle first.
    pub fn idle(&self, but: usize) -> Vec<usize> {
        let idle = |i: &usize| *i != but && self.all[*i].is_idle();
        let mut idle: Vec<usize> = (0..self.all.len()).filter(idle).collect();
        idle.sort_by_key(|i| self.all[*i].last);
        idle
    }
}
