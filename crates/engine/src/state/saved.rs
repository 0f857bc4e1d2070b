//! What the prefix tree holds, as bytes: node after node, parents first, each with its tokens, what is
//! used of its pages, and its recurrent states.
use super::pages::Pages;
use super::prefix::Path;
use super::table::NONE;
use crate::batch::TokenId;
use rinfer_kernels::kv::PAGE;
use std::io::{self, Read, Write};

/// Writes the nodes of `tokens`, or all. Returns how many positions they hold.
pub(super) fn save(
    all: &Pages,
    tokens: Option<&[TokenId]>,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let paths: Vec<Path> = match tokens {
        Some(tokens) => (0..all.kinds()).map(|kind| all.prefix.find(kind, tokens)).collect(),
        None => vec![Path { nodes: all.prefix.all(), len: usize::MAX }],
    };
    let cut = |path: &Path| path.nodes.iter().map(|id| (*id, path.len)).collect::<Vec<_>>();
    let nodes: Vec<(usize, usize)> = paths.iter().flat_map(cut).collect();
    word(out, nodes.len())?;
    let mut positions = 0;
    for (id, most) in &nodes {
        let node = all.prefix.node(*id);
        let tokens = &node.tokens[..node.tokens.len().min(most - node.depth)];
        let states = || node.states.iter().filter(|state| state.len <= *most);
        let parent = nodes.iter().position(|(id, _)| Some(*id) == node.parent);
        word(out, parent.map_or(0, |parent| parent + 1))?;
        word(out, node.kind)?;
        word(out, tokens.len())?;
        tokens.iter().try_for_each(|id| word(out, id.0 as usize))?;
        node.pages.iter().try_for_each(|page| word(out, usize::from(*page != NONE)))?;
        word(out, states().count())?;
        states().try_for_each(|state| word(out, state.len))?;
        for layer in &all.cache.layers {
            let page = node.pages[layer.group];
            let used = if page == NONE { Vec::new() } else { layer.pool.used(tokens.len()) };
            used.into_iter().try_for_each(|at| out.write_all(&layer.pool.page(page)[at]))?;
        }
        for x in states().flat_map(|state| all.recurrent.rows(state.cell)).flatten() {
            out.write_all(&x.to_le_bytes())?;
        }
        positions += tokens.len();
    }
    Ok(positions)
}

/// Adds nodes to the tree, all of them or none. Returns how many positions they hold.
///
/// # Errors
/// Bytes that are no nodes, or for which there is no room.
pub(super) fn restore(all: &mut Pages, from: &mut dyn Read) -> Result<usize, String> {
    let use_ = all.prefix.begin();
    let mut added = Vec::new();
    let restored = Restoring { all, from, use_, ids: Vec::new(), added: &mut added }.nodes();
    if restored.is_err() {
        for id in added.into_iter().rev() {
            all.prefix.drop(id, &mut all.groups, &mut all.recurrent);
        }
    }
    restored
}

struct Restoring<'a> {
    all: &'a mut Pages,
    from: &'a mut dyn Read,
    /// Nodes of this use or later are not given up for others.
    use_: u64,
    /// Of the nodes so far.
    ids: Vec<usize>,
    /// Those that were not there before.
    added: &'a mut Vec<usize>,
}

/// What a node says of itself.
struct Record {
    parent: Option<usize>,
    kind: usize,
    tokens: Vec<TokenId>,
    /// By group: whether it has a page.
    pages: Vec<bool>,
    states: Vec<usize>,
}

