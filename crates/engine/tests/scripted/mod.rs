//! An executor without a model: logits are a function of the sequence's tokens, and the state is
//! those tokens. It checks what the engine promises a real executor.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part")]
use rinfer_engine::backend::{DeviceError, Executor, Kv, Limits, Quant, State};
use rinfer_engine::batch::{Batch, Logits, Row, Slot, TokenId, Want};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

pub const VOCAB: usize = 32;

pub fn limits(slots: usize, context: usize, positions: usize, batch: usize) -> Limits {
    Limits {
        slots,
        context,
        positions,
        batch,
        kv: Kv::F16,
        quant: Quant::Native,
        keep: false,
        resident: None,
    }
}

pub type Script = Box<dyn Fn(&[u32]) -> Vec<f32> + Send>;
/// Each forward's spans: slot, past, rows, and whether logits were wanted.
pub type Log = Arc<Mutex<Vec<Vec<(u32, usize, usize, bool)>>>>;

pub struct Scripted {
    limits: Limits,
    slots: Slots,
    script: Script,
    /// The token that the device fails on.
    breaks_at: Option<u32>,
    pub log: Log,
}

struct Slots {
    positions: usize,
    /// Tokens held, and positions reserved.
    slots: Vec<Option<(Vec<u32>, usize)>>,
    /// What is kept, oldest first.
    kept: Vec<Vec<u32>>,
}

impl Scripted {
    pub fn new(limits: &Limits, script: impl Fn(&[u32]) -> Vec<f32> + Send + 'static) -> Scripted {
        let slots = Slots {
            positions: limits.positions,
            slots: vec![None; limits.slots],
            kept: Vec::new(),
        };
        let (limits, log) = (limits.clone(), Log::default());
        Scripted { limits, slots, script: Box::new(script), breaks_at: None, log }
    }
    /// Always likes the token after the last one best: 1, 2, 3, ...
    pub fn counting(limits: &Limits) -> Scripted {
        Scripted::new(limits, |tokens| one_hot((tokens[tokens.len() - 1] + 1) % VOCAB as u32))
    }
    /// Fails on a token.
    pub fn breaking_at(self, id: u32) -> Scripted {
        Scripted { breaks_at: Some(id), ..self }
    }
    /// Logits that depend on every token, with many likely choices.
    pub fn hashing(limits: &Limits) -> Scripted {
        Scripted::new(limits, hashed)
    }
}

pub fn hashed(tokens: &[u32]) -> Vec<f32> {
    let seed = tokens.iter().fold(7u32, |h, t| (h ^ t).wrapping_mul(0x0100_0193));
    (0..VOCAB as u32).map(|i| (seed.rotate_left(i) % 1000) as f32 / 250.0).collect()
}

pub fn one_hot(id: u32) -> Vec<f32> {
    let mut logits = vec![0.0; VOCAB];
    logits[id as usize] = 20.0;
    logits
}

impl Executor for Scripted {
    fn forward(&mut self, batch: &Batch, out: &mut Logits) -> Result<(), DeviceError> {
        assert!(batch.rows.len() <= self.limits.batch, "{} rows", batch.rows.len());
        let mut rows = batch.rows.iter();
        out.data.clear();
        let mut spans = Vec::new();
        for span in &batch.seqs {
            let (tokens, reserved) =
                self.slots.slots[span.slot.0 as usize].as_mut().expect("an open slot");
            assert_eq!(span.past, tokens.len(), "slot {}", span.slot.0);
            for row in rows.by_ref().take(span.len) {
                let Row::Token(TokenId(id)) = row else { panic!("an image") };
                tokens.push(*id);
            }
            assert!(tokens.len() <= *reserved, "slot {} is not reserved", span.slot.0);
            assert!(tokens.len() <= self.limits.context);
            if self.breaks_at.is_some_and(|id| tokens.contains(&id)) {
                return Err(DeviceError("it broke".into()));
            }
            if span.want == Want::Last {
                out.data.extend((self.script)(tokens));
            }
            spans.push((span.slot.0, span.past, span.len, span.want == Want::Last));
        }
        assert!(rows.next().is_none());
        self.log.lock().unwrap().push(spans);
        Ok(())
    }
    fn state(&mut self) -> &mut dyn State {
        &mut self.slots
    }
}

impl State for Slots {
    fn open(&mut self) -> Option<Slot> {
        let free = self.slots.iter().position(Option::is_none)?;
        self.slots[free] = Some((Vec::new(), 0));
        Some(Slot(free as u32))
    }
    fn resume(&mut self, slot: Slot, tokens: &[TokenId]) -> usize {
        let tokens: Vec<u32> = tokens.iter().map(|id| id.0).collect();
        let common = |a: &Vec<u32>| a.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        let len = self.kept.iter().map(common).max().unwrap_or(0);
        self.slots[slot.0 as usize] = Some((tokens[..len].to_vec(), 0));
        len
    }
    fn keep(&mut self, slot: Slot, tokens: &[TokenId]) {
        let tokens: Vec<u32> = tokens.iter().map(|id| id.0).collect();
        assert_eq!(self.slots[slot.0 as usize].as_ref().expect("an open slot").0, tokens);
        self.kept.retain(|kept| !tokens.starts_with(kept));
        self.kept.push(tokens);
        while self.used() > self.positions {
            self.kept.remove(0);
        }
    }
    fn kept(&self) -> usize {
        self.kept.iter().map(Vec::len).sum()
    }
    fn reserve(&mut self, slot: Slot, len: usize) -> bool {
        let (_, reserved) = self.slots[slot.0 as usize].as_ref().expect("an open slot");
        let more = len.saturating_sub(*reserved);
        while self.used() + more > self.positions && !self.kept.is_empty() {
            self.kept.remove(0);
        }
        let fits = self.used() + more <= self.positions;
        if fits && let Some((_, reserved)) = &mut self.slots[slot.0 as usize] {
            *reserved += more;
        }
        fits
    }
    fn reach(&self, _: Slot, len: usize) -> usize {
        len
    }
    fn truncate(&mut self, slot: Slot, len: usize) -> bool {
        let (tokens, reserved) = self.slots[slot.0 as usize].as_mut().expect("an open slot");
        tokens.truncate(len);
        *reserved = len;
        true
    }
    fn close(&mut self, slot: Slot) {
        assert!(self.slots[slot.0 as usize].take().is_some(), "slot {} closed twice", slot.0);
    }
    fn len(&self, slot: Slot) -> usize {
        self.slots[slot.0 as usize].as_ref().expect("an open slot").0.len()
    }
    fn room(&self) -> usize {
        self.positions - self.used()
    }
    fn save(&self, _: Option<&[TokenId]>, _: &mut dyn Write) -> io::Result<usize> {
        Ok(0)
    }
    fn restore(&mut self, _: &mut dyn Read) -> Result<usize, String> {
        Err("nothing is saved".into())
    }
}

impl Slots {
    fn used(&self) -> usize {
        let reserved: usize = self.slots.iter().flatten().map(|(_, reserved)| reserved).sum();
        reserved + self.kept()
    }
}
