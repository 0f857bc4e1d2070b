//! What bounds and multiples of decimals look like, digit by digit: expressions for whole texts.
use super::number::{Bound, Decimal, EXACT_DIGITS, MOST_DIGITS};

/// What multiples of `step` are written as, if their last digits tell; `None` if they don't.
pub fn stepped(step: Decimal) -> Result<Option<String>, String> {
    let (mut core, mut zeros) = (step.mantissa, 0);
    while core % 10 == 0 {
        core /= 10;
        zeros += 1;
    }
    // `core` divides 10^tail: the last `tail` digits tell.
    let tail = (0..=3).find(|j| 10i128.pow(*j) % core == 0);
    let fraction = step.scale as usize;
    match tail {
        Some(_) if step.mantissa == 1 && fraction == 0 => {
            Ok(Some(format!("0|-?[1-9][0-9]{{0,{}}}", MOST_DIGITS - 1)))
        }
        Some(tail) if fraction == 0 => Ok(Some(whole_steps(core, tail as usize, zeros))),
        Some(tail) if tail as usize <= fraction => {
            Ok(Some(fraction_steps(core, tail as usize, fraction)))
        }
        _ if fraction == 0 => Ok(None),
        _ => Err(format!(
            "multiples of {} are not supported: those of whole numbers and of fractions that \
             divide a power of ten (0.01, 0.25, 0.5) are",
            step.text()
        )),
    }
}

/// Whole multiples of `core`·10^`zeros`, where `core` divides 10^`tail`.
fn whole_steps(core: i128, tail: usize, zeros: usize) -> String {
    let size = 10i128.pow(tail as u32);
    let tails: Vec<i128> = (0..size / core).map(|k| k * core).collect();
    let pad = "0".repeat(zeros);
    let wide: Vec<String> = tails.iter().map(|t| format!("{t:0>tail$}{pad}")).collect();
    let wide: Vec<String> =
        wide.into_iter().map(|t| t[t.len() - tail - zeros..].to_owned()).collect();
    let small: Vec<String> =
        tails.iter().filter(|t| **t > 0).map(|t| format!("{t}{pad}")).collect();
    let most = (EXACT_DIGITS as usize).saturating_sub(tail + zeros + 1);
    let mut forms = vec![format!("-?[1-9][0-9]{{0,{most}}}({})", wide.join("|")), "0".to_owned()];
    if !small.is_empty() {
        forms.push(format!("-?({})", small.join("|")));
    }
    forms.join("|")
}

/// Multiples of `core`·10^-`fraction`, where `core` divides 10^`tail` and `tail` ≤ `fraction`.
fn fraction_steps(core: i128, tail: usize, fraction: usize) -> String {
    let size = 10i128.pow(tail as u32);
    let tails: Vec<String> = (0..size / core).map(|k| format!("{:0>tail$}", k * core)).collect();
    let mut forms = vec![String::new()];
    for shown in 1..=fraction {
        let head = (fraction - tail).min(shown);
        let width = shown - head;
        let mut ends: Vec<&str> = tails
            .iter()
            .map(|t| &t[t.len() - tail..])
            .filter(|t| t[width..].bytes().all(|b| b == b'0'))
            .map(|t| &t[..width])
            .collect();
        ends.dedup();
        forms.push(format!(r"\.[0-9]{{{head}}}({})", ends.join("|")));
    }
    let whole = (EXACT_DIGITS as usize).saturating_sub(fraction + 1);
    format!("-?(0|[1-9][0-9]{{0,{whole}}})({})", forms.join("|"))
}

/// Numbers at least `bound`, or, `mirrored`, at most its negative.
pub fn above(bound: Bound, mirrored: bool) -> String {
    let (sign, other) = if mirrored { ("-", "") } else { ("", "-") };
    let any = r"[0-9]+(\.[0-9]+)?";
    let zero = r"0(\.0+)?";
    if bound.at.mantissa > 0 {
        return format!("{sign}({})", least(bound));
    }
    if bound.at.mantissa < 0 {
        return format!("{sign}{any}|{other}({})|{zero}", most(bound));
    }
    match (bound.open, mirrored) {
        (false, false) => any.to_owned(),
        (false, true) => format!("-{any}|{zero}"),
        (true, _) => format!("{sign}({})", least(bound)),
    }
}

/// Unsigned numbers at least (or, open, above) `bound`, which is not negative.
fn least(bound: Bound) -> String {
    let (whole, fraction) = bound.at.digits();
    let rest = r"(\.[0-9]+)?";
    let mut forms = Vec::new();
    // More digits before the point; zero has the same number as the other digits.
    forms.push(format!("[1-9][0-9]{{{},}}{rest}", whole.len()));
    for (i, d) in whole.bytes().enumerate() {
        if d < b'9' {
            let (head, after) = (&whole[..i], whole.len() - i - 1);
            forms.push(format!("{head}[{}-9][0-9]{{{after}}}{rest}", (d + 1) as char));
        }
    }
    let tail = fraction_least(&fraction, bound.open);
    forms.push(format!("{whole}{tail}"));
    forms.join("|")
}

fn fraction_least(fraction: &str, open: bool) -> String {
    match (fraction.is_empty(), open) {
        (true, false) => return r"(\.[0-9]+)?".to_owned(),
        (true, true) => return r"\.0*[1-9][0-9]*".to_owned(),
        _ => {}
    }
    let mut forms = Vec::new();
    for (i, d) in fraction.bytes().enumerate() {
        if d < b'9' {
            forms.push(format!("{}[{}-9][0-9]*", &fraction[..i], (d + 1) as char));
        }
    }
    let equal = if open { "0*[1-9][0-9]*" } else { "[0-9]*" };
    forms.push(format!("{fraction}{equal}"));
    format!(r"\.({})", forms.join("|"))
}

/// Unsigned numbers at most (or, open, below) the size of `bound`.
fn most(bound: Bound) -> String {
    let (whole, fraction) = bound.at.digits();
    let rest = r"(\.[0-9]+)?";
    let mut forms = Vec::new();
    for (i, d) in whole.bytes().enumerate() {
        let least = if i == 0 && whole.len() > 1 { b'1' } else { b'0' };
        if d > least {
            let (head, after) = (&whole[..i], whole.len() - i - 1);
            let range = format!("[{}-{}]", least as char, (d - 1) as char);
            forms.push(format!("{head}{range}[0-9]{{{after}}}{rest}"));
        }
    }
    if whole.len() > 1 {
        forms.push(format!("(0|[1-9][0-9]{{0,{}}}){rest}", whole.len() - 2));
    }
    let mut below = Vec::new();
    for (i, d) in fraction.bytes().enumerate() {
        if d > b'0' {
            below.push(format!("{}[0-{}][0-9]*", &fraction[..i], (d - 1) as char));
        }
        if i > 0 {
            // Fewer digits, the others being zero.
            below.push(fraction[..i].to_owned());
        }
    }
    if !bound.open {
        below.push(format!("{fraction}0*"));
    }
    if !fraction.is_empty() {
        forms.push(format!(r"{whole}(\.({}))?", below.join("|")));
    } else if !bound.open {
        forms.push(format!(r"{whole}(\.0+)?"));
    }
    if forms.is_empty() { r"[^\x{0}-\x{10FFFF}]".to_owned() } else { forms.join("|") }
}
