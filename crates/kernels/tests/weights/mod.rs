//! Seeded weights of every layout.
use rinfer_kernels::layout::{Layout, RowCodes};

/// A small generator: a 64-bit linear congruence, high bits out.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
    /// In -1..1.
    pub fn float(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Bits to a code, and inputs to a scale.
pub fn shape(layout: Layout) -> (u32, usize) {
    match layout {
        Layout::F32 | Layout::F16 | Layout::Bf16 => (0, 1),
        Layout::W8 | Layout::W8X | Layout::W8F | Layout::W8Z | Layout::W8E => (8, 32),
        Layout::W8FZ => (8, 32),
        Layout::W8H => (8, 16),
        Layout::W4 | Layout::W4Z | Layout::W4B | Layout::W4M => (4, 32),
        Layout::W4N | Layout::W4P | Layout::W4L | Layout::W4E | Layout::W4I4 => (4, 32),
        Layout::W4H | Layout::W4V | Layout::W4I3 | Layout::W4I3S => (4, 16),
        Layout::W3K | Layout::W3I1 | Layout::W3I2 => (3, 16),
        Layout::W2 => (2, 32),
        Layout::W5 | Layout::W5M => (5, 32),
        Layout::W2K => (2, 16),
        Layout::W4K => (4, 32),
        Layout::W5K => (5, 32),
        Layout::W6K => (6, 16),
    }
}

/// Whether scales are f32.
fn singles(layout: Layout) -> bool {
    let halves = matches!(layout, Layout::W8H | Layout::W4H);
    let tables = matches!(layout, Layout::W4N | Layout::W4P);
    halves || tables || matches!(layout, Layout::W8F | Layout::W8FZ | Layout::W8E)
}

/// Makes `out` row `i` of a matrix of `cols`; now and then all codes are at their highest.
pub fn row(layout: Layout, cols: usize, i: usize, out: &mut RowCodes) {
    *out = RowCodes::default();
    let mut r = Random(0x9e37 + i as u64 * 0x1_0001 + layout as u64 * 77);
    let (bits, sub) = shape(layout);
    let full = r.below(4) == 0;
    let blocks = cols / layout.block();
    let mut half = |span: f32| half::f16::from_f32(r.float() * span).to_bits();
    match layout {
        Layout::F32 => return out.f32.extend((0..cols).map(|_| r.float())),
        Layout::F16 => return out.half.extend((0..cols).map(|_| half(1.0))),
        Layout::Bf16 => {
            let bits = |x: f32| half::bf16::from_f32(x).to_bits();
            return out.half.extend((0..cols).map(|_| bits(r.float())));
        }
        layout if singles(layout) => {}
        Layout::W4B | Layout::W4E => {
            let bits = |x| half::bf16::from_f32(half::f16::from_bits(x).to_f32()).to_bits();
            out.d.extend((0..blocks).map(|_| bits(half(0.05))));
        }
        Layout::W4V => out.d.extend((0..cols / sub).map(|_| half(0.05))),
        _ => out.d.extend((0..blocks).map(|_| half(0.05))),
    }
    if matches!(layout, Layout::W4M | Layout::W5M | Layout::W2K | Layout::W4K | Layout::W5K) {
        out.m.extend((0..blocks).map(|_| half(0.05)));
    }
    if singles(layout) {
        out.scale.extend((0..cols / sub).map(|_| r.float()));
    }
    let steps = match layout {
        Layout::W2K | Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S => 16,
        Layout::W4K | Layout::W5K => 64,
        Layout::W6K | Layout::W3K | Layout::W4I4 => 256,
        _ => 0,
    };
    // Codes at their highest are those farthest from a zero at its lowest.
    let zeros = match layout {
        Layout::W4Z | Layout::W4B | Layout::W4H => 17,
        Layout::W8Z | Layout::W8FZ | Layout::W8H => 257,
        _ => 0,
    };
    if zeros > 0 {
        out.z.extend((0..cols / sub).map(|_| if full { 0 } else { r.below(zeros) as u16 }));
    }
    let mut step = |n| if full { n - 1 } else { r.below(n) } as u8;
    if steps > 0 {
        // Signed ones' highest magnitude is -128.
        let s = |s| if steps == 256 && full { 128 } else { s };
        out.s.extend((0..cols / sub).map(|_| s(step(steps))));
    }
    if matches!(layout, Layout::W2K | Layout::W4K | Layout::W5K) {
        out.t.extend((0..cols / sub).map(|_| step(steps)));
    }
    // Some codes' highest magnitude is not their last's.
    let top = |q| match layout {
        Layout::W6K | Layout::W3K | Layout::W8 | Layout::W8X | Layout::W4L | Layout::W4I4
            if full =>
        {
            0
        }
        Layout::W3I1 if full => 4,
        Layout::W3I2 if full => 6,
        _ => q,
    };
    out.q.extend((0..cols).map(|_| top(step(1 << bits))));
}
