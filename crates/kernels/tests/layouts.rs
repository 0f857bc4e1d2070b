//! Packed rows lie as the tables say, come back as the formula at `Layout` says, and take the bytes
//! that formats take.
use half::{bf16, f16};
use rinfer_kernels::Team;
use rinfer_kernels::layout::{Layout, Packed, RowCodes, Source, tables};
use rinfer_kernels::room::Room;
use std::ops::Range;
use std::sync::Mutex;

mod weights;

/// Element `k` of a row, by the definition.
fn element(layout: Layout, row: &RowCodes, k: usize) -> f32 {
    let sub = k / weights::shape(layout).1;
    let block = k / layout.block();
    let half = |bits: &[u16]| f16::from_bits(bits[block]).to_f32();
    let q = |offset: f32| f32::from(row.q[k]) - offset;
    let s = || half(&row.d) * f32::from(row.s[sub]);
    let odd = |unit| half(&row.d) * f32::from(2 * row.s[sub] + 1) * unit;
    match layout {
        Layout::F32 => row.f32[k],
        Layout::F16 => f16::from_bits(row.half[k]).to_f32(),
        Layout::Bf16 => bf16::from_bits(row.half[k]).to_f32(),
        Layout::W8 | Layout::W8X => half(&row.d) * q(128.0),
        Layout::W8F => row.scale[block] * q(128.0),
        Layout::W8E => row.scale[block] * e4m3(row.q[k]),
        Layout::W8FZ | Layout::W8H | Layout::W4H => row.scale[sub] * q(f32::from(row.z[sub])),
        Layout::W4N => row.scale[block] * tables::NF4[usize::from(row.q[k])],
        Layout::W4P => row.scale[block] * fp4(row.q[k]),
        Layout::W8Z | Layout::W4Z => half(&row.d) * q(f32::from(row.z[block])),
        Layout::W4B => bf16::from_bits(row.d[block]).to_f32() * q(f32::from(row.z[block])),
        Layout::W4 => half(&row.d) * q(8.0),
        Layout::W5 => half(&row.d) * q(16.0),
        Layout::W4M | Layout::W5M => half(&row.d) * q(0.0) + half(&row.m),
        Layout::W2K | Layout::W4K | Layout::W5K => {
            s() * q(0.0) - half(&row.m) * f32::from(row.t[sub])
        }
        Layout::W6K => half(&row.d) * f32::from(row.s[sub] as i8) * q(32.0),
        Layout::W3K => half(&row.d) * f32::from(row.s[sub] as i8) * q(4.0),
        Layout::W2 => half(&row.d) * q(1.0),
        Layout::W4L => half(&row.d) * iq4(row.q[k]),
        Layout::W4E => bf16::from_bits(row.d[block]).to_f32() * e2m1(row.q[k]),
        Layout::W4V => f16::from_bits(row.d[sub]).to_f32() * e2m1(row.q[k]),
        Layout::W4I4 => half(&row.d) * f32::from(row.s[sub] as i8) * iq4(row.q[k]),
        Layout::W3I1 => odd(0.125) * listed([-7, 1, 9, 0, -9, -1, 7, 0], row.q[k]),
        Layout::W3I2 => odd(0.125) * listed([8, 25, 43, 0, -8, -25, -43, 0], row.q[k]),
        Layout::W4I3 => odd(0.25) * signed([4, 12, 20, 28, 36, 44, 52, 62], row.q[k]),
        Layout::W4I3S => odd(1.0) * signed([1, 3, 5, 7, 9, 11, 13, 15], row.q[k]),
    }
}

fn listed(all: [i8; 8], q: u8) -> f32 {
    f32::from(all[usize::from(q)])
}

/// Of a magnitude and a sign.
fn signed(all: [i8; 8], q: u8) -> f32 {
    if q < 8 { listed(all, q) } else { -listed(all, q - 8) }
}

/// Twice an E2M1; a negative zero counts as zero.
fn e2m1(q: u8) -> f32 {
    0.0 + signed([0, 1, 2, 3, 4, 6, 8, 12], q)
}

/// llama.cpp's `kvalues_iq4nl`.
fn iq4(q: u8) -> f32 {
    let all = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    all[usize::from(q)] as f32
}