impl Restoring<'_> {
    fn nodes(&mut self) -> Result<usize, String> {
        let mut positions = 0;
        for _ in 0..self.number()? {
            let record = self.record()?;
            let parts = (&mut self.all.groups, &mut self.all.recurrent);
            let placed =
                self.all.prefix.place(record.parent, record.kind, &record.tokens, parts.0, parts.1);
            let (id, there) = placed.ok_or_else(|| self.no_room("pages"))?;
            self.ids.push(id);
            if !there {
                self.added.push(id);
            }
            self.pages(id, &record)?;
            self.states(id, &record)?;
            positions += record.tokens.len();
        }
        match self.from.read(&mut [0]) {
            Ok(0) => Ok(positions),
            _ => Err("there is more behind its end".into()),
        }
    }

    fn record(&mut self) -> Result<Record, String> {
        let parent = self.number()?.checked_sub(1);
        let kind = self.number()?;
        let len = self.number()?;
        let parent = match parent {
            None => None,
            Some(i) => Some(*self.ids.get(i).ok_or_else(|| damaged("a node's parent", i))?),
        };
        let above = parent.map(|id| self.all.prefix.node(id));
        let depth = above.map_or(0, |node| node.depth + PAGE);
        if kind >= self.all.kinds() || above.is_some_and(|node| node.kind != kind) {
            return Err(damaged("a prompt's kind", kind));
        }
        let leaf = above.is_some_and(|node| node.tokens.len() < PAGE);
        if leaf || len == 0 || len > PAGE {
            return Err(damaged("a page's number of tokens", len));
        }
        if depth + len > self.all.context {
            let context = self.all.context;
            return Err(format!(
                "it has {} positions in a row, the context {context}: load the model with more",
                depth + len
            ));
        }
        let tokens = self.numbers(len)?.into_iter().map(|id| TokenId(id as u32)).collect();
        let pages = self.numbers(self.all.groups.len())?.into_iter().map(|n| n != 0).collect();
        let states = self.number()?;
        if states > len {
            return Err(damaged("a page's number of states", states));
        }
        let states = self.numbers(states)?;
        if let Some(at) = states.iter().find(|at| !(depth + 1..=depth + len).contains(*at)) {
            return Err(damaged("a state's position", *at));
        }
        Ok(Record { parent, kind, tokens, pages, states })
    }

    /// Reads a node's pages, to those that it lacks.
    fn pages(&mut self, id: usize, record: &Record) -> Result<(), String> {
        let len = record.tokens.len();
        let node = self.all.prefix.node(id);
        let whole = node.tokens.len() == len;
        let lacks = |(held, page): (&bool, &u32)| *held && whole && *page == NONE;
        let wanted: Vec<bool> = record.pages.iter().zip(&node.pages).map(lacks).collect();
        for g in (0..wanted.len()).filter(|g| wanted[*g]) {
            let all = &mut *self.all;
            while all.groups[g].free() == 0
                && all.prefix.spare_page(g, self.use_, &mut all.groups, &mut all.recurrent)
            {
            }
            let page = all.groups[g].take().ok_or_else(|| self.no_room("pages"))?;
            self.all.prefix.add_page(id, g, page);
        }
        let mut bytes = Vec::new();
        for i in 0..self.all.cache.layers.len() {
            let layer = &mut self.all.cache.layers[i];
            if !record.pages[layer.group] {
                continue;
            }
            bytes.resize(len * layer.pool.position_bytes(), 0);
            self.from.read_exact(&mut bytes).map_err(|e| cut(&e))?;
            if !wanted[layer.group] {
                continue;
            }
            let page = self.all.prefix.node(id).pages[layer.group];
            layer.pool.prepare(page);
            let mut rest = &bytes[..];
            for at in layer.pool.used(len) {
                let (part, behind) = rest.split_at(at.len());
                layer.pool.page_mut(page)[at].copy_from_slice(part);
                rest = behind;
            }
        }
        Ok(())
    }

    /// Reads a node's states, to those that it lacks.
    fn states(&mut self, id: usize, record: &Record) -> Result<(), String> {
        for len in &record.states {
            let all = &mut *self.all;
            if all.recurrent.full() {
                all.prefix.spare_state(self.use_, &mut all.recurrent);
            }
            let cell = all.recurrent.take().ok_or_else(|| self.no_room("recurrent states"))?;
            let all = &mut *self.all;
            let mut word = [0; 4];
            let mut read = Ok(());
            for x in all.recurrent.rows_mut(cell).flatten() {
                read = read.and_then(|()| self.from.read_exact(&mut word));
                *x = f32::from_le_bytes(word);
            }
            if read.is_err() || all.prefix.node(id).states.iter().any(|state| state.len == *len) {
                all.recurrent.release(cell);
            } else {
                all.prefix.add_state(id, *len, cell);
            }
            read.map_err(|e| cut(&e))?;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<usize, String> {
        let mut word = [0; 4];
        self.from.read_exact(&mut word).map_err(|e| cut(&e))?;
        Ok(u32::from_le_bytes(word) as usize)
    }
    fn numbers(&mut self, n: usize) -> Result<Vec<usize>, String> {
        (0..n).map(|_| self.number()).collect()
    }
    fn no_room(&self, what: &str) -> String {
        let positions = self.all.prefix.positions();
        format!(
            "there is no room for all its {what} (for those of {positions} positions there is): load \
             the model with more"
        )
    }
}

/// Numbers are of four bytes.
fn word(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let n = u32::try_from(n).map_err(|_| io::Error::other("a number beyond 32 bits"))?;
    out.write_all(&n.to_le_bytes())
}

fn damaged(what: &str, found: usize) -> String {
    format!("it is damaged: {what} is {found}")
}

fn cut(error: &io::Error) -> String {
    format!("it can't be read to its end: {error}")
}
