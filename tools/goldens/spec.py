"""What a family is to the generator.

A *family* is a function `f(v) -> Spec` where `v` is the Variant ('open' or 'held'); `v(a, b)` picks a for the open
variant and b for the held one.  Spec.config is the config.json exactly as a Hugging Face *hub* checkpoint writes it
(legacy keys such as rope_theta / rope_scaling), since that is what the engine has to read.
"""
import os
import warnings
from dataclasses import dataclass, field

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from transformers.utils import logging as hf_logging  # noqa: E402

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
torch.set_num_threads(1)

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Variant:
    def __init__(self, name):
        assert name in ("open", "held")
        self.name, self.held = name, name == "held"
        self.prompt_lens = (41, 7) if self.held else (37, 9)

    def __call__(self, open_value, held_value):
        return held_value if self.held else open_value


@dataclass
class Spec:
    config: dict
    auto: type = AutoModelForCausalLM           # class used to build / reload the model
    dtype: str = "bf16"                         # storage dtype of the checkpoint: bf16, f16 or f32
    target_std: float = 2.0                     # logits std aimed at by rescaling the head
    rules: list = field(default_factory=list)   # extra (regex, rule) init rules, first match wins; see INIT_RULES
    notes: str = ""                             # what this case exercises
    hub_config: dict = None                     # config.json to publish when it differs from the one transformers loads
    to_hub: object = None                       # fn(state) -> state: transformers' tensors -> the published layout
    to_twin: object = None                      # its inverse, checked on every load unless it drops tensors on purpose
    invertible: bool = True
    check_cache: bool = True                    # True: generate(); "manual": explicit positions; False: not checked
    margin: float = 1e-3
    cache_tol: float = 3e-4


FAMILIES = {}


def family(fn):
    FAMILIES[fn.__name__] = fn
    return fn
