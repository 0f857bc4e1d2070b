"""Logits, greedy continuations and hidden states of a loaded model."""
import re

import torch
from transformers import GenerationConfig

N_GREEDY = 24                         # greedy continuation recorded for every prompt


def no_eos(model):
    model.generation_config = GenerationConfig(do_sample=False, max_new_tokens=N_GREEDY, use_cache=True,
                                               pad_token_id=0, eos_token_id=None, bos_token_id=None)
    model.generation_config.eos_token_id = None


@torch.no_grad()
def full_logits(model, ids, **kw):
    return model(input_ids=torch.tensor([ids]), use_cache=False, **kw).logits[0].float()


@torch.no_grad()
def greedy(model, ids, check_cache=True, cache_tol=3e-4, **kw):
    """24 greedy ids; cached decoding must agree with recomputing the whole prefix at every step."""
    cur, steps = list(ids), []
    for _ in range(N_GREEDY):
        lg = full_logits(model, cur, **kw)[-1]
        steps.append(lg)
        cur.append(int(lg.argmax()))
    steps = torch.stack(steps)
    top = steps.topk(2, dim=-1).values
    margins = top[:, 0] - top[:, 1]
    out, cache_diff = cur[len(ids):], None
    if check_cache:
        got, logits = cached_manually(model, ids, **kw) if check_cache == "manual" else cached(model, ids, **kw)
        cache_diff = float((logits - steps).abs().max())
        assert got == out, f"cached greedy differs: {got} vs {out}"
        assert cache_diff < cache_tol, f"{'retry: ' if cache_diff < 0.05 else ''}cached logits differ by {cache_diff}"
    return out, margins, steps, cache_diff


def cached(model, ids, **kw):
    no_eos(model)
    g = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                       output_logits=True, return_dict_in_generate=True, **kw)
    return g.sequences[0, len(ids):].tolist(), torch.stack([x[0].float() for x in g.logits])


def cached_manually(model, ids, **kw):
    """Step by step with explicit positions, for families whose cache generate() mis-counts."""
    o = model(input_ids=torch.tensor([ids]), use_cache=True, **kw)
    past, got, logits = o.past_key_values, [], []
    for i in range(N_GREEDY):
        logits.append(o.logits[0, -1].float())
        got.append(int(logits[-1].argmax()))
        if i < N_GREEDY - 1:
            o = model(input_ids=torch.tensor([[got[-1]]]), past_key_values=past, use_cache=True,
                      position_ids=torch.tensor([[len(ids) + i]]), **kw)
    return got, torch.stack(logits)


def find_layers(model):
    """The decoder layer ModuleList (longest list of blocks whose parent is the text backbone)."""
    c = model.config.get_text_config()
    n = getattr(c, "num_hidden_layers", None) or getattr(c, "n_layer", None)
    best = None
    for name, m in model.named_modules():
        if isinstance(m, torch.nn.ModuleList) and not re.search(r"expert|vision|visual|mtp", name):
            if re.search(r"(layers|\.h|blocks|block|\.layer)$", name) and (best is None or (len(m) == n and len(best) != n)):
                best = m
    return best


@torch.no_grad()
def record_hidden(model, ids, **kw):
    """Outputs of every decoder layer (before the final norm), the input of layer 0 and the input of the head."""
    rec, hooks = {}, []

    def layer_hook(i):
        def hook(mod, args, kwargs, out):
            if i == 0 and "embed" not in rec:
                rec["embed"] = (args[0] if args else kwargs.get("hidden_states")).detach().float().clone()
            rec[str(i)] = (out if torch.is_tensor(out) else out[0]).detach().float().clone()
        return hook

    for i, layer in enumerate(find_layers(model)):
        hooks.append(layer.register_forward_hook(layer_hook(i), with_kwargs=True))
    head = model.get_output_embeddings()
    if head is not None:
        hooks.append(head.register_forward_hook(lambda m, a, o: rec.__setitem__("final", a[0].detach().float().clone())))
    try:
        model(input_ids=torch.tensor([ids]), use_cache=False, **kw)
    finally:
        for h in hooks:
            h.remove()
    return {k: t.squeeze(0) if t.dim() == 3 and t.shape[0] == 1 else t for k, t in rec.items()}
