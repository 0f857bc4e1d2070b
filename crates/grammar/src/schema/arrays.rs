//! Arrays as rules: items in order, counted where the schema counts them.
use super::rules::{Rules, quoted};
use super::shape::{Arrays, Contains, Places, Shape, both, opposite};
use super::write::{Key, Writer, written};
use crate::notation::{Mark, Quotes};
use std::collections::HashSet;
use std::fmt::Write;

/// Most constants whose arrangements are listed, in a rule for each set of them.
const MOST_UNIQUE: usize = 8;
/// Most rules of an array that counts some of its items.
const MOST_STATES: u64 = 2_000;

impl Arrays {
    /// Places of what lies directly inside.
    pub(super) fn inside(&self) -> Vec<Places> {
        let items = self.prefix.iter().chain(std::iter::once(&self.rest));
        let counted = self.contains.iter();
        let counted =
            counted.flat_map(|c| items.clone().flat_map(|item| [c.yes(item), c.no(item)]));
        items.clone().cloned().chain(counted).collect()
    }
    /// What the i-th item must satisfy.
    pub(super) fn item(&self, i: u64) -> &Places {
        self.prefix.get(i as usize).unwrap_or(&self.rest)
    }
}

impl Contains {
    /// An item that counts.
    fn yes(&self, item: &Places) -> Places {
        both(item, &self.places)
    }
    /// An item that does not: any, where nothing limits those that do.
    fn no(&self, item: &Places) -> Places {
        match (self.max, self.places.first()) {
            (Some(_), Some(place)) => both(item, &opposite(place)),
            _ => item.clone(),
        }
    }
}

/// Items so far, and those of them that count, as far as either matters.
type Seen = (u64, u64);

impl Rules {
    /// Whether any finite array has this shape.
    pub(super) fn array_lives(&self, array: &Arrays) -> bool {
        if let Some(contains) = &array.contains {
            return match self.counts(array, contains) {
                Ok(states) => states.contains(&(0, 0)),
                Err(_) => true,
            };
        }
        let most = match self.constants(array) {
            Some(values) if array.unique => Some(values.len() as u64),
            _ => None,
        };
        self.longest(array).into_iter().chain(most).all(|most| most >= array.min)
    }

    /// Most items that an array can have, if nothing but their places limits them.
    fn longest(&self, array: &Arrays) -> Option<u64> {
        let items = array.prefix.iter().chain(std::iter::once(&array.rest));
        let stop = items.enumerate().find(|(_, p)| !self.lives(p)).map(|(i, _)| i as u64);
        stop.into_iter().chain(array.max).min()
    }

    /// Why the items of an array can't be told apart, if they must be.
    pub(super) fn unlisted(&self, shape: &Shape) -> Option<String> {
        let Shape::Array(array) = shape else { return None };
        let listed = self.constants(array).is_some_and(|values| values.len() <= MOST_UNIQUE);
        (array.unique && (array.contains.is_some() || !listed)).then(|| {
            format!(
                "true needs all earlier items: it is supported where items are up to {MOST_UNIQUE} \
                 constants (enum), without prefixItems and contains; or leave it out"
            )
        })
    }

    /// The texts of an array's items, if they are few and the same at every place.
    fn constants(&self, array: &Arrays) -> Option<Vec<String>> {
        if !array.prefix.is_empty() {
            return None;
        }
        let mut texts: Vec<String> = Vec::new();
        for shape in self.shapes(&array.rest)? {
            match shape {
                Shape::Null => texts.push("null".to_owned()),
                Shape::Bool(b) => texts.push(b.to_string()),
                Shape::String(s) => texts.extend(s.values.as_ref()?.iter().map(|v| quoted(v))),
                Shape::Number(n) => texts.push(n.only()?),
                Shape::Array(_) | Shape::Object(_) => return None,
            }
        }
        texts.sort();
        texts.dedup();
        Some(texts)
    }

    /// Where one more item leads.
    fn steps(&self, array: &Arrays, contains: &Contains, (i, k): Seen) -> Vec<(Places, Seen)> {
        if array.max.is_some_and(|max| i >= max) {
            return Vec::new();
        }
        let next = (i + 1).min(last(array));
        let item = array.item(i);
        let mut all = Vec::new();
        if contains.max.map_or(k < contains.min, |max| k < max) {
            all.push((contains.yes(item), (next, k + 1)));
        }
        all.push((contains.no(item), (next, k)));
        all.retain(|(places, _)| self.lives(places));
        all
    }

    /// The states that an end can be reached from.
    fn counts(&self, array: &Arrays, contains: &Contains) -> Result<HashSet<Seen>, String> {
        let most = contains.max.unwrap_or(contains.min);
        if (last(array) + 1).saturating_mul(most.saturating_add(1)) > MOST_STATES {
            return Err(format!("contains with counts that need more than {MOST_STATES} states"));
        }
        let all = (0..=last(array)).flat_map(|i| (0..=most).map(move |k| (i, k)));
        let all: Vec<Seen> = all.collect();
        let ends = |(i, k): &Seen| *i >= array.min && *k >= contains.min;
        let mut good: HashSet<Seen> = all.iter().copied().filter(ends).collect();
        loop {
            let leads = |seen: &&Seen| {
                let mut steps = self.steps(array, contains, **seen).into_iter();
                !good.contains(*seen) && steps.any(|(_, next)| good.contains(&next))
            };
            let more: Vec<Seen> = all.iter().filter(leads).copied().collect();
            if more.is_empty() {
                return Ok(good);
            }
            good.extend(more);
        }
    }
}