/// A bitsandbytes FP4 by its definition: 12 is the largest before it is divided out.
fn fp4(q: u8) -> f32 {
    let size = match q & 7 {
        0 => 0.0,
        1 => 0.0625,
        code => [8.0, 12.0, 4.0, 6.0, 2.0, 3.0][usize::from(code) - 2],
    } / 12.0;
    if q < 8 { size } else { -size }
}

/// An E4M3 by its definition, its not-a-number aside.
fn e4m3(q: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(q >> 3 & 15), f32::from(q & 7) / 8.0);
    let size = match exponent {
        0 => mantissa * 2f32.powi(-6),
        _ => (1.0 + mantissa) * 2f32.powi(exponent - 7),
    };
    if q < 128 { size } else { -size }
}

fn check(layout: Layout, rows: usize, cols: usize) {
    let packed = Packed::pack(
        &Team::new(2),
        &Room::new(0),
        layout,
        rows,
        cols,
        &|i: usize, codes: &mut RowCodes| {
            weights::row(layout, cols, i, codes);
        },
    );
    let mut got = vec![0.0; cols];
    for i in 0..rows {
        let mut codes = RowCodes::default();
        weights::row(layout, cols, i, &mut codes);
        packed.row(i, &mut got);
        for (k, &got) in got.iter().enumerate() {
            let want = element(layout, &codes, k);
            assert_eq!(got.to_bits(), want.to_bits(), "{layout:?} {rows}x{cols}, row {i}, {k}");
        }
    }
}

#[test]
fn rows_come_back() {
    for layout in Layout::ALL {
        for rows in [1, 15, 16, 17, 40] {
            for blocks in [1, 2, 3] {
                check(layout, rows, blocks * layout.block());
            }
        }
    }
}

/// A panel's bytes by the tables of `layout::scales`, `layout::codes` and `layout::float`.
fn panel(layout: Layout, cols: usize, rows: &[RowCodes]) -> Vec<u8> {
    let mut out = Vec::new();
    match layout {
        Layout::F32 => (0..cols).for_each(|k| each(&mut out, rows, |r| r.f32[k].to_le_bytes())),
        Layout::F16 | Layout::Bf16 => {
            (0..cols).for_each(|k| each(&mut out, rows, |r| r.half[k].to_le_bytes()));
        }
        _ => {
            let blocks: Vec<usize> = (0..cols / layout.block()).collect();
            let mut one = Vec::new();
            head(&mut one, layout, 0, rows);
            let heads = one.len();
            let together = (1..).find(|n| n * heads % 64 == 0).expect("a multiple");
            for blocks in blocks.chunks(together) {
                let codes_from = out.len() + together * heads;
                blocks.iter().for_each(|b| head(&mut out, layout, *b, rows));
                out.resize(codes_from, 0);
                let inputs =
                    blocks.iter().flat_map(|b| b * layout.block()..(b + 1) * layout.block());
                inputs.step_by(32).for_each(|k| codes(&mut out, layout, k, rows));
            }
        }
    }
    out.resize(out.len().next_multiple_of(64), 0);
    out
}

fn each<const N: usize>(out: &mut Vec<u8>, rows: &[RowCodes], of: impl Fn(&RowCodes) -> [u8; N]) {
    rows.iter().for_each(|row| out.extend(of(row)));
}

