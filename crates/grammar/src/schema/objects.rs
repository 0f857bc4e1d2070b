//! Objects as rules: properties in order, counted where the schema counts them.
use super::rules::Rules;
use super::shape::{Keys, Objects, Places};
use super::strings;
use super::write::{Key, Writer, written};
use std::fmt::Write;

/// Most named properties, most properties that are counted, and most rules of an object.
const MOST_NAMED: usize = 5_000;
const MOST_COUNTED: u64 = 64;
const MOST_STATES: usize = 20_000;

/// An object without what can't be there.
struct Plan<'a> {
    /// Name, its places, whether it is required.
    named: Vec<(&'a str, &'a Places, bool)>,
    /// How many from each on are required.
    required: Vec<u64>,
    /// Keys that are not named, and their places.
    other: Vec<(&'a Keys, &'a Places)>,
    min: u64,
    max: Option<u64>,
    /// How far properties are counted.
    cap: u64,
}

/// Properties seen, and whether any of them was not named.
#[derive(Clone, Copy)]
struct Seen {
    count: u64,
    other: bool,
}

impl Plan<'_> {
    fn more(&self, seen: Seen) -> bool {
        self.max.is_none_or(|max| seen.count < max)
    }
    /// Properties seen after one more. What was not named counts once: its keys may be the same.
    fn after(&self, seen: Seen, other: bool) -> Seen {
        let twice = other && seen.other && self.max.is_none();
        let count = if twice { seen.count } else { seen.count + 1 };
        Seen { count: count.min(self.cap), other: other || seen.other }
    }
    /// Whether an end can be reached from before property `i`.
    fn ends(&self, i: usize, seen: Seen) -> bool {
        if self.max.is_some_and(|max| seen.count + self.required[i] > max) {
            return false;
        }
        let mut most = seen.count + (self.named.len() - i) as u64;
        if !self.other.is_empty() && !seen.other {
            most += 1;
        }
        most.min(self.max.unwrap_or(most)) >= self.min
    }
}

impl Rules {
    /// Whether any finite object has this shape.
    pub(super) fn object_lives(&self, object: &Objects) -> bool {
        let Ok(object) = object.clone().spelled_out() else { return true };
        let named = object.named.iter().all(|(name, places)| {
            !object.required.contains(name) || (self.lives(places) && allowed(&object, name))
        });
        let Ok(plan) = self.plan(&object) else { return named };
        named && plan.ends(0, Seen { count: 0, other: false })
    }

    fn plan<'a>(&self, object: &'a Objects) -> Result<Plan<'a>, String> {
        let named: Vec<(&str, &Places, bool)> = object
            .named
            .iter()
            .filter(|(name, places)| self.lives(places) && allowed(object, name))
            .map(|(name, places)| (name.as_str(), places, object.required.contains(name)))
            .collect();
        let taken: Vec<String> = object.named.iter().map(|(n, _)| n.clone()).collect();
        let mut other = Vec::new();
        for (keys, places) in object.other.iter().filter(|(_, p)| self.lives(p)) {
            if !keys.is_empty(&taken, &object.names)? {
                other.push((keys, places));
            }
        }
        if named.len() > MOST_NAMED {
            return Err(format!("an object has more than {MOST_NAMED} properties"));
        }
        let counted = object.max.unwrap_or(object.min);
        if counted > MOST_COUNTED && counted < u64::from(u32::MAX) {
            return Err(format!("minProperties and maxProperties above {MOST_COUNTED}"));
        }
        let mut from = vec![0; named.len() + 1];
        for (i, (.., needed)) in named.iter().enumerate().rev() {
            from[i] = from[i + 1] + u64::from(*needed);
        }
        let required = from[0];
        let min = if object.min <= required { 0 } else { object.min };
        if min > required + 1 && !other.is_empty() {
            return Err("minProperties where keys that are not named must tell each other apart: \
                        name the properties, or set additionalProperties to false"
                .to_owned());
        }
        let cap = object.max.unwrap_or(min).max(1);
        Ok(Plan { named, required: from, other, min, max: object.max, cap })
    }
}