impl Writer<'_> {
    /// `name`_i is what follows i items.
    pub(super) fn array(&mut self, name: &str, array: &Arrays, depth: usize) -> Result<(), String> {
        let rules = self.rules;
        if let Some(contains) = &array.contains {
            return self.counted(name, array, contains, depth);
        }
        if let Some(values) = rules.constants(array).filter(|_| array.unique) {
            self.arrangements(name, array, &values, depth);
            return Ok(());
        }
        let [between, close] = self.begin(name, "0", depth);
        let longest = rules.longest(array);
        let last = array.prefix.len() as u64;
        for i in 0..=last.min(longest.unwrap_or(last)) {
            let mut options = Vec::new();
            if i >= array.min {
                options.push(close.clone());
            }
            if longest.is_none_or(|longest| i < longest) {
                let sep = if i == 0 { "" } else { &between };
                let item = self.item(array.item(i), depth)?;
                let rest = if i < last {
                    format!("{name}_{}", i + 1)
                } else {
                    // The first of the rest, then as many as may follow.
                    let min = array.min.saturating_sub(i + 1);
                    let one = format!("({between} {item})");
                    [&repeated(&one, min, longest.map(|l| l - i - 1)), &close[..]].join(" ")
                };
                options.push([sep, &item, &rest].join(" "));
            }
            let _ = writeln!(self.out, "{name}_{i}: {}", options.join(" | "));
        }
        Ok(())
    }

    /// Begins an array. Returns what is between items and what closes it.
    fn begin(&mut self, name: &str, first: &str, depth: usize) -> [String; 2] {
        let frame = &self.notation(depth).list;
        let open = written(&frame.open);
        let _ = writeln!(self.out, "{name}: {open} {name}_{first}");
        [&frame.between, &frame.close].map(|marks| written(marks))
    }

    fn item(&mut self, places: &Places, depth: usize) -> Result<String, String> {
        self.value(&self.notation(depth).list, depth, &Key::None, places)
    }

    /// `name`_i_k is what follows i items, k of which count.
    fn counted(
        &mut self,
        name: &str,
        array: &Arrays,
        contains: &Contains,
        depth: usize,
    ) -> Result<(), String> {
        let rules = self.rules;
        let good = rules.counts(array, contains)?;
        let [between, close] = self.begin(name, "0_0", depth);
        let mut sorted: Vec<&Seen> = good.iter().collect();
        sorted.sort();
        for (i, k) in sorted {
            let mut options = Vec::new();
            if *i >= array.min && *k >= contains.min {
                options.push(close.clone());
            }
            let sep = if *i == 0 { "" } else { &between };
            for (places, next) in rules.steps(array, contains, (*i, *k)) {
                if good.contains(&next) {
                    let item = self.item(&places, depth)?;
                    options.push(format!("{sep} {item} {name}_{}_{}", next.0, next.1));
                }
            }
            let _ = writeln!(self.out, "{name}_{i}_{k}: {}", options.join(" | "));
        }
        Ok(())
    }

    /// `name`_s is what follows the constants in the set s, whatever their order.
    fn arrangements(&mut self, name: &str, array: &Arrays, values: &[String], depth: usize) {
        let [between, close] = self.begin(name, "0", depth);
        let values: Vec<String> = values.iter().map(|v| self.constant(v, depth)).collect();
        for set in 0u32..1 << values.len() {
            let count = u64::from(set.count_ones());
            let mut options = Vec::new();
            if count >= array.min {
                options.push(close.clone());
            }
            if array.max.is_none_or(|max| count < max) {
                let sep = if count == 0 { "" } else { &between };
                for (i, value) in values.iter().enumerate().filter(|(i, _)| set >> i & 1 == 0) {
                    options.push(format!("{sep} {value} {name}_{}", set | 1 << i));
                }
            }
            if !options.is_empty() && array.max.is_none_or(|max| count <= max) {
                let _ = writeln!(self.out, "{name}_{set}: {}", options.join(" | "));
            }
        }
    }

    /// A constant, given as JSON, as an item.
    fn constant(&self, json: &str, depth: usize) -> String {
        let notation = self.notation(depth);
        let frame = &notation.list;
        let text: Option<String> = serde_json::from_str(json).ok();
        let mut marks = frame.before.clone();
        match (&text, &frame.bare, &notation.quotes) {
            (Some(text), Some(_), _) => marks.push(Mark::Text(text.clone())),
            (Some(text), None, Quotes::Marks(open, end)) => {
                marks.extend([open.clone(), Mark::Text(text.clone()), end.clone()]);
            }
            _ => marks.push(Mark::Text(json.to_owned())),
        }
        if let Some(bare) = &frame.bare {
            marks.extend([Mark::Text(bare.pad.clone()), bare.end.clone()]);
        }
        marks.extend(frame.after.iter().cloned());
        written(&marks)
    }
}

/// How far items are counted.
fn last(array: &Arrays) -> u64 {
    (array.prefix.len() as u64).max(array.min).max(array.max.unwrap_or(0)).max(1)
}

fn repeated(part: &str, min: u64, max: Option<u64>) -> String {
    match (min, max) {
        (_, Some(0)) => String::new(),
        (0, None) => format!("{part}*"),
        (min, None) => format!("{part}{{{min},{min}}} {part}*"),
        (min, Some(max)) => format!("{part}{{{min},{max}}}"),
    }
}