/// The scales of block `b`.
fn head(out: &mut Vec<u8>, layout: Layout, b: usize, rows: &[RowCodes]) {
    let subs = layout.block() / weights::shape(layout).1;
    let (s, t) =
        (|r: &RowCodes, j: usize| r.s[b * subs + j], |r: &RowCodes, j: usize| r.t[b * subs + j]);
    let wide = |z: u16| f16::from_f32(f32::from(z)).to_le_bytes();
    let halves = [2 * b, 2 * b + 1];
    match layout {
        Layout::W4H | Layout::W8H => {
            halves.iter().for_each(|i| each(out, rows, |r| r.scale[*i].to_le_bytes()));
        }
        Layout::W4V => halves.iter().for_each(|i| each(out, rows, |r| r.d[*i].to_le_bytes())),
        _ if rows[0].d.is_empty() => each(out, rows, |r| r.scale[b].to_le_bytes()),
        _ => each(out, rows, |r| r.d[b].to_le_bytes()),
    }
    if !rows[0].m.is_empty() {
        each(out, rows, |r| r.m[b].to_le_bytes());
    }
    match layout {
        Layout::W4K | Layout::W5K => {
            (0..8).for_each(|j| each(out, rows, |r| [s(r, j) | t(r, j) >> 4 << 6]));
            let low = |r: &RowCodes, i: usize| t(r, 2 * i) & 15 | t(r, 2 * i + 1) << 4;
            (0..4).for_each(|i| each(out, rows, |r| [low(r, i)]));
        }
        Layout::W4Z | Layout::W4B => each(out, rows, |r| [r.z[b] as u8]),
        Layout::W8Z | Layout::W8FZ => each(out, rows, |r| wide(r.z[b])),
        Layout::W8H => halves.iter().for_each(|i| each(out, rows, |r| wide(r.z[*i]))),
        Layout::W4H => halves.iter().for_each(|i| each(out, rows, |r| [r.z[*i] as u8])),
        Layout::W2K => (0..subs).for_each(|j| each(out, rows, |r| [s(r, j) | t(r, j) << 4])),
        Layout::W6K | Layout::W3K | Layout::W4I4 => {
            (0..subs).for_each(|j| each(out, rows, |r| [s(r, j)]))
        }
        Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S => {
            let two = |r: &RowCodes, j: usize| s(r, 2 * j) | s(r, 2 * j + 1) << 4;
            (0..8).for_each(|j| each(out, rows, |r| [two(r, j)]));
        }
        _ => {}
    }
}

/// The codes of inputs `k` to `k + 31`.
fn codes(out: &mut Vec<u8>, layout: Layout, k: usize, rows: &[RowCodes]) {
    /// Of a group's codes: from which bit on, which bits, moved to which place.
    type Field = (usize, usize, u8, usize);
    let nibbles = |j: usize| vec![(2 * j, 0, 15, 0), (2 * j + 1, 0, 15, 4)];
    let pairs = |h: usize, from| (0..4).map(|i| (4 * h + i, from, 3, 2 * i)).collect();
    let vectors: Vec<Vec<Field>> = match weights::shape(layout).0 {
        8 => (0..8).map(|g| vec![(g, 0, 255, 0)]).collect(),
        4 => (0..4).map(nibbles).collect(),
        5 => [(0..8).map(|g| (g, 4, 1, g)).collect()]
            .into_iter()
            .chain((0..4).map(nibbles))
            .collect(),
        6 => (0..2).flat_map(|h| [pairs(h, 4), nibbles(2 * h), nibbles(2 * h + 1)]).collect(),
        3 => vec![(0..8).map(|g| (g, 2, 1, g)).collect(), pairs(0, 0), pairs(1, 0)],
        _ => vec![pairs(0, 0), pairs(1, 0)],
    };
    for vector in vectors {
        each(out, rows, |row| {
            std::array::from_fn::<u8, 4, _>(|i| {
                let field =
                    |&(g, from, mask, to): &Field| (row.q[k + 4 * g + i] >> from & mask) << to;
                vector.iter().map(field).fold(0, |all, one| all | one)
            })
        });
    }
}

/// A row of `like`'s shape, all zeros.
fn zero(like: &RowCodes) -> RowCodes {
    RowCodes {
        q: vec![0; like.q.len()],
        d: vec![0; like.d.len()],
        m: vec![0; like.m.len()],
        s: vec![0; like.s.len()],
        t: vec![0; like.t.len()],
        z: vec![0; like.z.len()],
        scale: vec![0.0; like.scale.len()],
        f32: vec![0.0; like.f32.len()],
        half: vec![0; like.half.len()],
    }
}

#[test]
fn bytes_are_the_definition() {
    for layout in Layout::ALL {
        for (rows, blocks) in [(1, 1), (16, 2), (17, 3), (40, 5)] {
            let cols = blocks * layout.block();
            let row = |i: usize, codes: &mut RowCodes| weights::row(layout, cols, i, codes);
            let packed = Packed::pack(&Team::new(2), &Room::new(0), layout, rows, cols, &row);
            let mut all = vec![RowCodes::default(); rows];
            all.iter_mut().enumerate().for_each(|(i, codes)| row(i, codes));
            all.resize(rows.next_multiple_of(16), zero(&all[0]));
            let want: Vec<u8> = all.chunks(16).flat_map(|p| panel(layout, cols, p)).collect();
            assert!(packed.bytes() == want, "{layout:?} {rows}x{cols}");
        }
    }
}