impl Writer<'_> {
    /// `name`_i_k is what follows the properties before the i-th, k of which are there.
    pub(super) fn object(
        &mut self,
        name: &str,
        object: &Objects,
        depth: usize,
    ) -> Result<(), String> {
        let object = object.clone().spelled_out()?;
        let (rules, frame) = (self.rules, &self.notation(depth).object);
        let mut plan = rules.plan(&object)?;
        if plan.named.len() * (plan.cap as usize + 1) > MOST_STATES {
            return Err(format!("an object has more than {MOST_STATES} states"));
        }
        if frame.named {
            plan.other.clear();
        }
        let (named, unnamed) = self.values(&object, &plan, depth)?;
        let [between, close] = [&frame.between, &frame.close].map(|marks| written(marks));
        let first = Seen { count: 0, other: false };
        let open = written(&frame.open);
        let _ = writeln!(self.out, "{name}: {open} {}", state(name, 0, first));
        let mut open = vec![(0, first)];
        let mut done = std::collections::HashSet::new();
        while let Some((i, seen)) = open.pop() {
            if !done.insert((i, seen.count, seen.other)) {
                continue;
            }
            let sep = if seen.count == 0 { "" } else { &between };
            let mut options = Vec::new();
            let mut go = |i: usize, next: Seen, before: &str| {
                if plan.ends(i, next) {
                    let sep = if before.is_empty() { "" } else { sep };
                    options.push([sep, before, &state(name, i, next)].join(" "));
                    open.push((i, next));
                }
            };
            if let Some(value) = named.get(i) {
                if let Some(value) = value.as_ref().filter(|_| plan.more(seen)) {
                    go(i + 1, plan.after(seen, false), value);
                }
                if !plan.named[i].2 {
                    go(i + 1, seen, "");
                }
            } else {
                for value in unnamed.iter().filter(|_| plan.more(seen)) {
                    go(i, plan.after(seen, true), value);
                }
                if seen.count >= plan.min {
                    options.push(close.clone());
                }
            }
            let _ = writeln!(self.out, "{}: {}", state(name, i, seen), options.join(" | "));
        }
        Ok(())
    }
}

type Values = (Vec<Option<String>>, Vec<String>);

impl Writer<'_> {
    /// The plan's properties with their values, those that can't be written left out; and what else
    /// there may be.
    fn values(&mut self, object: &Objects, plan: &Plan, depth: usize) -> Result<Values, String> {
        let notation = self.notation(depth);
        let frame = &notation.object;
        let taken: Vec<String> = object.named.iter().map(|(name, _)| name.clone()).collect();
        let mut unnamed = Vec::new();
        for (set, places) in &plan.other {
            let (keys, without) = (&notation.keys, &notation.without);
            let key = Key::Any(strings::key(keys, set, &taken, &object.names, without)?);
            unnamed.push(self.value(frame, depth, &key, places)?);
        }
        let mut named = Vec::new();
        for (key, places, required) in &plan.named {
            named.push(match notation.keys.spelled(key) {
                Some(spelled) => {
                    let key = Key::Named { name: (*key).to_owned(), spelled };
                    Some(self.value(frame, depth, &key, places)?)
                }
                None if *required => {
                    return Err(format!("the key {key:?} can't be written in this notation"));
                }
                None => None,
            });
        }
        Ok((named, unnamed))
    }
}

fn state(name: &str, i: usize, seen: Seen) -> String {
    format!("{name}_{i}_{}{}", seen.count, if seen.other { "x" } else { "" })
}

/// Whether the object's names allow this one.
fn allowed(object: &Objects, name: &str) -> bool {
    object.names.iter().all(|names| names.hold(name).unwrap_or(false))
}
