//! `rinfer models`: what is in the cache, the pinned names, and what a repository has.
use super::{Environment, put};
use rinfer::hub::{Cache, Choice, DEMOS, Demo, Here, Hub, Repo, bytes, models};
use rinfer_engine::memory;
use serde_json::{Value, json};
use std::path::Path;

/// List models: those here, and the pinned demo: names; or what hf:owner/repo has
#[derive(clap::Args, Debug)]
pub struct Args {
    /// List what this repository has on the hub: hf:OWNER/REPO[@REVISION]
    #[arg(value_name = "REF")]
    repository: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let hub = env.hub()?;
    match &args.repository {
        Some(text) => repository(&hub, text, args.json),
        None => here(&hub, args.json),
    }
}

/// What a repository has, and what of it fits this machine by its size.
fn repository(hub: &Hub, text: &str, as_json: bool) -> anyhow::Result<()> {
    let listing = hub.list(text)?;
    let all = models(&listing);
    let room = memory::available(Path::new("/"));
    if as_json {
        let model = |choice: &Choice| {
            json!({
                "reference": format!("hf:{}:{}", listing.repo, tag(choice)), "quant": choice.tag, "bytes": choice.bytes(),
                "files": choice.files.iter().map(|file| &file.path).collect::<Vec<_>>(), "fits": fits(choice.bytes(), room),
            })
        };
        let report = json!({
            "repository": listing.repo.to_string(), "commit": listing.commit, "licence": listing.licence,
            "available_bytes": room, "models": all.iter().map(model).collect::<Vec<_>>(),
        });
        return put(&format!("{report:#}\n"));
    }
    let licence = listing.licence.as_deref().unwrap_or("not stated");
    let mut text = format!("{} at {}; licence: {licence}\n", listing.repo, &listing.commit[..12]);
    for choice in &all {
        let fits = match fits(choice.bytes(), room) {
            Some(true) => "fits",
            Some(false) => "too large for the memory here",
            None => "",
        };
        let files = choice.files.len();
        let files = if files > 1 { format!("{files} files") } else { String::new() };
        text += &format!(
            "  hf:{}:{:<14} {:>7}  {files:<9} {fits}\n",
            listing.repo,
            tag(choice),
            bytes(choice.bytes())
        );
    }
    if all.is_empty() {
        text += &format!("  {} files, and no model among them\n", listing.files.len());
    }
    put(&text)
}

pub fn tag(choice: &Choice) -> &str {
    choice.tag.as_deref().unwrap_or("safetensors")
}

/// Whether a model of this size can be loaded here: loading takes at most 1.15 times its file and state. A short context's
/// state is small beside the weights.
pub fn fits(bytes: u64, room: Option<usize>) -> Option<bool> {
    let room = room? as u64;
    Some(bytes / 100 * 115 <= room)
}

/// What is here, ours and others', and the pinned names.
fn here(hub: &Hub, as_json: bool) -> anyhow::Result<()> {
    let own = hub.cache();
    let caches =
        || std::iter::once((own, true)).chain(hub.others().iter().map(|cache| (cache, false)));
    let all: Vec<(Here, bool)> = caches().flat_map(|(cache, ours)| held(cache, ours)).collect();
    let unfinished: Vec<(Repo, u64)> = own
        .repos()
        .into_iter()
        .map(|repo| (repo.clone(), own.unfinished(&repo)))
        .filter(|(_, parts)| !parts.is_empty())
        .map(|(repo, parts)| (repo, parts.iter().map(|(_, bytes)| bytes).sum()))
        .collect();
    if as_json {
        let model = |(here, ours): &(Here, bool)| {
            json!({
                "reference": name(here), "path": here.path, "commit": here.commit, "bytes": here.choice.bytes(),
                "read_only": !ours,
            })
        };
        let part =
            |(repo, bytes): &(Repo, u64)| json!({"repository": repo.to_string(), "bytes": bytes});
        let report = json!({
            "cache": own.root(), "models": all.iter().map(model).collect::<Vec<_>>(),
            "unfinished": unfinished.iter().map(part).collect::<Vec<_>>(), "demos": demos(&all),
        });
        return put(&format!("{report:#}\n"));
    }
    let mut text = format!("in {}:\n", own.root().display());
    for (here, ours) in &all {
        let other = if *ours { "" } else { "  (another program's)" };
        text += &format!("  {:<60} {:>7}{other}\n", name(here), bytes(here.choice.bytes()));
    }
    for (repo, held) in &unfinished {
        text +=
            &format!("  hf:{repo:<57} {:>7}  unfinished: pull it again, or rm it\n", bytes(*held));
    }
    if all.is_empty() && unfinished.is_empty() {
        text += "  none yet: rinfer pull demo:tiny\n";
    }
    text += "pinned:\n";
    for demo in &DEMOS {
        let here = if is_here(demo, &all) { ", here" } else { "" };
        let size = demo.size.map_or_else(String::new, |size| format!(", {}", bytes(size)));
        text += &format!("  demo:{:<8} {}{size}, {}{here}\n", demo.name, demo.about, demo.licence);
    }
    put(&text)
}

/// What can be named without asking the hub: models that are here, and the pinned ones.
pub fn names(hub: &Hub) -> Vec<String> {
    let own = held(hub.cache(), true);
    let others = hub.others().iter().flat_map(|cache| held(cache, false));
    let here = own.into_iter().chain(others).map(|(here, _)| name(&here));
    here.chain(DEMOS.iter().map(|demo| format!("demo:{}", demo.name))).collect()
}

fn held(cache: &Cache, ours: bool) -> Vec<(Here, bool)> {
    let models = cache.repos().into_iter().flat_map(|repo| cache.models(&repo));
    models.map(|here| (here, ours)).collect()
}

/// What the model is called on the command line.
fn name(here: &Here) -> String {
    format!("hf:{}:{}@{}", here.repo, tag(&here.choice), &here.commit)
}

fn demos(all: &[(Here, bool)]) -> Vec<Value> {
    let demo = |demo: &Demo| {
        json!({
            "name": format!("demo:{}", demo.name), "about": demo.about, "licence": demo.licence, "repository": demo.repo,
            "file": demo.file, "commit": demo.commit, "bytes": demo.size, "sha256": demo.sha256, "here": is_here(demo, all),
        })
    };
    DEMOS.iter().map(demo).collect()
}

fn is_here(demo: &Demo, all: &[(Here, bool)]) -> bool {
    all.iter().any(|(here, ours)| {
        *ours
            && here.repo.to_string() == demo.repo
            && here.choice.files.iter().any(|file| file.digest == demo.digest())
    })
}