/// More than is packed before a source hears of it.
#[test]
fn sources_hear_of_each_row_once() {
    struct Counted(Mutex<Vec<Range<usize>>>);
    impl Source for Counted {
        fn row(&self, i: usize, out: &mut RowCodes) {
            out.f32.clear();
            out.f32.resize(4096, i as f32);
        }
        fn packed(&self, rows: Range<usize>) {
            self.0.lock().unwrap().push(rows);
        }
    }
    let (rows, heard) = (1234, Counted(Mutex::default()));
    let packed = Packed::pack(&Team::new(2), &Room::new(1 << 20), Layout::F32, rows, 4096, &heard);
    let ranges = heard.0.into_inner().unwrap();
    assert!(ranges.len() > 1 && ranges.iter().all(|r| r.len() < rows / 2));
    assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
    let mut row = vec![0.0; 4096];
    for i in [0, 511, 512, rows - 1] {
        packed.row(i, &mut row);
        assert_eq!(row, vec![i as f32; 4096], "row {i}");
    }
}

/// Bytes of a row of 4096, as GGUF's types hold it or near to it.
#[test]
fn sizes_are_the_formats() {
    let blocks = |inputs: usize, bytes: usize| 4096 / inputs * bytes;
    for (layout, bytes) in [
        (Layout::F32, 4096 * 4),
        (Layout::F16, 4096 * 2),
        (Layout::Bf16, 4096 * 2),
        (Layout::W8, blocks(32, 34)),
        (Layout::W8X, blocks(32, 34)),
        (Layout::W8Z, blocks(32, 36)),
        (Layout::W8FZ, blocks(32, 38)),
        (Layout::W8H, blocks(32, 44)),
        (Layout::W8E, blocks(32, 36)),
        (Layout::W2, blocks(32, 10)),
        (Layout::W4, blocks(32, 18)),
        (Layout::W4L, blocks(32, 18)),
        (Layout::W4E, blocks(32, 18)),
        (Layout::W4V, blocks(32, 20)),
        (Layout::W4Z, blocks(32, 19)),
        (Layout::W4B, blocks(32, 19)),
        (Layout::W4H, blocks(32, 26)),
        (Layout::W4N, blocks(32, 20)),
        (Layout::W4P, blocks(32, 20)),
        (Layout::W4M, blocks(32, 20)),
        (Layout::W5, blocks(32, 22)),
        (Layout::W5M, blocks(32, 24)),
        (Layout::W2K, blocks(256, 84)),
        (Layout::W4K, blocks(256, 144)),
        (Layout::W5K, blocks(256, 176)),
        (Layout::W6K, blocks(256, 210)),
        (Layout::W3K, blocks(256, 114)),
        (Layout::W3I1, blocks(256, 106)),
        (Layout::W3I2, blocks(256, 106)),
        (Layout::W4I3, blocks(256, 138)),
        (Layout::W4I3S, blocks(256, 138)),
        (Layout::W4I4, blocks(256, 138)),
    ] {
        assert_eq!(Packed::size(layout, 160, 4096), 160 * bytes, "{layout:?}");
    }
    assert_eq!(Packed::size(Layout::F32, usize::MAX, usize::MAX), usize::MAX);
}

#[test]
#[should_panic(expected = "W4K of 128 inputs")]
fn blocks_are_whole() {
    Packed::pack(
        &Team::new(1),
        &Room::new(0),
        Layout::W4K,
        1,
        128,
        &|_: usize, _: &mut RowCodes| {},
    );
}

#[test]
#[should_panic(expected = "W4 of 64")]
fn rows_are_whole() {
    Packed::pack(
        &Team::new(1),
        &Room::new(0),
        Layout::W4,
        1,
        64,
        &|_: usize, codes: &mut RowCodes| codes.q.resize(32, 0),
    );
}
