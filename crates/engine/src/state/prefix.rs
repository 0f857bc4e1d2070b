//! What sequences leave to later ones that begin with the same tokens: a tree whose nodes are pages.
//!
//! A node is a page's tokens, and refers to that page in every group and to the recurrent states that
//! were copied within it; it holds no data. A node with fewer tokens than a page has no children, and
//! siblings may begin alike, so that any token may be where sequences part. Whoever begins with a
//! page shares it until it is written to. All of it is given up, the least recently used first, when
//! a running sequence needs the room.
use super::recurrent::Recurrent;
use super::table::{Group, NONE, pages};
use crate::batch::TokenId;
use rinfer_kernels::kv::PAGE;
use std::collections::BTreeMap;

/// The tree.
pub(crate) struct Prefix {
    nodes: Vec<Node>,
    vacant: Vec<usize>,
    /// By kind of prompt.
    roots: Vec<Vec<usize>>,
    /// Positions held.
    positions: usize,
    /// Counts uses.
    now: u64,
    /// Nodes that there may be.
    most: usize,
}

/// A page.
#[derive(Default)]
pub(crate) struct Node {
    /// None at the root.
    pub parent: Option<usize>,
    /// Of the prompt.
    pub kind: usize,
    /// Of the sequence before its first token: whole pages.
    pub depth: usize,
    children: Vec<usize>,
    /// At most a page's; none if the node is vacant.
    pub tokens: Vec<TokenId>,
    /// By group; [`NONE`] where a window has moved on.
    pub pages: Vec<u32>,
    pub states: Vec<Held>,
    used: u64,
}

/// A recurrent state.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    /// After so many positions of the sequence.
    pub len: usize,
    pub cell: usize,
    used: u64,
}

/// Where tokens lead.
pub(crate) struct Path {
    /// From the root on.
    pub nodes: Vec<usize>,
    /// Tokens on the way.
    pub len: usize,
}

impl Prefix {
    /// An empty one, for prompts of so many kinds and nodes of so many groups.
    pub fn new(kinds: usize, most: usize) -> Prefix {
        let roots = vec![Vec::new(); kinds];
        Prefix { nodes: Vec::new(), vacant: Vec::new(), roots, positions: 0, now: 0, most }
    }
    /// A node.
    pub fn node(&self, id: usize) -> &Node {
        &self.nodes[id]
    }
    /// Positions held.
    pub fn positions(&self) -> usize {
        self.positions
    }
    /// All nodes, parents first.
    pub fn all(&self) -> Vec<usize> {
        let mut all = self.roots.concat();
        let mut next = 0;
        while let Some(id) = all.get(next) {
            all.extend(&self.nodes[*id].children);
            next += 1;
        }
        all
    }
    /// As far as `tokens` are in the tree.
    pub fn find(&self, kind: usize, tokens: &[TokenId]) -> Path {
        let mut path = Path { nodes: Vec::new(), len: 0 };
        while path.len.is_multiple_of(PAGE) {
            let rest = &tokens[path.len..];
            let alike = |id: &usize| common(&self.nodes[*id].tokens, rest);
            let children = self.children(path.nodes.last().copied(), kind).iter();
            match children
                .map(|id| (alike(id), *id))
                .max_by_key(|(n, id)| (*n, self.nodes[*id].used))
            {
                Some((n, id)) if n > 0 => {
                    path.nodes.push(id);
                    path.len += n;
                }
                _ => break,
            }
        }
        path
    }
    /// How much of a path a sequence can go on from: that far, or at the end of a page, or, if `only` at
    /// states, there; where no window lacks a page.
    pub fn usable(&self, path: &Path, groups: &[Group], only: bool) -> usize {
        let held = |len: usize| {
            let page = |i: usize, g: usize| self.nodes[path.nodes[i]].pages[g];
            let complete =
                |(g, group): (usize, &Group)| pages(group.seen(len)).all(|i| page(i, g) != NONE);
            groups.iter().enumerate().all(complete)
        };
        let mut ends: Vec<usize> = if only {
            let states = path.nodes.iter().flat_map(|id| &self.nodes[*id].states);
            states.map(|state| state.len).filter(|len| *len <= path.len).collect()
        } else {
            (PAGE..=path.len).step_by(PAGE).chain([path.len]).collect()
        };
        ends.sort_unstable();
        ends.into_iter().rev().find(|len| held(*len)).unwrap_or(0)
    }
    /// Notes that a path is used as far as `len`. Returns the cell of the state there, if there is one.
    pub fn touch(&mut self, path: &Path, len: usize) -> Option<usize> {
        self.now += 1;
        let mut cell = None;
        for id in &path.nodes[..len.div_ceil(PAGE)] {
            let node = &mut self.nodes[*id];
            node.used = self.now;
            if let Some(state) = node.states.iter_mut().find(|state| state.len == len) {
                state.used = self.now;
                cell = Some(state.cell);
            }
        }
        cell
    }
    /// Adds the `tokens` that a slot holds, with its pages and copies of states. Where the tree has such a
    /// page, the slot takes that one instead of its own.
    pub fn insert(
        &mut self,
        kind: usize,
        tokens: &[TokenId],
        slot: usize,
        groups: &mut [Group],
        recurrent: &mut Recurrent,
    ) {
        self.now += 1;
        let mut parent = None;
        for (i, part) in tokens.chunks(PAGE).enumerate() {
            let Some((id, _)) = self.place(parent, kind, part, groups, recurrent) else { return };
            let node = &mut self.nodes[id];
            for (g, group) in groups.iter_mut().enumerate() {
                let (own, held) = (group.page(slot, i), node.pages[g]);
                if own == NONE || own == held || part.len() < node.tokens.len() {
                    continue;
                }
                if held == NONE {
                    group.hold(own);
                    node.pages[g] = own;
                } else if part.len() == PAGE {
                    group.swap(slot, i, held);
                }
            }
            let within = i * PAGE + 1..=i * PAGE + part.len();
            for copy in recurrent.copies(slot).to_vec() {
                if within.contains(&copy.len) && node.states.iter().all(|s| s.len != copy.len) {
                    recurrent.hold(copy.cell);
                    node.states.push(Held { len: copy.len, cell: copy.cell, used: self.now });
                }
            }
            parent = Some(id);
        }
    }
    /// The child of `parent` that begins with a page's tokens, which may be new (without pages) or one
    /// with fewer of them before (which then loses its page), and whether it has what it had; none if
    /// there is no room.
    pub fn place(
        &mut self,
        parent: Option<usize>,
        kind: usize,
        tokens: &[TokenId],
        groups: &mut [Group],
        recurrent: &mut Recurrent,
    ) -> Option<(usize, bool)> {
        let children = || self.children(parent, kind).iter().copied();
        let covers = children().find(|id| self.nodes[*id].tokens.starts_with(tokens));
        let shorter = children().find(|id| tokens.starts_with(&self.nodes[*id].tokens));
        let (id, whole) = match (covers, shorter) {
            (Some(id), _) => (id, true),
            (None, Some(id)) => {
                let node = &mut self.nodes[id];
                self.positions += tokens.len() - node.tokens.len();
                node.tokens = tokens.to_vec();
                for (group, page) in groups.iter_mut().zip(&mut node.pages) {
                    group.release(std::mem::replace(page, NONE));
                }
                (id, false)
            }
            (None, None) => {
                if self.nodes.len() - self.vacant.len() >= self.most {
                    let old = self.leaf(|node| node.used < self.now)?;
                    self.drop(old, groups, recurrent);
                }
                (self.add(parent, kind, tokens, groups.len()), false)
            }
        };
        self.nodes[id].used = self.now;
        Some((id, whole))
    }
    fn add(
        &mut self,
        parent: Option<usize>,
        kind: usize,
        tokens: &[TokenId],
        groups: usize,
    ) -> usize {
        let depth = parent.map_or(0, |id| self.nodes[id].depth + PAGE);
        let node = Node {
            parent,
            kind,
            depth,
            tokens: tokens.to_vec(),
            pages: vec![NONE; groups],
            ..Node::default()
        };
        self.positions += tokens.len();
        let id = self.vacant.pop().unwrap_or(self.nodes.len());
        if id == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[id] = node;
        }
        self.children_mut(parent, kind).push(id);
        id
    }
    /// Gives a node a page that was taken for it.
    pub fn add_page(&mut self, id: usize, group: usize, page: u32) {
        self.nodes[id].pages[group] = page;
    }
    /// Gives a node a state that was taken for it.
    pub fn add_state(&mut self, id: usize, len: usize, cell: usize) {
        self.nodes[id].states.push(Held { len, cell, used: self.now });
    }
    /// Begins a use: that of what is placed next. Returns its number.
    pub fn begin(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
    /// Pages of group `g` that the tree alone holds, counted up to `most`.
    pub fn lent_up_to(&self, g: usize, group: &Group, most: usize) -> usize {
        self.nodes.iter().filter(|node| node.lends(g, group)).take(most).count()
    }
    /// Gives up the node without children that holds a page of group `g`, if one does.
    pub fn yield_page(
        &mut self,
        g: usize,
        page: u32,
        groups: &mut [Group],
        recurrent: &mut Recurrent,
    ) {
        let holds = |node: &Node| page != NONE && node.pages.get(g) == Some(&page);
        if let Some(id) = self.leaf(holds) {
            self.drop(id, groups, recurrent);
        }
    }
    /// Gives up a page of group `g` that was not used since use `before`, the least recently used; false if
    /// there is none. Where queries see all positions, its node goes with it.
    pub fn spare_page(
        &mut self,
        g: usize,
        before: u64,
        groups: &mut [Group],
        recurrent: &mut Recurrent,
    ) -> bool {
        if groups[g].whole() {
            let alone = self.leaf(|node| node.used < before && node.lends(g, &groups[g]));
            let Some(id) = alone.or_else(|| self.leaf(|node| node.used < before)) else {
                return false;
            };
            self.drop(id, groups, recurrent);
            return true;
        }
        let lent = |node: &&mut Node| node.used < before && node.lends(g, &groups[g]);
        let Some(node) = self.nodes.iter_mut().filter(lent).min_by_key(|node| node.used) else {
            return false;
        };
        groups[g].release(std::mem::replace(&mut node.pages[g], NONE));
        true
    }
    /// Gives up a state that the tree alone holds and that was not used since use `before`, the least
    /// recently used; false if there is none. Nodes that begin alike may have it in common.
    pub fn spare_state(&mut self, before: u64, recurrent: &mut Recurrent) -> bool {
        let mut held: BTreeMap<usize, (u32, u64)> = BTreeMap::new();
        for state in self.nodes.iter().flat_map(|node| &node.states) {
            let (count, used) = held.entry(state.cell).or_default();
            (*count, *used) = (*count + 1, state.used.max(*used));
        }
        let spare = |(cell, (count, used)): &(&usize, &(u32, u64))| {
            *used < before && recurrent.owners(**cell) == *count
        };
        let oldest = held.iter().filter(spare).min_by_key(|(_, (_, used))| *used);
        let Some((cell, (count, _))) = oldest else { return false };
        self.nodes.iter_mut().for_each(|node| node.states.retain(|state| state.cell != *cell));
        (0..*count).for_each(|_| recurrent.release(*cell));
        true
    }
    /// Takes a node without children out.
    pub fn drop(&mut self, id: usize, groups: &mut [Group], recurrent: &mut Recurrent) {
        let node = std::mem::take(&mut self.nodes[id]);
        self.positions -= node.tokens.len();
        groups.iter_mut().zip(node.pages).for_each(|(group, page)| group.release(page));
        node.states.iter().for_each(|state| recurrent.release(state.cell));
        self.children_mut(node.parent, node.kind).retain(|child| *child != id);
        self.vacant.push(id);
    }
    /// The least recently used node without children, of those that `may` go.
    fn leaf(&self, may: impl Fn(&Node) -> bool) -> Option<usize> {
        let leaf = |node: &Node| !node.tokens.is_empty() && node.children.is_empty() && may(node);
        let leaves = self.nodes.iter().enumerate().filter(|(_, node)| leaf(node));
        leaves.min_by_key(|(_, node)| node.used).map(|(id, _)| id)
    }
    fn children(&self, parent: Option<usize>, kind: usize) -> &[usize] {
        parent.map_or(&self.roots[kind], |id| &self.nodes[id].children)
    }
    fn children_mut(&mut self, parent: Option<usize>, kind: usize) -> &mut Vec<usize> {
        match parent {
            Some(id) => &mut self.nodes[id].children,
            None => &mut self.roots[kind],
        }
    }
}

impl Node {
    /// Whether it has a page of group `g` that nobody else holds.
    fn lends(&self, g: usize, group: &Group) -> bool {
        self.pages.get(g).is_some_and(|page| *page != NONE && group.owners(*page) == 1)
    }
}

/// How many tokens both begin with.
fn common(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
